"""What ends a run or holds it up: a stop, a deadline, a device that is parked, a blocked store."""

import time
from collections.abc import Callable

from kernelwright.agents.cap_text import cap_reached, in_time
from kernelwright.campaign.event import CampaignHeldUp, Event
from kernelwright.campaign.history.pausing import Pause
from kernelwright.errors import BlockedError
from kernelwright.store.retry import growing_pause_s

GRACE_S = 5.0
"""How long a run that was told to stop waits for what still runs."""
_OVERTIME_S = 60.0
_OVERTIME_SHARE = 0.1
"""What runs when the time is up is ended and confirmed within a minute, or a tenth of the time."""
_LOOK_S = 0.05
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


class RunControl:
    """Says whether one run may go on; safe from every thread, and `stop` in a signal handler."""

    def __init__(self, pause: Pause, listen: Callable[[Event], None]) -> None:
        self._pause = pause
        self._listen = listen
        # Not an event: a signal handler that sets one may meet its lock in this very thread.
        self._stopped_at: float | None = None
        self._started = time.monotonic()
        self._allowed_s: float | None = None
        self._seconds: float | None = None
        self._reason = "interrupted"
        self.parked = ""
        """Why the device is parked; empty while it is not."""

    def begin(self, seconds: float | None, used_s: float) -> None:
        """Start the clock of a run that may take `seconds`, of which some are used."""
        self._started = time.monotonic()
        self._seconds = seconds
        self._allowed_s = None if seconds is None else seconds - used_s

    def stop(self, reason: str = "interrupted") -> None:
        """Let nothing new begin, and what runs end within seconds."""
        if self._stopped_at is None:
            self._reason = reason
            self._stopped_at = time.monotonic()

    def park(self, reason: str) -> None:
        """Use the device no more."""
        self.parked = self.parked or reason

    @property
    def is_stopping(self) -> bool:
        """True once somebody asked the run to stop."""
        return self._stopped_at is not None

    @property
    def is_cut_short(self) -> bool:
        """True when the run leaves work behind that another can take up."""
        return self.is_stopping or bool(self.parked)

    @property
    def is_held(self) -> bool:
        """True while somebody asked the run to hold still."""
        return self._pause.is_on and not self.is_stopping

    @property
    def is_out_of_patience(self) -> bool:
        """True when what still runs is to be cut off, after a stop or long after the time is up."""
        if self._stopped_at is not None and time.monotonic() > self._stopped_at + GRACE_S:
            return True
        overtime_s = max(_OVERTIME_S, _OVERTIME_SHARE * (self._seconds or 0.0))
        return self._allowed_s is not None and self.elapsed_s() > self._allowed_s + overtime_s

    @property
    def reason(self) -> str | None:
        """Say why nothing new may begin, None while it may."""
        if self.is_stopping:
            return self._reason
        if self.parked:
            return self.parked
        if self.is_out_of_time:
            return cap_reached(in_time(self._seconds or 0.0))
        return None

    @property
    def is_out_of_time(self) -> bool:
        """True when the run has taken the time that it was allowed."""
        return self._allowed_s is not None and self.elapsed_s() >= self._allowed_s

    def elapsed_s(self) -> float:
        """Return how long the run has gone on, by a clock that nobody sets."""
        return time.monotonic() - self._started - self._pause.seconds

    def wait(self, seconds: float) -> bool:
        """Wait; True at once when the run is to stop."""
        until = time.monotonic() + seconds
        while not self.is_stopping and (left_s := until - time.monotonic()) > 0:
            time.sleep(min(left_s, _LOOK_S))
        return self.is_stopping

    def pass_time(self, seconds: float) -> None:
        """Wait, whether or not the run is to stop."""
        time.sleep(seconds)

    def rest(self, seconds: float, reason: str) -> bool:
        """Say why nothing happens, and wait; True when the wait is not worth going on."""
        if self._allowed_s is not None:
            seconds = min(seconds, max(self._allowed_s - self.elapsed_s(), 0.0))
        self._listen(CampaignHeldUp(reason=reason, seconds=seconds))
        return self.wait(seconds) or self.reason is not None

    def wait_for_room(self, error: BlockedError) -> None:
        """Wait for a store that takes no write; each outage begins with a short pause.

        Raises:
            BlockedError: the run is to end.
        """
        pause_s = growing_pause_s(error.tries, _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        if self.is_stopping or self.rest(pause_s, str(error)):
            raise error
