"""Finds the line of a user's file by which a function returned."""

import inspect
import linecache
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType


def line_of_return(function: Callable[..., object], run: Callable[[], object]) -> str:
    """Return where and what, as ` (model.py:12: return State(x, y))`; nothing where it raises.

    Args:
        function: whose own return is looked for.
        run: calls it.
    """
    inner = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    found: list[str] = []

    def heard(frame: FrameType, event: str, value: object) -> None:
        if event == "return" and frame.f_code is code:
            file, line = frame.f_code.co_filename, frame.f_lineno
            text = linecache.getline(file, line).strip()
            found.append(f" ({file}:{line}{f': {text}' if text else ''})")

    before = sys.getprofile()
    sys.setprofile(heard)
    try:
        with suppress(Exception):
            run()
    finally:
        sys.setprofile(before)
    return found[-1] if found else ""
