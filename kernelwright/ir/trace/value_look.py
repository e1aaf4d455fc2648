"""Notices that a function looks at an array's values while it is traced, whatever it catches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, FunctionType, MethodType

_REFUSALS = ("[eval] Attempting to eval an array", "[async_eval] Not allowed")
"""How MLX begins to refuse the values of an array that a trace has none of."""

_Tracer = Callable[[FrameType, str, object], "object"]


def is_without_values(error: Exception) -> bool:
    """Say whether MLX refused the values of an array, as in a transformation of the caller's."""
    return str(error).startswith(_REFUSALS)


@dataclass
class ValueLook:
    """The first look at values that MLX refused, and the error by which it did."""

    error: BaseException | None = None
    frame: FrameType | None = None
    """The call that looked; it is kept for its line, `line`."""
    line: int = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch this thread; who watches it already is told of everything, too."""
        before = sys.gettrace()
        # A tracer that is compiled, such as a coverage tool's, takes the thread back when called.
        told = before if isinstance(before, FunctionType | MethodType) else None
        sys.settrace(self._tracer(told))  # type: ignore[arg-type]
        try:
            yield
        finally:
            sys.settrace(before)

    def _tracer(self, told: _Tracer | None) -> _Tracer:
        def entered(frame: FrameType, event: str, argument: object) -> object:
            inner = told(frame, event, argument) if told is not None else None
            if inner is None:
                frame.f_trace_lines = False
                return self._heard
            return self._both(inner)

        return entered

    def _both(self, inner: object) -> _Tracer:
        def heard(frame: FrameType, event: str, argument: object) -> object:
            nonlocal inner
            self._heard(frame, event, argument)
            if callable(inner):
                inner = inner(frame, event, argument)
            return heard

        return heard

    def _heard(self, frame: FrameType, event: str, argument: object) -> object:
        if event == "exception" and self.error is None and isinstance(argument, tuple):
            error = argument[1]
            # Python makes the object late: what C raised is its text alone.
            if str(error).startswith(_REFUSALS):
                self.error = error if isinstance(error, BaseException) else ValueError(str(error))
                self.frame, self.line = frame, frame.f_lineno
        return self._heard

    def frames(self) -> Iterator[tuple[str, int]]:
        """Yield the file and line of the look, then those that called it."""
        frame, line = self.frame, self.line
        while frame is not None:
            yield frame.f_code.co_filename, line
            frame = frame.f_back
            line = frame.f_lineno if frame is not None else 0
