"""A run that holds still: nothing new begins, nothing is lost, and its hours do not pass."""

import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime

from kernelwright.store import LoggedEvent

PAUSE = "PauseAsked"
"""The kind of the line in a run's log that asks it to hold still."""
GO_ON = "GoOnAsked"


class Pause:
    """Holds a run still from any thread, and counts for how long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None
        self._seconds = 0.0

    @property
    def is_on(self) -> bool:
        """True while nothing new may begin."""
        return self._since is not None

    @property
    def seconds(self) -> float:
        """How long the run has held still so far."""
        with self._lock:
            now = 0.0 if self._since is None else time.monotonic() - self._since
            return self._seconds + now

    def hold(self) -> None:
        """Let nothing new begin; what runs ends as it would."""
        with self._lock:
            if self._since is None:
                self._since = time.monotonic()

    def go_on(self) -> None:
        """Let things begin again."""
        with self._lock:
            if self._since is not None:
                self._seconds += time.monotonic() - self._since
                self._since = None


def is_paused(log: Iterable[LoggedEvent]) -> bool:
    """Say whether the last that a run was asked is to hold still."""
    asked = [event.kind for event in log if event.kind in (PAUSE, GO_ON)]
    return bool(asked) and asked[-1] == PAUSE


def paused_s(log: Iterable[LoggedEvent], until: datetime | None = None) -> float:
    """Add up how long a run was asked to hold still; a pause that goes on lasts to `until`."""
    since: datetime | None = None
    total = 0.0
    for event in log:
        if event.kind == PAUSE and since is None:
            since = event.at
        elif event.kind == GO_ON and since is not None:
            total += (event.at - since).total_seconds()
            since = None
    if since is not None:
        total += max(((until or datetime.now(UTC)) - since).total_seconds(), 0.0)
    return total
