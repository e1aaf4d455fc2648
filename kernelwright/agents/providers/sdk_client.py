"""What the clients of all SDKs share: HTTP with bounds, and how what broke is told."""

import json
import re
from collections.abc import AsyncIterator, Collection, Mapping

import httpx2

from kernelwright.agents.providers.client import (
    Endpoint,
    Features,
    Limits,
    ReplyMode,
    TooManyBytes,
)
from kernelwright.agents.providers.fault import (
    RETRYABLE,
    Fault,
    FaultKind,
    is_page,
    kind_of_status,
    said_with,
)

_EXCERPT_BYTES = 120
_STREAMED = ("/messages", "/completions", "/responses")
"""Where requests ask for a stream of events."""
_PAGES = frozenset({"text/html", "application/xhtml+xml"})
_NO_STREAMS = _PAGES | {"application/json"}
"""Other servers than the providers' own may call a stream what they like, but not this."""


class NoStream(Exception):  # noqa: N818 - becomes a Fault at the wire
    """A server answered with status 200 and something that is no stream of events."""

    def __init__(self, message: str, *, is_page: bool) -> None:
        super().__init__(message)
        self.is_page = is_page


async def _excerpt(response: httpx2.Response) -> str:
    """Return the beginning of a body in a line, and let go of the rest."""
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    found = b""
    async for chunk in response.stream:
        found += chunk
        if len(found) >= _EXCERPT_BYTES:
            break
    await response.stream.aclose()
    text = " ".join(found[:_EXCERPT_BYTES].decode(errors="replace").split())
    return repr(text) if text else "nothing"


class _CountedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most_bytes: int) -> None:
        self._stream = stream
        self._most_bytes = most_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for chunk in self._stream:
            seen += len(chunk)
            if seen > self._most_bytes:
                raise TooManyBytes(f"more than {self._most_bytes} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """HTTP that stops reading an endless reply, before any SDK buffers it."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        # Servers that send an event for every token wrap 4 bytes in 300.
        self._most_bytes = 10 * limits.reply_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request whose response counts what it reads."""
        response = await super().handle_async_request(request)
        if response.status_code == 200 and request.url.path.endswith(_STREAMED):
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind in _NO_STREAMS:
                excerpt = await _excerpt(response)
                found = "a web page" if kind in _PAGES else f"{kind}: {excerpt}"
                # Without a user's name and password, which the URL may hold.
                url = request.url
                place = f"{url.scheme}://{url.netloc.decode()}{url.path}"
                raise NoStream(f"{place} sent {found}", is_page=kind in _PAGES)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _CountedStream(response.stream, self._most_bytes)
        return response


_UNREADABLE = (ValueError, AttributeError, TypeError, LookupError)
"""What an event raises that is no JSON, no UTF-8, or not what the SDK takes it for unchecked."""
BROKEN = (
    httpx2.HTTPError,
    httpx2.StreamError,
    TooManyBytes,
    NoStream,
    TimeoutError,
    *_UNREADABLE,
)
"""What a broken or unreadable stream raises beside an SDK's own errors."""


class SdkClient:
    """What the clients of all providers share: a name, features, how what broke is told."""

    def __init__(self, endpoint: Endpoint, words: Mapping[str, tuple[str, ...]]) -> None:
        """Take an endpoint and the words by which its servers name each feature in an error."""
        self._endpoint = endpoint
        self._features = Features(words)
        self._allowed_tokens: int | None = None
        """What the server allows a reply at most, once it has said so."""
        self._asked_tokens = 0

    @property
    def name(self) -> str:
        """Return `provider:model`."""
        return self._endpoint.name

    @property
    def mode(self) -> ReplyMode:
        """Return how replies are held to their shape at present."""
        return self._features.mode

    def _output_tokens(self, limits: Limits) -> int:
        """Return how many tokens a reply may have, by the limits and by the server."""
        allowed = self._allowed_tokens or limits.output_tokens
        self._asked_tokens = min(limits.output_tokens, allowed)
        return self._asked_tokens

    def _broken(self, error: Exception) -> Fault:
        """Return the fault that a broken connection stands for, the key left out."""
        fault = broken_fault(error)
        fault.message = self._endpoint.key.redact(fault.message)
        return fault

    def _refused(
        self, status: int, said: str, in_use: Collection[str], headers: Mapping[str, str]
    ) -> Fault:
        """Return the fault of a refused request, a concession where it names a feature in use."""
        # Before the words are cut to a line, which may cut a key in two.
        message = said_with(status, self._endpoint.key.redact(said))
        if is_page(said) and kind_of_status(status, message) not in RETRYABLE:
            return Fault(FaultKind.NO_API, message)
        if status in (400, 422):
            if allowed := _allowed_tokens(message, self._asked_tokens):
                self._allowed_tokens = allowed
                return Fault(FaultKind.UNSUPPORTED, message)
            if self._features.concede(message, in_use):
                return Fault(FaultKind.UNSUPPORTED, message)
        return status_fault(status, message, headers)


_OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_TOO_MANY = re.compile(r"too (large|high|big)|at most|maximum|exceed|less than|>", re.IGNORECASE)
_LEAST_TOKENS = 256
"""Below it no reply holds a record."""


def _allowed_tokens(message: str, asked: int) -> int | None:
    """Return the limit that a server names where it refuses that of a reply, if it does.

    Of several numbers in its words the largest below what was asked is tried first.
    """
    if not any(name in message for name in _OUTPUT_LIMITS) or not _TOO_MANY.search(message):
        return None
    numbers = (int(n.replace(",", "")) for n in re.findall(r"\b\d[\d,]*\b(?!-)", message))
    return max((n for n in numbers if _LEAST_TOKENS <= n < asked), default=None)


def status_fault(status: int, message: str, headers: Mapping[str, str]) -> Fault:
    """Return the fault that an HTTP error status stands for."""
    return Fault(kind_of_status(status, message), message, retry_after_s=_retry_after_s(headers))


def broken_fault(error: Exception) -> Fault:
    """Return the fault that a broken connection or an unreadable stream stands for."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TooManyBytes):
            return Fault(FaultKind.TOO_LONG, str(cause))
        if isinstance(cause, NoStream):
            kind = FaultKind.WEB_PAGE if cause.is_page else FaultKind.UNREADABLE
            return Fault(kind, str(cause))
        if isinstance(cause, _UNREADABLE):
            return Fault(FaultKind.UNREADABLE, _fault_in(cause))
        if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout):
            return Fault(FaultKind.UNREACHABLE, str(cause) or type(cause).__name__)
        cause = cause.__cause__
    return Fault(FaultKind.DROPPED, str(error) or type(error).__name__)


def _fault_in(error: Exception) -> str:
    """Say what is wrong with an event, not how a parser put it."""
    if isinstance(error, UnicodeDecodeError):
        return "the reply holds bytes that are no UTF-8"
    if isinstance(error, json.JSONDecodeError):
        return "the reply holds an event that is no JSON"
    return "the reply holds an event of another shape than the API's"


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    for header, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return float(headers[header]) * scale
        except (KeyError, ValueError):
            # An HTTP date is allowed too; back-off serves as well and needs no clock.
            continue
    return None


def timeouts(limits: Limits, *, read_s: float) -> httpx2.Timeout:
    """Return what the HTTP client waits for: to connect, and between two reads."""
    return httpx2.Timeout(limits.total_s, connect=limits.connect_s, read=read_s)
