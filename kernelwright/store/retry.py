"""Writes that are tried again after what passes: a full disk, another program's lock."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from kernelwright.errors import BlockedError, ConflictError

OnBlocked = Callable[[BlockedError], None]
"""Returns when a write that failed is worth another try, and raises the error when it is not."""
P = ParamSpec("P")
T = TypeVar("T")
_MOST_CONFLICTS = 8
_FIRST_PAUSE_S = 0.002
_MOST_DOUBLINGS = 30


class RetryingWriter:
    """Writes; gives up at once unless told to wait."""

    on_blocked: OnBlocked

    @contextmanager
    def waiting_when_blocked(self, on_blocked: OnBlocked) -> Iterator[None]:
        """Let writes of every thread ask `on_blocked` before they give up."""
        before, self.on_blocked = self.on_blocked, on_blocked
        try:
            yield
        finally:
            self.on_blocked = before


S = TypeVar("S", bound=RetryingWriter)


def retry_when_blocked(write: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Repeat a method that is one transaction for as long as it is told to wait."""

    @wraps(write)
    def repeated(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        conflicts, outage = 0, Outage()
        while True:
            try:
                return write(self, *args, **kwargs)
            except ConflictError:
                conflicts += 1
                if conflicts > _MOST_CONFLICTS:
                    raise
                # Two writers that met once shall not meet again at the next try.
                time.sleep(random.uniform(0, _FIRST_PAUSE_S * 2**conflicts))
            except BlockedError as e:
                self.on_blocked(outage.met(e))

    return repeated


class Outage:
    """What one read or write counts while it is tried again; the next one counts anew."""

    def __init__(self) -> None:
        self._tries = 0
        self._since = time.monotonic()

    def met(self, error: BlockedError) -> BlockedError:
        """Count one more failure, and tell the error of it."""
        if not self._tries:
            self._since = time.monotonic()
        error.tries, error.lasted_s = self._tries, time.monotonic() - self._since
        self._tries += 1
        return error


def growing_pause_s(tries: int, first_s: float, longest_s: float) -> float:
    """Return how long to wait after a failure, by how many there were before: twice as long each.

    A number that failed for weeks is no longer a float's power of two.
    """
    return min(first_s * 2.0 ** min(tries, _MOST_DOUBLINGS), longest_s)


def give_up(error: BlockedError) -> None:
    """Wait for nothing."""
    raise error
