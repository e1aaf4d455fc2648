"""The model's server, a process of its own that outlives every kill and keeps the books."""

import hashlib
import os
import signal
from collections import Counter, deque
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import cast

from benchmarks.reliability import scene
from tests.agents.loopback.server import FaultName, LoopbackServer, Misbehaviour, Response
from tests.agents.loopback.wire import Heard, Said

FAULTS: tuple[str, ...] = (
    "busy",
    "overloaded",
    "unavailable",
    "half",
    "reset",
    "reset_before",
    "stall",
    "garbled_stream",
    "half_json",
    "no_json",
)


@dataclass(frozen=True)
class Account:
    """What the server did for one campaign."""

    served: Counter[str]
    """Complete replies by request."""
    billed_tokens: int
    faults: Counter[str]


class Book:
    """Answers by the scene's script, misbehaves as it is told, and counts."""

    def __init__(self) -> None:
        self.ahead = deque[str]()
        """A fault for each of the next requests; `none` lets one pass."""
        self.served = Counter[str]()
        self.faults = Counter[str]()

    def __call__(self, request: Heard) -> Response:
        """Answer one request."""
        fault = self.ahead.popleft() if self.ahead else "none"
        if fault == "none":
            self.served[mark(request)] += 1
            return scene.reply(request)
        self.faults[fault] += 1
        if fault == "half_json":
            return Said('{"programs": [{"idea": "Half a', style="tool")
        if fault == "no_json":
            return Said("Kernels are hard.", style="text")
        return Misbehaviour(cast("FaultName", fault), stall_s=3.0)


def mark(request: Heard) -> str:
    """Return what tells requests apart."""
    return hashlib.sha256(request.text.encode()).hexdigest()[:16]


class Served:
    """The server, as the sweep sees it."""

    def __init__(self) -> None:
        self._pipe, remote = Pipe()
        self._process = os.fork()
        if self._process == 0:
            self._pipe.close()
            _serve(remote)
            os._exit(0)
        remote.close()
        self.base_url: str = self._pipe.recv()

    def begin(self, ahead: list[str]) -> None:
        """Open the books of a campaign whose requests meet these faults."""
        self._pipe.send(ahead)

    def account(self) -> Account:
        """Close the books."""
        self._pipe.send(None)
        account = self._pipe.recv()
        assert isinstance(account, Account)
        return account

    def close(self) -> None:
        """End the server."""
        os.kill(self._process, signal.SIGTERM)
        os.waitpid(self._process, 0)


def _serve(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Clients that are killed break their connections off; nobody needs a traceback of that.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    book = Book()
    with LoopbackServer(book) as server:
        pipe.send(server.base_url("openai"))
        while True:
            asked = pipe.recv()
            if asked is None:
                tokens = server.billed_tokens
                pipe.send(Account(book.served, tokens, book.faults))
                continue
            book.ahead = deque(asked)
            book.served, book.faults = Counter(), Counter()
            server.bills.clear()
