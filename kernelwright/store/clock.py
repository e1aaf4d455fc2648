"""The store's clock: UTC, and never backwards, whatever is done to the machine's."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

_TICK = timedelta(microseconds=1)


class Clock:
    """Stamps rows so that a later one has the later stamp, even after the clock was set back."""

    def __init__(self, machine: Callable[[], datetime]) -> None:
        self.machine = machine
        """What the machine's clock shows; it may jump."""
        self._last = datetime.min.replace(tzinfo=UTC)
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Return the time, or the least that is later than every stamp so far."""
        with self._lock:
            self._last = max(self.machine(), self._last + _TICK)
            return self._last

    def pass_by(self, stamp: datetime) -> None:
        """Give no stamp up to this one any more: another process has given it."""
        with self._lock:
            self._last = max(self._last, stamp)


def _machine() -> datetime:
    return datetime.now(UTC)


CLOCK = Clock(_machine)
"""One for a process, whatever stores it has open."""


def now() -> datetime:
    """Return the time for a row."""
    return CLOCK.now()
