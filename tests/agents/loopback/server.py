"""A real HTTP server on 127.0.0.1 that plays a scripted model, and misbehaves on request."""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Literal, Self

from tests.agents.loopback.batch import Batched, Batches, is_about_batches
from tests.agents.loopback.cache import PromptCache
from tests.agents.loopback.events import events
from tests.agents.loopback.wire import Billed, Body, Heard, Said, billed, heard

FaultName = Literal[
    "busy",
    "overloaded",
    "unavailable",
    "half",
    "overloaded_later",
    "reset",
    "reset_before",
    "stall",
    "garbled_stream",
    "huge",
    "drip",
]


@dataclass(frozen=True)
class Misbehaviour:
    """What the server does instead of replying."""

    name: FaultName
    retry_after: str = "0"
    stall_s: float = 0.0


@dataclass(frozen=True)
class Refused:
    """An HTTP error, as the provider words it."""

    status: int
    message: str


@dataclass(frozen=True)
class Raw:
    """Whatever a proxy, a login page or a broken server sends."""

    status: int
    content_type: str
    body: bytes


_OVERLOADED = {
    "messages": b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", '
    b'"message": "Overloaded"}}\n\n',
    "completions": b'data: {"error": {"message": "Overloaded", "code": 529}}\n\n',
    "responses": b'event: response.failed\ndata: {"type": "response.failed", '
    b'"sequence_number": 99, "response": {"id": "r", "object": "response", "output": [], '
    b'"usage": null, "error": '
    b'{"code": "rate_limit_exceeded", "message": "Overloaded"}}}\n\n',
}
"""How each API says in the middle of a reply that it is overloaded."""
Response = Said | Misbehaviour | Refused | Raw
Script = Callable[[Heard], Response]


@dataclass
class LoopbackServer:
    """Serves `/v1/messages`, `/v1/chat/completions` and `/v1/responses` from one script."""

    script: Script
    requests: list[Heard] = field(default_factory=list)
    bills: list[Billed] = field(default_factory=list)
    """What a provider would charge for: every reply that was begun."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.cache = PromptCache()
        self.batches = Batches(self.answer, self.root_of)
        self._server = _Http(("127.0.0.1", 0), _Handler)
        self._server.loopback = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def base_url(self, provider: str) -> str:
        """The SDKs differ in whether the base URL ends in the version."""
        return self.root if provider == "anthropic" else f"{self.root}/v1"

    def respond(self, request: Heard) -> Response:
        with self._lock:
            self.requests.append(request)
            return self.script(request)

    def answer(self, path: str, body: Body) -> Batched:
        """Answer one request of a batch as it would be by itself."""
        size = len(json.dumps(body))
        request = heard(path, body, "", size, self.cache.share(path, body))
        response = self.respond(request)
        if isinstance(response, Said):
            self.charge(billed(request, response))
        return Batched(request, response if isinstance(response, Said) else None,
                       response.message if isinstance(response, Refused) else "")  # fmt: skip

    def root_of(self) -> str:
        return self.root

    def charge(self, bill: Billed) -> None:
        with self._lock:
            self.bills.append(bill)

    @property
    def billed_tokens(self) -> int:
        return sum(b.input_tokens + b.output_tokens for b in self.bills)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    loopback: LoopbackServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay quiet; pytest shows what matters."""

    def do_GET(self) -> None:
        batches = self.server.loopback.batches
        if batches.failing_looks:
            batches.failing_looks -= 1
            self._reset()
            return
        self._json(batches.get(self.path))

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        data = self.rfile.read(size)
        if is_about_batches(self.path):
            self._json(self.server.loopback.batches.post(self.path, data))
            return
        body = json.loads(data)
        secret = self.headers.get("x-api-key") or self.headers.get("Authorization") or ""
        cached = self.server.loopback.cache.share(self.path, body)
        request = heard(self.path, body, secret, size, cached)
        try:
            self._answer(request, self.server.loopback.respond(request))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _answer(self, request: Heard, response: Response) -> None:
        if isinstance(response, Refused):
            self._error(response.status, response.message, {})
        elif isinstance(response, Raw):
            self._raw(response)
        elif isinstance(response, Said):
            self.server.loopback.charge(billed(request, response))
            self._begin()
            for event in events(request, response):
                self._chunk(event)
            self._chunk(b"")
        else:
            self._misbehave(request, response)

    def _json(self, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _raw(self, raw: Raw) -> None:
        self.send_response(raw.status)
        self.send_header("Content-Type", raw.content_type)
        self.send_header("Content-Length", str(len(raw.body)))
        self.end_headers()
        self.wfile.write(raw.body)

    def _misbehave(self, request: Heard, fault: Misbehaviour) -> None:
        statuses = {"busy": 429, "overloaded": 529, "unavailable": 503}
        if fault.name in statuses:
            headers = {"retry-after": fault.retry_after} if fault.name == "busy" else {}
            self._error(statuses[fault.name], fault.name, headers)
        elif fault.name == "reset_before":
            self._reset()
        else:
            self._break_off(request, fault)

    def _break_off(self, request: Heard, fault: Misbehaviour) -> None:
        """Begin a reply, which costs, and never end it."""
        stream = list(events(request, Said('{"programs": [' + " " * 2000)))
        self.server.loopback.charge(billed(request, Said("x" * 2000)))
        self._begin()
        for event in stream[: len(stream) // 2]:
            self._chunk(event)
        if fault.name == "drip":
            while True:
                self._chunk(b": still there\n\n")
                time.sleep(0.01)
        if fault.name == "stall":
            time.sleep(fault.stall_s)
        elif fault.name == "overloaded_later":
            self._chunk(_OVERLOADED[request.path.rpartition("/")[2]])
            self._chunk(b"")
            return
        elif fault.name == "garbled_stream":
            self._chunk(b'event: content_block_delta\ndata: {"type": "content_bl\n\n')
            self._chunk(b"")
            return
        elif fault.name == "huge":
            for _ in range(160):
                self._chunk(b": " + b"x" * 65_000 + b"\n\n")
        self._reset() if fault.name == "reset" else self._hang_up()

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _error(self, status: int, message: str, headers: dict[str, str]) -> None:
        kind = "overloaded_error" if status == 529 else "api_error"
        error = {"type": "error", "error": {"type": kind, "message": message}}
        data = json.dumps(error).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _hang_up(self) -> None:
        self.close_connection = True

    def _reset(self) -> None:
        # A zero linger time makes close() send RST instead of FIN.
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()
        self.close_connection = True
