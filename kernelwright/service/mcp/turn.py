"""Waits while another process does the same search, whose verdicts are then in the store."""

import threading
from collections.abc import Callable
from typing import TypeVar

from kernelwright.errors import InputError, SearchRunsError

Result = TypeVar("Result")
_LOOK_S = 0.5


def in_turn(
    work: Callable[[], Result], is_over: threading.Event, told: Callable[[str], None]
) -> Result:
    """Do work, as soon as no other process is at the same search.

    Args:
        work: begins a search, or takes up what the other one left.
        is_over: set where nobody waits for the result any more.
        told: takes a sentence once, where there is something to wait for.

    Raises:
        InputError: the call was cancelled while it waited.
    """
    has_told = False
    while True:
        try:
            return work()
        except SearchRunsError as e:
            if not has_told:
                told(f"waits: {e}")
                has_told = True
        if is_over.wait(_LOOK_S):
            raise InputError("the call was cancelled while another process was at the same search.")
