"""Waits for a store's server that is away, as it restarts: for ten minutes, and says so."""

import time
from collections.abc import Callable
from typing import TypeVar

from kernelwright.errors import BlockedError, StoreError
from kernelwright.store.retry import Outage, growing_pause_s

LONGEST_AWAY_S = 600.0
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 5.0
T = TypeVar("T")


def once_answered(ask: Callable[[], T], say: Callable[[str], None]) -> T:
    """Return what a server answers, once it does.

    Raises:
        StoreError: it stayed away, or what it answers is an error that no waiting mends.
    """
    outage = Outage()
    while True:
        try:
            return ask()
        except BlockedError as e:
            blocked = outage.met(e)
        said = str(blocked).rstrip(".")
        if blocked.lasted_s > LONGEST_AWAY_S:
            raise StoreError(gave_up(said)) from blocked
        if not blocked.tries:
            say(waits(said))
        time.sleep(growing_pause_s(blocked.tries, FIRST_PAUSE_S, LONGEST_PAUSE_S))


def waits(failure: str) -> str:
    """Say that a server is waited for."""
    return f"{failure}; waits until its server is back, {LONGEST_AWAY_S / 60:g} minutes at most"


def gave_up(failure: str) -> str:
    """Say that a server is waited for no longer."""
    return f"{failure}; gave up after {LONGEST_AWAY_S / 60:g} minutes."
