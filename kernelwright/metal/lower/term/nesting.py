"""Refuses graphs whose ops nest deeper than lowering can follow."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from kernelwright.errors import UnsupportedError

_Given = ParamSpec("_Given")
_Lowered = TypeVar("_Lowered")


def refuses_deep_nesting(lowering: Callable[_Given, _Lowered]) -> Callable[_Given, _Lowered]:
    """Let a recursive walk over a graph end in `UnsupportedError` where the stack ends it."""

    @wraps(lowering)
    def bounded(*args: _Given.args, **kwargs: _Given.kwargs) -> _Lowered:
        try:
            return lowering(*args, **kwargs)
        except RecursionError:
            # Not chained: a thousand frames of one walk tell nobody anything.
            raise UnsupportedError(
                "its ops depend on each other in a chain of several hundred, longer than templates "
                "can follow; cut it into smaller regions."
            ) from None

    return bounded
