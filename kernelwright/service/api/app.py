"""The application that `kernelwright serve` runs: the read API, the page and their guard."""

from importlib.metadata import version

from fastapi import Depends, FastAPI, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.requests import Request

from kernelwright.errors import KernelwrightError
from kernelwright.service.api.actions import actions
from kernelwright.service.api.guard import Access, Guard
from kernelwright.service.api.parameter import check_query
from kernelwright.service.api.record import Problem
from kernelwright.service.api.reply import problem, reply_class
from kernelwright.service.api.routes import routes
from kernelwright.service.api.secret import Redactor, known_secrets
from kernelwright.service.web.pages import pages
from kernelwright.store import KernelStore
from kernelwright.store.location import secrets_of
from kernelwright.validation import sentence_of

REFUSALS: tuple[tuple[int | str, str], ...] = (
    (400, "A parameter is wrong, or what is asked cannot be done now."),
    (401, "The server's token is missing."),
    (403, "The request comes from another site, or lacks the header x-kernelwright."),
    (404, "There is nothing of that name."),
    (405, "The address takes another method."),
    (421, "The server does not answer to the request's host name."),
    (422, "A parameter is of the wrong type or out of range."),
    (500, "The server failed, or its store did."),
    (503, "The store cannot be read or written now."),
)
"""The statuses of replies that hold an error, and what each says."""


def create_app(store: KernelStore, access: Access | None = None) -> FastAPI:
    """Return the application over an open store; who made the store closes it."""
    access = access or Access()
    redactor = Redactor((*known_secrets(), *secrets_of(store.url), *filter(None, [access.token])))
    app = FastAPI(
        title="Kernelwright",
        version=version("kernelwright"),
        summary="The kernel store, live.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses={status: {"model": Problem, "description": why} for status, why in REFUSALS},
    )
    # The guard checks the token; this describes it.
    token = HTTPBearer(
        auto_error=False, scheme_name="token", description="What `kernelwright serve` printed."
    )
    app.state.store = store
    app.state.redactor = redactor
    for router in (routes, actions):
        app.include_router(
            router,
            default_response_class=reply_class(redactor),
            dependencies=[Depends(check_query), *([Security(token)] if access.token else [])],
        )
    app.include_router(pages)
    app.add_exception_handler(KernelwrightError, problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _no_answer)
    app.add_exception_handler(Exception, problem)
    app.add_middleware(Guard, access=access)
    return app


def _no_answer(request: Request, error: Exception) -> JSONResponse:
    """Answer for an address or a method that there is not."""
    assert isinstance(error, HTTPException)
    path = request.url.path[:200]
    sentence = f"there is nothing at {path}; GET /api/v1/openapi.json lists the addresses."
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        sentence = f"expected {allowed} at {path}, found {request.method}."
    return JSONResponse(
        Problem(error=sentence).model_dump(), status_code=error.status_code, headers=error.headers
    )


def _invalid(request: Request, error: Exception) -> JSONResponse:
    """Name the first parameter that is wrong, without repeating what was given."""
    assert isinstance(error, RequestValidationError)
    # Where it was given, the address or the body, begins each place.
    begin = {f"{f['loc'][0]}.{f['loc'][1]}": str(f["loc"][1]) for f in error.errors()}
    sentence = sentence_of(error, names=begin, repeats_input=False)
    return JSONResponse(Problem(error=sentence).model_dump(), status_code=422)
