"""How replies are written: JSON without secrets, and one sentence where there is no answer."""

from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic_core import to_json

from kernelwright.errors import BlockedError, InputError, KernelwrightError
from kernelwright.service.api.record import Problem
from kernelwright.service.api.secret import Redactor


def written(content: object) -> str:
    """Write what JSON can hold; NaN and infinities are null in it."""
    return to_json(content, inf_nan_mode="null").decode()


def reply_class(redactor: Redactor) -> type[JSONResponse]:
    """Return a kind of reply whose JSON holds no secret; what is no number is null in it."""

    class Reply(JSONResponse):
        def render(self, content: Any) -> bytes:  # noqa: ANN401
            return redactor.in_json(written(content)).encode()

    return Reply


def redactor_of(request: Request) -> Redactor:
    """Return the application's redactor."""
    redactor: Redactor = request.app.state.redactor
    return redactor


def problem(request: Request, error: Exception) -> JSONResponse:
    """Answer an expected error with its sentence."""
    status = 500
    if isinstance(error, InputError):
        status = 404 if str(error).startswith("no ") else 400
    elif isinstance(error, BlockedError):
        status = 503
    sentence = "the server failed, which is a fault of its own; its terminal says where."
    if isinstance(error, KernelwrightError):
        sentence = " ".join(str(error).split())
    return reply_class(redactor_of(request))(
        Problem(error=sentence).model_dump(), status_code=status
    )
