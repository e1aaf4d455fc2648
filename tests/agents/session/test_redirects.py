"""Prompts go where they are sent to, and nowhere that a server redirects them to."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from kernelwright.agents.budget import NOTHING
from kernelwright.agents.providers.fault import UnusableModelError
from tests.agents.loopback.partner import Partner
from tests.agents.loopback.server import LoopbackServer
from tests.agents.loopback.wire import Said


class _Elsewhere(BaseHTTPRequestHandler):
    target = ""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay quiet."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(307)
        self.send_header("Location", self.target.replace("PATH", self.path))
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def redirecting() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Elsewhere)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("wire", ["anthropic", "openai", "openai-responses"])
@pytest.mark.parametrize("target", ["another", "https://login.invalid/sign-in?from=PATH", "PATH"])
def test_a_redirect_is_told_and_not_followed(
    monkeypatch: pytest.MonkeyPatch, redirecting: str, wire: str, target: str
) -> None:
    with LoopbackServer(lambda _: Said('{"line": "waves", "times": 3}')) as another:
        root = another.root
        monkeypatch.setattr(_Elsewhere, "target", target.replace("another", f"{root}PATH"))
        told = {"another": f"{root}/v1;", "PATH": f"{redirecting}/v1;"}
        expected = told.get(target, "https://login.invalid/sign-in;")
        monkeypatch.setattr(LoopbackServer, "root", redirecting)
        partner = Partner(another, wire)
        with pytest.raises(UnusableModelError, match="redirects to") as raised:
            partner.ask()
    assert f"redirects to {expected} give that as --base-url" in str(raised.value)
    assert not another.requests
    assert partner.budget.spent() == NOTHING
