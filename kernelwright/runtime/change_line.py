"""Finds the line of a user's file that changes something, by running the function line by line."""

import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from kernelwright.ir.trace.refusal import is_library_file


def line_of_change(run: Callable[[], object], is_as_it_was: Callable[[], bool]) -> str:
    """Return where, as ` (model.py:12)`; nothing where no line of the user's own does it.

    Args:
        run: calls the function; whatever it raises counts for nothing.
        is_as_it_was: False as soon as the change has happened.
    """
    watch = _Watch(is_as_it_was)
    before = sys.gettrace()
    sys.settrace(watch.entered)
    try:
        with suppress(Exception):
            run()
    finally:
        sys.settrace(before)
    watch.look()
    return watch.found


class _Watch:
    def __init__(self, is_as_it_was: Callable[[], bool]) -> None:
        self._is_as_it_was = is_as_it_was
        self._last = ""
        self.found = ""

    def entered(self, frame: FrameType, event: str, argument: object) -> "_Tracer | None":
        if self.found or is_library_file(frame.f_code.co_filename):
            return None
        return self._step

    def _step(self, frame: FrameType, event: str, argument: object) -> "_Tracer | None":
        self.look()
        if self.found:
            return None
        self._last = f" ({frame.f_code.co_filename}:{frame.f_lineno})"
        return self._step

    def look(self) -> None:
        """Blame the last line where something is not as it was."""
        if not self.found and not self._is_as_it_was():
            self.found = self._last


_Tracer = Callable[[FrameType, str, object], "_Tracer | None"]
