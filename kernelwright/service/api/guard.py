"""Stands before every request: who may ask, under which name, and what a browser may do with it."""

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CSRF_HEADER = "x-kernelwright"
"""A header that a page of another origin cannot send unasked."""
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_SAFE = ("GET", "HEAD", "OPTIONS")
_ENDLESS = "/stream"
"""The end of addresses whose replies have none."""
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Access:
    """Who may ask a server."""

    host: str = "127.0.0.1"
    """The address that it listens at."""
    port: int = 8737
    token: str = ""
    """Empty only on loopback, where no token was asked for."""
    names: tuple[str, ...] = ()
    """Further names by which the server may be called."""

    @property
    def is_loopback(self) -> bool:
        """True where only this machine's own programs reach the server."""
        return is_loopback(self.host)

    def answers_to(self, host: str) -> bool:
        """Say whether a request's Host header is one of the server's names.

        A page elsewhere can have its own name resolve to this machine (DNS rebinding), and an
        address is no such name: where others may reach the server, every address is its own.
        """
        name = _without_port(host)
        if name in _LOOPBACK_NAMES or name in self.names or name == self.host:
            return True
        return not self.is_loopback and _is_address(name)


def is_loopback(host: str) -> bool:
    """Say whether an address or name is this machine's own, unreachable from elsewhere."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """ASGI middleware that turns away what may not ask and sets the headers of every reply."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or say in one sentence why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope, Headers(scope=scope))
        if scope["method"] == "HEAD" and not scope["path"].endswith(_ENDLESS):
            # As GET, whose body the server leaves out.
            scope = {**scope, "method": "GET"}
            await (refusal or self._app)(scope, receive, _without_body(send_guarded))
            return
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        access = self._access
        if not access.answers_to(headers.get("host", "")):
            return _refused(421, "this server does not answer to that name; add --allow-host.")
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") not in (
            None,
            "navigate",
        ):
            return _refused(403, "pages of other sites may not read this server.")
        has_bearer = self._has_bearer(headers)
        if access.token and not has_bearer:
            if self._is_given_in(scope):
                return self._signed_in(scope)
            if not self._has_cookie(headers):
                return _refused(
                    401, "expected the server's token; open the address that `serve` printed."
                )
        if scope["method"] not in _SAFE and not has_bearer:
            return self._forged(headers)
        return None

    def _forged(self, headers: Headers) -> Response | None:
        origin = headers.get("origin")
        is_own = origin is None or origin.partition("://")[2] == headers.get("host")
        site = headers.get("sec-fetch-site", "same-origin")
        if headers.get(CSRF_HEADER) and is_own and site in ("same-origin", "none"):
            return None
        return _refused(
            403, f"expected a request of the page's own, with the header {CSRF_HEADER}: 1."
        )

    def _has_bearer(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return bool(self._access.token) and scheme.lower() == "bearer" and self._fits(given)

    def _fits(self, given: str) -> bool:
        return hmac.compare_digest(given.strip().encode(), self._access.token.encode())

    def _is_given_in(self, scope: Scope) -> bool:
        given = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        return scope["path"] == "/" and self._fits(given.get("token", ""))

    def _signed_in(self, scope: Scope) -> Response:
        """Keep the token in a cookie, and out of the address."""
        pairs = parse_qsl(scope["query_string"].decode("latin-1"))
        rest = urlencode([pair for pair in pairs if pair[0] != "token"])
        response = RedirectResponse(f"/?{rest}" if rest else "/", status_code=303)
        response.set_cookie(
            self._cookie_name, self._cookie, httponly=True, samesite="strict", max_age=30 * 86400
        )
        return response

    def _has_cookie(self, headers: Headers) -> bool:
        held: Mapping[str, object] = SimpleCookie(headers.get("cookie", ""))
        cookie = held.get(self._cookie_name)
        value = getattr(cookie, "value", "")
        return hmac.compare_digest(value.encode(), self._cookie.encode())

    @property
    def _cookie_name(self) -> str:
        """Cookies are shared by all ports of a host."""
        return f"kernelwright_{self._access.port}"

    @property
    def _cookie(self) -> str:
        """Not the token itself, so that what sees cookies cannot sign in elsewhere with it."""
        return hmac.new(self._access.token.encode(), b"cookie", hashlib.sha256).hexdigest()


def _without_body(send: Send) -> Send:
    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return send_head


def _refused(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status_code=status)


def _without_port(host: str) -> str:
    host = host.lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
