"""Ctrl-C in what may run for hours: the first ends it in order, a second one at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from kernelwright.errors import BlockedError


@contextmanager
def ending_in_order(stop: Callable[[], None]) -> Iterator[None]:
    """Let the first Ctrl-C call `stop`, and a second one raise; only the main thread gets one.

    Raises:
        KeyboardInterrupt: it came while a write waited for the store, which says why.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except BlockedError as e:
        if is_interrupted:
            raise KeyboardInterrupt(f"interrupted: {e}") from e
        raise
    finally:
        signal.signal(signal.SIGINT, before)
