"""Streamable HTTP for the MCP server: loopback only, unless clients must show a token."""

import hmac
import ipaddress

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from kernelwright.errors import InputError
from kernelwright.service.access_token import check_token


def serve_http(server: MCPServer[None], *, host: str, port: int, token: str | None) -> None:
    """Serve until interrupted.

    Raises:
        InputError: the address is not this machine alone and there is no token, or a short one.
    """
    uvicorn.run(http_app(server, host, token), host=host, port=port, log_level="warning")


def http_app(server: MCPServer[None], host: str, token: str | None) -> ASGIApp:
    """Return the ASGI application, at `/mcp`.

    Raises:
        InputError: the address is not this machine alone and there is no token, or a short one.
    """
    if token is not None:
        check_token(token)
    if is_loopback(host):
        app: ASGIApp = server.streamable_http_app(host=host)
        return app if token is None else BearerToken(app, token)
    if token is None:
        raise InputError(
            f"expected a loopback address or --token, found {host!r} and no token: whoever "
            "reaches the port runs Python here."
        )
    # Whoever knows the token is no page of a stranger's that a browser runs.
    settings = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return BearerToken(server.streamable_http_app(host=host, transport_security=settings), token)


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class BearerToken:
    """Answers 401 to requests without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] == "http":
            given = Headers(scope=scope).get("authorization", "").encode()
            if not hmac.compare_digest(given, self._expected):
                answer = PlainTextResponse(
                    "expected the header Authorization: Bearer TOKEN",
                    status_code=401,
                    headers={"WWW-Authenticate": "Bearer"},
                )
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)
