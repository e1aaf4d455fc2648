"""The application that `kernelwright serve` runs: the read API, the page and their guard."""

from importlib.metadata import version

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.requests import Request

from kernelwright.errors import KernelwrightError
from kernelwright.service.api.actions import actions
from kernelwright.service.api.guard import Access, Guard
from kernelwright.service.api.record import Problem
from kernelwright.service.api.reply import problem, reply_class
from kernelwright.service.api.routes import routes
from kernelwright.service.api.secret import Redactor, known_secrets
from kernelwright.service.web.pages import pages
from kernelwright.store import KernelStore
from kernelwright.store.location import secrets_of


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
        responses={400: {"model": Problem}, 404: {"model": Problem}},
    )
    app.state.store = store
    app.state.redactor = redactor
    app.include_router(routes, default_response_class=reply_class(redactor))
    app.include_router(actions, default_response_class=reply_class(redactor))
    app.include_router(pages)
    app.add_exception_handler(KernelwrightError, problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_middleware(Guard, access=access)
    return app


def _invalid(request: Request, error: Exception) -> JSONResponse:
    """Name the first parameter that is wrong, without repeating what was given."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"][1:])) or "the request"
    sentence = f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}."
    return JSONResponse(Problem(error=sentence).model_dump(), status_code=422)
