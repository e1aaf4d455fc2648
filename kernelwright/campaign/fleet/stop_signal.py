"""SIGINT and SIGTERM in an event loop: the first asks for an end in order."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopping_at_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Let the first of these signals call `stop` in the running loop, and a second one do as usual.

    For the main thread alone.
    """
    loop = asyncio.get_running_loop()

    def restore() -> None:
        for number in _ENDING:
            loop.remove_signal_handler(number)

    def hear() -> None:
        restore()
        stop()

    for number in _ENDING:
        loop.add_signal_handler(number, hear)
    try:
        yield
    finally:
        restore()
