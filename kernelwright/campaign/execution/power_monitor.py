"""A Mac's heat and battery, as `pmset` tells them: when the device should rest, and why."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from kernelwright.campaign.execution.retry_policy import PowerMonitor, never_limited

LEAST_CHARGE = 20
"""Percent; a laptop on battery below it is left alone."""
_LOOK_S = 30.0
_SLOWED = re.compile(r"(CPU_Speed_Limit|CPU_Scheduler_Limit)\s*=\s*(\d+)")
_WARNED = re.compile(r"(thermal|performance) warning level\s*[:=]?\s*([1-9]\d*)", re.IGNORECASE)
_CHARGE = re.compile(r"InternalBattery.*?\s(\d+)%;\s*([\w ]+);")
Ask = Callable[[str], str]
"""Gives what `pmset -g` says about something; empty when it says nothing."""


def heat_in(text: str) -> str:
    """Say how a Mac is throttled, from `pmset -g therm`; empty when it is not.

    Apple silicon names no limits while there are none, only notes that nothing was recorded.
    """
    limits = [int(limit) for _, limit in _SLOWED.findall(text)]
    if limits and min(limits) < 100:
        return f"the machine is hot and runs at {min(limits)}% of its speed"
    warned = _WARNED.search(text)
    return f"the machine gives {warned[1].lower()} warning level {warned[2]}" if warned else ""


def battery_in(text: str) -> str:
    """Say that a Mac's battery runs low, from `pmset -g batt`; empty when it does not."""
    found = _CHARGE.search(text)
    if "'Battery Power'" not in text or found is None or int(found[1]) >= LEAST_CHARGE:
        return ""
    return f"the battery is at {found[1]}% and not charging"


class MacPowerMonitor:
    """Looks every half minute, between evaluations."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._looked_at = -_LOOK_S
        self._reason = ""

    def __call__(self) -> str:
        """Say why the device should rest; empty when it need not."""
        if self._reason or self._clock() >= self._looked_at + _LOOK_S:
            self._looked_at = self._clock()
            self._reason = heat_in(self._ask("therm")) or battery_in(self._ask("batt"))
        return self._reason


def power_monitor_here() -> PowerMonitor:
    """Return this machine's monitor, which limits nothing where there is no `pmset`."""
    return MacPowerMonitor(_asked) if sys.platform == "darwin" else never_limited


@contextmanager
def staying_awake() -> Iterator[None]:
    """Keep a Mac from falling asleep of idleness; a lid that is shut on battery still does it."""
    keeper: subprocess.Popen[bytes] | None = None
    if sys.platform == "darwin":
        with suppress(OSError):
            keeper = subprocess.Popen(["caffeinate", "-i"], stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        if keeper is not None:
            keeper.terminate()
            keeper.wait()


def _asked(about: str) -> str:
    try:
        done = subprocess.run(
            ["pmset", "-g", about], capture_output=True, text=True, timeout=5, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
