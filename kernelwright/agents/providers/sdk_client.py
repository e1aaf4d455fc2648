"""What the clients of all SDKs share: HTTP with bounds, and how what broke is told."""

import json
import math
import re
from collections.abc import AsyncIterator, Collection, Mapping

import httpx2

from kernelwright.agents.message import Prompt
from kernelwright.agents.providers.client import (
    Endpoint,
    Features,
    Limits,
    ReplyMode,
    TooManyBytes,
)
from kernelwright.agents.providers.departure import current_departure
from kernelwright.agents.providers.fault import (
    RETRYABLE,
    Fault,
    FaultKind,
    is_page,
    kind_of_status,
    said_with,
)
from kernelwright.agents.providers.output_limit import Asked, OutputLimit

_EXCERPT = 120
"""Characters of a body that is no reply."""
_PROMPTED = ("/messages", "/completions", "/responses")
"""Where requests ask for a reply."""
_ENDPOINTS = ("/messages", "/chat/completions", "/responses")
"""What clients put behind a base URL."""
_PAGES = frozenset({"text/html", "application/xhtml+xml"})
_LONGEST_READ = 4000
"""Characters of a refusal: gateways put their own words before the server's."""
_REFUSES_A_FEATURE = (400, 405, 422, 501)
_MAY_REFUSE_A_FEATURE = (500, 502)
"""llama.cpp's for what a model's template raises, and gateways' for what stands behind them."""
_REFUSAL = re.compile(
    r"unsupported|unrecogni[sz]ed|only\b.*\bsupported|must alternate|"
    r"(not|n't|never) (yet |be )?(support|implement|allow|permit|accept|recogni[sz]e)",
    re.IGNORECASE,
)


class NoReply(Exception):  # noqa: N818 - becomes a Fault at the wire
    """A server answered with status 200 and something that is no reply of its API."""

    def __init__(self, message: str, *, is_page: bool) -> None:
        super().__init__(message)
        self.is_page = is_page


class Redirected(Exception):  # noqa: N818 - becomes a Fault at the wire
    """A server sends requests elsewhere: whoever is there has not been chosen to read prompts."""


def _content_type(response: httpx2.Response) -> str:
    told: str = response.headers.get("content-type", "")
    return told.partition(";")[0].strip().lower()


def _place(url: httpx2.URL) -> str:
    """Return where an API is served, without a user's name and password."""
    return f"{url.scheme}://{url.netloc.decode()}{url.path}"


def _base_of(url: httpx2.URL) -> str:
    """Return the base URL for which requests go to this one, where it looks like an API's."""
    place = _place(url)
    ending = next((path for path in _ENDPOINTS if place.endswith(path)), "")
    return place.removesuffix(ending)


async def whole_body(response: httpx2.Response, field: str) -> dict[str, object] | None:
    """Return a reply that came at once, None where it comes as a stream of events.

    Args:
        response: an answer with status 200.
        field: what every reply of its API has.

    Raises:
        NoReply: it is no reply.
    """
    # Other servers than the providers' own may call a stream what they like, but not this.
    if (kind := _content_type(response)) != "application/json":
        return None
    text = (await response.aread()).decode(errors="replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and found.get(field) is not None:
        return found
    excerpt = repr(" ".join(text[:_EXCERPT].split())) if text.strip() else "nothing"
    raise NoReply(f"{_place(response.request.url)} sent {kind}: {excerpt}", is_page=False)


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
        request.extensions = {**request.extensions, "trace": current_departure().trace}
        response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        if (target := response.headers.get("location")) and response.is_redirect:
            await response.stream.aclose()
            raise Redirected(_base_of(request.url.join(target)))
        is_page = _content_type(response) in _PAGES
        if is_page and response.status_code == 200 and request.url.path.endswith(_PROMPTED):
            await response.stream.aclose()
            raise NoReply(f"{_place(request.url)} sent a web page", is_page=True)
        response.stream = _CountedStream(response.stream, self._most_bytes)
        return response


_UNREADABLE = (ValueError, AttributeError, TypeError, LookupError)
"""What an event raises that is no JSON, no UTF-8, or not what the SDK takes it for unchecked."""
_UNWRITABLE = (httpx2.LocalProtocolError, httpx2.UnsupportedProtocol)
"""What the HTTP client raises for a request that it cannot write."""
BROKEN = (
    httpx2.HTTPError,
    httpx2.StreamError,
    TooManyBytes,
    NoReply,
    Redirected,
    TimeoutError,
    *_UNREADABLE,
)
"""What a broken or unreadable stream raises beside an SDK's own errors."""


class SdkClient:
    """What the clients of all providers share: a name, features, how what broke is told."""

    def __init__(
        self,
        endpoint: Endpoint,
        words: Mapping[str, tuple[str, ...]],
        holders: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Take an endpoint, and what its servers name in an error; see `Features`."""
        self._endpoint = endpoint
        self._features = Features(words, holders)
        self._output_limit = OutputLimit()

    @property
    def name(self) -> str:
        """Return `provider:model`."""
        return self._endpoint.name

    @property
    def mode(self) -> ReplyMode:
        """Return how replies are held to their shape at present."""
        return self._features.mode

    @property
    def streams(self) -> bool:
        """Return whether replies are asked for as streams at present."""
        return "stream" in self._features

    async def _at_once(self, response: httpx2.Response, field: str) -> dict[str, object] | None:
        """Return a reply that is no stream, as `whole_body` does, and ask for none from then on."""
        body = await whole_body(response, field)
        if body is not None:
            self._features.give_up("stream")
        return body

    def _fitted(self, prompt: Prompt, limits: Limits) -> Limits:
        """Return the limits, the tokens of a reply cut to what the server allows."""
        most = self._output_limit.tokens(prompt.bytes_sent, limits.output_tokens)
        return limits.model_copy(update={"output_tokens": most})

    def _broken(self, error: Exception) -> Fault:
        """Return the fault that a broken connection stands for, the key left out."""
        fault = broken_fault(error) if current_departure().has_left else unsent_fault(error)
        fault.message = self._endpoint.key.redact(fault.message)
        return fault

    def _refused(
        self, status: int, said: str, asked: Asked, headers: Mapping[str, str], *, code: str
    ) -> Fault:
        """Return the fault of a refused request, a concession where it names a feature in use."""
        # Before the words are cut to a line, which may cut a key in two.
        said = self._endpoint.key.redact(said)
        message = said_with(status, said)
        if is_page(said) and kind_of_status(status, message) not in RETRYABLE:
            return Fault(FaultKind.NO_API, message)
        if status in (*_REFUSES_A_FEATURE, *_MAY_REFUSE_A_FEATURE):
            if (kind := self._output_limit.learn(said[:_LONGEST_READ], asked)) is not None:
                return Fault(kind, message)
            # Servers that fail name much of what they were at, too.
            is_refusal = status in _REFUSES_A_FEATURE or _REFUSAL.search(message) is not None
            if is_refusal and self._features.concede(message, asked.in_use):
                return Fault(FaultKind.UNSUPPORTED, message)
        kind = kind_of_status(status, message, code)
        return Fault(kind, message, retry_after_s=_retry_after_s(headers))


def code_in(body: object) -> str:
    """Return the words for machines in an error's body, its code and its type.

    Args:
        body: the error, or what has it as `error`.
    """
    if not isinstance(body, Mapping):
        return ""
    if isinstance(inner := body.get("error"), Mapping):
        body = inner
    words = (body.get("code"), body.get("type"))
    return " ".join(word for word in words if isinstance(word, str))


def broken_fault(error: Exception) -> Fault:
    """Return the fault that a broken connection or an unreadable stream stands for."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TooManyBytes):
            return Fault(FaultKind.TOO_LONG, str(cause))
        if isinstance(cause, NoReply):
            kind = FaultKind.WEB_PAGE if cause.is_page else FaultKind.UNREADABLE
            return Fault(kind, str(cause))
        if isinstance(cause, Redirected):
            return Fault(FaultKind.REDIRECTED, str(cause))
        if isinstance(cause, _UNREADABLE):
            return Fault(FaultKind.UNREADABLE, _fault_in(cause))
        if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout):
            return Fault(FaultKind.UNREACHABLE, str(cause) or _broken_words(cause))
        cause = cause.__cause__
    return Fault(FaultKind.DROPPED, str(error) or _broken_words(error))


def unsent_fault(error: Exception) -> Fault:
    """Return the fault that keeps a request from leaving: the server has no part in it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, httpx2.TransportError) and not isinstance(cause, _UNWRITABLE):
            return Fault(FaultKind.UNREACHABLE, str(cause) or _broken_words(cause))
        if isinstance(cause, TimeoutError):
            return Fault(FaultKind.UNREACHABLE, _broken_words(cause))
        cause = cause.__cause__
    return Fault(FaultKind.UNSENT, type(error.__cause__ or error).__name__)


def _broken_words(error: Exception) -> str:
    """Say what became of a connection whose error has no words."""
    is_late = isinstance(error, TimeoutError | httpx2.TimeoutException)
    return "nothing came in time" if is_late else "the connection broke"


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
            wait_s = float(headers[header]) * scale
            if 0 <= wait_s < math.inf:
                return wait_s
        except (KeyError, ValueError):
            # An HTTP date is allowed too; back-off serves as well and needs no clock.
            continue
    return None


def stream_switch(in_use: Collection[str]) -> dict[str, bool] | None:
    """Return what is put over a request that the SDKs send with `stream: true`."""
    return None if "stream" in in_use else {"stream": False}


def reply_timeouts(limits: Limits, in_use: Collection[str], *, read_s: float) -> httpx2.Timeout:
    """Return what is waited for where a reply may be no stream, which then comes as a whole."""
    return timeouts(limits, read_s=read_s if "stream" in in_use else limits.total_s)


def timeouts(limits: Limits, *, read_s: float) -> httpx2.Timeout:
    """Return what the HTTP client waits for: to connect, and between two reads."""
    return httpx2.Timeout(limits.total_s, connect=limits.connect_s, read=read_s)
