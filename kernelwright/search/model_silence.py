"""How long models are left alone whose servers do not answer, or ask to wait."""

from collections.abc import Callable

from kernelwright.agents.providers.fault import AskedToWaitError, OutageError

_FIRST_SILENCE_S = 30.0
_MOST_OUTAGES = 5
_LONGEST_SILENCE_S = 600.0
"""For so long a task that has nothing else to try waits for a server that asks to wait."""


class ModelSilence:
    """A pause after each outage, longer each time, for all tasks of a search."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Take what tells seconds since a fixed moment."""
        self._clock = clock
        self._outages = 0
        self._until_s = 0.0
        self._waits_since_s: float | None = None
        """When a server asked to wait, and none has replied since."""
        self._asked_to_wait = ""

    @property
    def lasts(self) -> bool:
        """True while nobody is asked."""
        return self._clock() < self._until_s

    def begin(self, error: OutageError) -> str:
        """Leave the models alone for a while; return why for good, after a few outages in a row.

        Where a server says for how long, it is for so long.
        """
        if isinstance(error, AskedToWaitError):
            now_s = self._clock()
            if self._waits_since_s is None:
                self._waits_since_s = now_s
            self._until_s = now_s + error.wait_s
            self._asked_to_wait = str(error).rstrip(".")
            return ""
        self._outages += 1
        self._until_s = self._clock() + _FIRST_SILENCE_S * 2 ** (self._outages - 1)
        return str(error).rstrip(".") if self._outages >= _MOST_OUTAGES else ""

    def end(self) -> None:
        """Take note that a model has replied."""
        self._outages, self._waits_since_s = 0, None

    @property
    def why_not_awaited(self) -> str:
        """Say why it lasts too long to wait for it with nothing else to try; else nothing."""
        since_s = self._waits_since_s
        is_long = since_s is not None and self._until_s - since_s > _LONGEST_SILENCE_S
        return self._asked_to_wait if is_long else ""
