"""Writes that outlast what passes: a full disk, another program's lock."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from kernelwright.errors import BlockedError, ConflictError

HoldOn = Callable[[BlockedError], None]
"""Returns when a write that failed is worth another try, and raises the error when it is not."""
P = ParamSpec("P")
T = TypeVar("T")
_MOST_CONFLICTS = 8
_FIRST_PAUSE_S = 0.002


class Lasting:
    """Whoever writes; gives up at once unless told to hold on."""

    hold_on: HoldOn

    @contextmanager
    def holding_on(self, hold_on: HoldOn) -> Iterator[None]:
        """Let writes of every thread ask `hold_on` before they give up."""
        before, self.hold_on = self.hold_on, hold_on
        try:
            yield
        finally:
            self.hold_on = before


S = TypeVar("S", bound=Lasting)


def lasting(write: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Repeat a method that is one transaction for as long as it is told to hold on."""

    @wraps(write)
    def repeated(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        conflicts = 0
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
                self.hold_on(e)

    return repeated


def give_up(error: BlockedError) -> None:
    """Hold on to nothing."""
    raise error
