"""Calls a function that `mx.compile` made: MLX refuses some that it traces without compiling."""

from collections.abc import Callable

import mlx.core as mx

from kernelwright.errors import InputError
from kernelwright.ir.trace.closure import reachable
from kernelwright.ir.trace.random_state import kept_random_state
from kernelwright.ir.trace.refusal import line_of, line_of_definition
from kernelwright.ir.trace.transformation import innermost, transformation_of

Function = Callable[..., object]
_MOST_BYTES = 1 << 26
"""Of the arrays that a call takes: more would keep a search waiting."""
_MOST_SAID = 120


def check_compiled(
    function: Function, name: str, arrays: list[mx.array], call: Callable[..., list[mx.array]]
) -> None:
    """Call a function as its users do if something in it is compiled; a trace compiles nothing.

    What is compiled with a state that it changes is not called.

    Args:
        function: the user's.
        name: of the function.
        arrays: what it takes.
        call: computes its results from such arrays.

    Raises:
        InputError: such a call fails at all times; the line of what is compiled is named.
    """
    found = [value for value in reachable(function) if callable(value) and _is_compiled(value)]
    if not found or any(map(_has_state, found)) or sum(a.nbytes for a in arrays) > _MOST_BYTES:
        return
    try:
        with kept_random_state():
            mx.eval(call(*arrays))
    except Exception as e:
        said = str(e).partition("\n")[0][:_MOST_SAID].rstrip(".")
        line = line_of(e) or line_of_definition(innermost(found[0]))
        raise InputError(
            f"{name}{line} raises {type(e).__name__} at every call, for mx.compile refuses what is "
            f"compiled there ({said}); compile a function that takes and returns arrays, or lists, "
            "tuples and dicts of them, or search it without mx.compile."
        ) from e


def _is_compiled(value: Function) -> bool:
    made = transformation_of(value)
    return made is not None and made.name == "compile"


def _has_state(compiled: object) -> bool:
    made = transformation_of(compiled)
    return made is not None and any(isinstance(a, list | dict) for a in made.arguments or ())
