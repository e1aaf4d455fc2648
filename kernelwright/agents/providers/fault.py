"""What can go wrong with one request, in one vocabulary for every provider."""

from enum import StrEnum

from kernelwright.agents.message import Usage
from kernelwright.errors import ModelError


class ReplyError(ModelError):
    """The model answered, and the answer cannot be used; another prompt may fare better."""


class OutageError(ModelError):
    """The service failed through every retry; later it may not."""


class FaultKind(StrEnum):
    """Why a request gave no reply."""

    BAD_KEY = "bad key"
    UNKNOWN_MODEL = "unknown model"
    CONTEXT_OVERFLOW = "context overflow"
    BAD_REQUEST = "bad request"
    UNSUPPORTED = "unsupported feature"
    """The server refused a feature that the wire has now given up; ask again at once."""
    BUSY = "busy"
    """408, 409, 429 and 5xx, 529 among them."""
    UNREACHABLE = "unreachable"
    DROPPED = "dropped"
    """The connection broke, timed out or stalled after the request had left."""
    TOO_LONG = "too long"


RETRYABLE = frozenset(
    {FaultKind.BUSY, FaultKind.UNREACHABLE, FaultKind.DROPPED, FaultKind.TOO_LONG}
)
RETRYABLE_STATUS = frozenset({408, 409, 429})
_UNBILLED = frozenset(FaultKind) - {FaultKind.DROPPED, FaultKind.TOO_LONG}
_OVERFLOW_WORDS = (
    "context length",
    "context window",
    "context_length",
    "maximum context",
    "prompt is too long",
    "too many tokens",
    "input is too long",
)


class Fault(Exception):  # noqa: N818 - a fault is retried; only what is left of it is an error
    """One request failed; `retry_after_s` is what the server asked for."""

    def __init__(
        self,
        kind: FaultKind,
        message: str,
        *,
        retry_after_s: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retry_after_s = retry_after_s
        self.usage = usage
        """What the server had reported before it failed."""

    @property
    def is_retryable(self) -> bool:
        """True when the same request may succeed later."""
        return self.kind in RETRYABLE

    @property
    def may_be_billed(self) -> bool:
        """True when the server may have worked on the request and charge for it."""
        return self.kind not in _UNBILLED


def kind_of_status(status: int, message: str) -> FaultKind:
    """Classify an HTTP status and the server's own words."""
    words = message.lower()
    if status in (401, 403):
        return FaultKind.BAD_KEY
    if status == 404:
        return FaultKind.UNKNOWN_MODEL
    if status == 413 or (status == 400 and any(word in words for word in _OVERFLOW_WORDS)):
        return FaultKind.CONTEXT_OVERFLOW
    if status in RETRYABLE_STATUS or status >= 500:
        return FaultKind.BUSY
    return FaultKind.BAD_REQUEST


def sentence(model: str, fault: Fault) -> str:
    """Say in one sentence what happened and what to do."""
    # `openai-responses` and `anthropic-batch` take the key of the provider.
    provider = model.split(":", 1)[0].partition("-")[0]
    said = fault.message.strip().rstrip(".")
    match fault.kind:
        case FaultKind.BAD_KEY:
            variable = f"{provider.upper()}_API_KEY"
            return f"{model} refuses the key ({said}); set {variable} to a valid one."
        case FaultKind.UNKNOWN_MODEL:
            return (
                f"{model} is not a model that the server knows ({said}); check the name, "
                "and --base-url if you gave one."
            )
        case FaultKind.CONTEXT_OVERFLOW:
            return (
                f"the prompt does not fit {model} ({said}); choose a model with a longer context."
            )
        case FaultKind.UNREACHABLE:
            return f"{model} cannot be reached ({said}); check the network and --base-url."
        case FaultKind.BUSY:
            return f"{model} stayed busy through every retry ({said}); try again later."
        case FaultKind.TOO_LONG:
            return f"{model} sent more than a reply may hold ({said}); choose another model."
        case FaultKind.DROPPED:
            return f"{model} broke off every reply ({said}); try again later."
        case _:
            return f"{model} refused the request ({said}); check the account and the model."
