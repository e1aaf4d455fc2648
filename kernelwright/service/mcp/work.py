"""Runs blocking work for a tool: off the event loop, with progress, ended when the call is."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from kernelwright.errors import KernelwrightError
from kernelwright.public_call import in_python

Result = TypeVar("Result")
_LOOK_S = 0.1


@dataclass
class Handle:
    """What work reports to while a client waits for it."""

    ended: threading.Event = field(default_factory=threading.Event)
    """Set when nobody waits for the work any more."""
    _told: list[tuple[float, float | None, str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: Callable[[], None] | None = None

    def tell(self, done: float, total: float | None, message: str) -> None:
        """Report progress; `total` is None where nobody knows it."""
        with self._lock:
            self._told.append((done, total, message))

    def ends_by(self, stop: Callable[[], None]) -> None:
        """Take what ends the work in order; called at once when the call is cancelled already."""
        with self._lock:
            self._stop = stop
            is_late = self.ended.is_set()
        if is_late:
            stop()

    def cancel(self) -> None:
        """End the work in order."""
        with self._lock:
            self.ended.set()
            stop = self._stop
        if stop is not None:
            stop()

    def news(self) -> list[tuple[float, float | None, str]]:
        """Return what was told since the last time."""
        with self._lock:
            told, self._told = self._told, []
        return told


class Workshop:
    """One thread for what uses MLX and devices, so that such calls take turns.

    Questions to the store need no turn and are answered while a search runs.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kernelwright-mcp")

    async def make(self, context: Context, work: Callable[[Handle], Result]) -> Result:
        """Run work in the one thread, reporting its progress to the client.

        A cancelled call ends its work in order; what is known by then is in the store.

        Raises:
            ToolError: the work's own sentence.
        """
        handle = Handle()
        future = self._thread.submit(_quietly, work, handle)
        try:
            while not future.done():
                await anyio.sleep(_LOOK_S)
                await _report(context, handle)
        except BaseException:
            future.cancel()
            handle.cancel()
            raise
        await _report(context, handle)
        with _one_sentence():
            return future.result()

    def close(self) -> None:
        """Let no more work begin."""
        self._thread.shutdown(wait=False, cancel_futures=True)


async def ask(question: Callable[[], Result]) -> Result:
    """Answer a question to the store, off the event loop.

    Raises:
        ToolError: the store's own sentence.
    """
    with _one_sentence():
        return await anyio.to_thread.run_sync(question)


async def _report(context: Context, handle: Handle) -> None:
    for done, total, message in handle.news():
        await context.report_progress(done, total, message)


def _quietly(work: Callable[[Handle], Result], handle: Handle) -> Result:
    """Run work whose prints, a user's module's own among them, miss the protocol's stream."""
    with redirect_stdout(sys.stderr):
        return work(handle)


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Turn an expected error into the sentence that a client shows its model.

    A tool takes the arguments of the Python API, and no flags of the command line.
    """
    try:
        yield
    except KernelwrightError as e:
        raise ToolError(" ".join(in_python(str(e)).split())) from e
