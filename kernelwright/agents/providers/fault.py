"""What can go wrong with one request, in one vocabulary for every provider."""

import math
import re
from enum import StrEnum

from kernelwright.agents.cap_text import in_time
from kernelwright.agents.message import Usage, whole_characters
from kernelwright.errors import ModelError


class ReplyError(ModelError):
    """The model answered, and the answer cannot be used; another prompt may fare better."""


class OutageError(ModelError):
    """The service failed through every retry; later it may not."""


class QuotaError(OutageError):
    """The account has no money or quota left; only its owner can mend that."""


class AskedToWaitError(OutageError):
    """The server wants no request for longer than anybody waits here for a reply."""

    def __init__(self, model: str, wait_s: float, said: str) -> None:
        super().__init__(
            f"{model} asks to wait {_roughly(wait_s)} ({said}); it is left alone until then."
        )
        self.model = model
        self.wait_s = wait_s
        self.said = said

    def with_left(self, wait_s: float) -> "AskedToWaitError":
        """Return what is to be said when only `wait_s` of the wait are left."""
        return AskedToWaitError(self.model, wait_s, self.said)


class UnusableModelError(ModelError):
    """The key, the model's name, the address or the request is wrong, and stays so by itself."""


class FaultKind(StrEnum):
    """Why a request gave no reply."""

    BAD_KEY = "bad key"
    FORBIDDEN = "forbidden"
    """403: the key is known, and this is not allowed with it, or not from here."""
    UNKNOWN_MODEL = "unknown model"
    CONTEXT_OVERFLOW = "context overflow"
    BAD_REQUEST = "bad request"
    UNSUPPORTED = "unsupported feature"
    """The server refused a feature that the wire has now given up; ask again at once."""
    QUOTA = "quota spent"
    """The account has no money or quota left; asking again at once brings nothing."""
    BUSY = "busy"
    """408, 409, 429, 503 and 529."""
    SERVER_ERROR = "server error"
    """Any other 5xx, of the server or of a gateway before it."""
    WEB_PAGE = "web page"
    """HTML with status 200: a login page, or a URL that is no API's."""
    NO_API = "no API"
    """HTML that refuses the request: of a proxy, or of a URL that is no API's."""
    REDIRECTED = "redirected"
    """The server sends requests elsewhere, which nobody has chosen; the message says where."""
    NO_PATH = "no such path"
    """404 of a server that has no such path, where no model is named: the base URL is another."""
    REFUSED_PROMPT = "refused prompt"
    """The provider's filter refused what the prompt says; another model may not."""
    EMPTY = "empty reply"
    """The server ended its reply in order and said nothing: no text, no call, no thought."""
    UNREADABLE = "unreadable reply"
    """The server answered, with something that is no reply in its API's format."""
    UNREACHABLE = "unreachable"
    UNSENT = "not sent"
    """The request could not be written, so that no server has a part in it."""
    DROPPED = "dropped"
    """The connection broke, timed out or stalled after the request had left."""
    TOO_LONG = "too long"


RETRYABLE = frozenset(
    {
        FaultKind.BUSY,
        FaultKind.SERVER_ERROR,
        FaultKind.UNREACHABLE,
        FaultKind.DROPPED,
        FaultKind.TOO_LONG,
        FaultKind.WEB_PAGE,
        FaultKind.EMPTY,
        FaultKind.UNREADABLE,
    }
)
PASSING = RETRYABLE | {FaultKind.QUOTA}
"""What may be over later, without anybody changing the search."""
OF_THE_PROMPT = frozenset(
    {
        FaultKind.CONTEXT_OVERFLOW,
        FaultKind.REFUSED_PROMPT,
        FaultKind.TOO_LONG,
        FaultKind.UNREADABLE,
        FaultKind.EMPTY,
        FaultKind.UNSENT,
    }
)
"""What another prompt may fare better with: no reason to end a night, or to leave models alone."""
LASTING = frozenset(FaultKind) - RETRYABLE - OF_THE_PROMPT - {FaultKind.UNSUPPORTED}
"""What no waiting heals and no other prompt."""
RETRYABLE_STATUS = frozenset({408, 409, 429})
_UNBILLED = frozenset(FaultKind) - {
    FaultKind.DROPPED,
    FaultKind.TOO_LONG,
    FaultKind.EMPTY,
    FaultKind.UNREADABLE,
}
_BUSY_STATUS = frozenset({503, 529})
_QUOTA_WORDS = (
    "insufficient_quota",
    "exceeded your current quota",
    "credit balance",
    "insufficient credit",
    "insufficient balance",
    "insufficient funds",
    "out of credit",
    "billing_error",
    "billing_hard_limit_reached",
    "billing_not_active",
)
_FILTER_WORDS = (
    "invalid_prompt",
    "flagged",
    "usage policy",
    "content_filter",
    "content filter",
    "content management policy",
    "content_policy_violation",
)
_OVERFLOW_WORDS = (
    "context length",
    "context window",
    "context limit",
    "context size",
    "inputs` must have less than",
    "input token count",
    "prompt token count",
    "context_length",
    "maximum context",
    "prompt is too long",
    "too many tokens",
    "input is too long",
)


ANOTHER = "; try another model"
"""The advice where nothing else helps."""
CUT_SHORT = "the stream ended in the middle of the reply"
EMPTY = "the reply is empty"


class Fault(Exception):  # noqa: N818 - a fault is retried; only what is left of it is an error
    """One request failed; `retry_after_s` is what the server asked for."""

    def __init__(
        self,
        kind: FaultKind,
        message: str,
        *,
        retry_after_s: float | None = None,
        usage: Usage | None = None,
        is_bill: bool = False,
    ) -> None:
        # Error bodies are JSON too, which may spell what no record and no terminal can hold.
        message = whole_characters(message)
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retry_after_s = retry_after_s
        self.usage = usage
        """What the server had reported before it failed."""
        self.is_bill = is_bill
        """True when the usage is of the whole request, so that nothing is charged beyond it."""

    @property
    def is_retryable(self) -> bool:
        """True when the same request may succeed later."""
        return self.kind in RETRYABLE

    @property
    def may_be_billed(self) -> bool:
        """True when the server may have worked on the request and charge for it."""
        return self.kind not in _UNBILLED


def kind_of_status(status: int, message: str, code: str = "") -> FaultKind:
    """Classify an HTTP status and the server's own words, those for machines among them."""
    words = f"{message} {code}".lower()
    if status == 402 or (status < 500 and any(word in words for word in _QUOTA_WORDS)):
        return FaultKind.QUOTA
    if status in (401, 403):
        return FaultKind.BAD_KEY if status == 401 else FaultKind.FORBIDDEN
    if status == 404:
        return FaultKind.UNKNOWN_MODEL if "model" in words else FaultKind.NO_PATH
    if status == 413 or (
        status in (400, 422, 500) and any(word in words for word in _OVERFLOW_WORDS)
    ):
        return FaultKind.CONTEXT_OVERFLOW
    if status == 400 and any(word in words for word in _FILTER_WORDS):
        return FaultKind.REFUSED_PROMPT
    if status in RETRYABLE_STATUS or status in _BUSY_STATUS:
        return FaultKind.BUSY
    return FaultKind.SERVER_ERROR if status >= 500 else FaultKind.BAD_REQUEST


_PAGE = re.compile(r"\s*(<!doctype|<html|<head|<body|<\?xml)", re.IGNORECASE)
_LONGEST_QUOTE = 300
_LONGEST_IN_SENTENCE = 160
"""Characters of a server's words, so that the advice behind them is read."""


def is_page(words: str) -> bool:
    """Say whether a server's words are HTML, which no API sends."""
    return _PAGE.match(words) is not None


def said_with(status: int, words: str) -> str:
    """Return a server's words as a person can read them, in a line; a page is named, not shown."""
    if is_page(words):
        return f"status {status} with a web page"
    line = " ".join(words.split())
    return line[:_LONGEST_QUOTE] or f"status {status}"


def retry_sentence(model: str, fault: Fault) -> str:
    """Say in one sentence why a request is repeated after a wait."""
    if fault.retry_after_s:
        wait = _roughly(fault.retry_after_s)
        return f"{model} asks to wait {wait} ({_gist(fault)}); trying again then."
    what = {
        FaultKind.UNREACHABLE: "cannot be reached yet",
        FaultKind.BUSY: "is busy, or asks to wait",
    }.get(fault.kind, "failed")
    return f"{model} {what} ({_gist(fault)}); trying again."


def _roughly(seconds: float) -> str:
    """Write a wait in the unit that people would use for it, rounded up."""
    unit_s = 3600 if seconds >= 36_000 else 60 if seconds >= 120 else 1
    return in_time(math.ceil(seconds / unit_s) * unit_s)


def wait_error(model: str, fault: Fault, wait_s: float) -> AskedToWaitError:
    """Return what is said where a server asks for a wait that nobody stands by for."""
    return AskedToWaitError(model, wait_s, _gist(fault))


def _gist(fault: Fault) -> str:
    said = fault.message.strip().rstrip(".")
    if len(said) <= _LONGEST_IN_SENTENCE:
        return said
    return f"{said[:_LONGEST_IN_SENTENCE].rstrip()} …"


def sentence(model: str, fault: Fault) -> str:
    """Say in one sentence what happened and what to do."""
    # `openai-responses` and `anthropic-batch` take the key of the provider.
    provider = model.split(":", 1)[0].partition("-")[0]
    variable = f"{provider.upper()}_API_KEY"
    said = _gist(fault)
    match fault.kind:
        case FaultKind.BAD_KEY:
            return f"{model} refuses the key ({said}); set {variable} to a valid one."
        case FaultKind.FORBIDDEN:
            return (
                f"{model} may not be used with this key or from here ({said}); check what the "
                f"account of {variable} allows."
            )
        case FaultKind.REFUSED_PROMPT:
            return f"{model} refused ({said}){ANOTHER}."
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
        case FaultKind.UNSENT:
            return (
                f"{model} was not asked: Kernelwright could not write the request ({said}), which "
                "is a fault of its own; please report it."
            )
        case FaultKind.QUOTA:
            return (
                f"{model} has no quota left ({said}); add credit or raise the limit at the "
                "provider, or name another model."
            )
        case FaultKind.SERVER_ERROR:
            return (
                f"{model} failed through every retry ({said}); the server or a gateway before it "
                "is at fault: try again later, and check --base-url if you gave one."
            )
        case FaultKind.NO_PATH:
            example = "http://127.0.0.1:8080" + ("" if provider == "anthropic" else "/v1")
            return (
                f"{model} is not served there ({said}); expected --base-url to end where its API "
                f"begins, such as {example}."
            )
        case FaultKind.WEB_PAGE | FaultKind.NO_API:
            return (
                f"{model} is not served there ({said}); expected a stream of its API's events: "
                "check --base-url, and whether the network wants a login."
            )
        case FaultKind.REDIRECTED:
            return (
                f"{model} is not served there: the server redirects to {fault.message}; give that "
                "as --base-url if it is meant."
            )
        case FaultKind.EMPTY:
            return (
                f"{model} sent nothing but empty replies; try again later, or choose another model."
            )
        case FaultKind.UNREADABLE:
            return (
                f"{model} sent no reply that can be read ({said}); expected a stream of its API's "
                "events: check that the server speaks this API, or choose another model."
            )
        case FaultKind.BUSY:
            return f"{model} stayed busy through every retry ({said}); try again later."
        case FaultKind.TOO_LONG:
            return f"{model} sent more than a reply may hold ({said}); choose another model."
        case FaultKind.DROPPED:
            return f"{model} broke off every reply ({said}); try again later."
        case _:
            return f"{model} refused the request ({said}); check the account and the model."
