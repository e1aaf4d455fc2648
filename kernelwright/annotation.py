"""The decorator by which a function names the inputs that it is searched for."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from kernelwright.errors import InputError

ATTRIBUTE = "__kernelwright_examples__"
OPTIMIZED = "__kernelwright_original__"
"""Where what `kernelwright.optimize` returns keeps the function that it was given."""
Function = TypeVar("Function", bound=Callable[..., object])


@dataclass(frozen=True)
class Example:
    """One call: each input an array, a plain value, or a text such as `bf16[2048,4096]`."""

    inputs: tuple[object, ...]
    keywords: tuple[tuple[str, object], ...] = ()
    place: str = field(default="", compare=False)
    """The file and the line of its decorator; empty where there is none."""


_BESIDE: dict[int, tuple[Callable[..., object], tuple[Example, ...]]] = {}
"""Examples of functions that take no attributes, by identity; the function is kept alive."""


def example(*inputs: object, **keyword_inputs: object) -> Callable[[Function], Function]:
    """Name the inputs that a function is searched for; repeat it for more shapes.

    An input is an array whose shape and dtype count, a plain value, or a text as the command line
    takes it: `"bf16[2048,4096]"`, `"n=3"`, `"{'x': f32[8,64]}"`. Any other text, such as the name
    of a mode, is itself. The function is returned unchanged.
    """
    caller = sys._getframe(1)
    place = f"{caller.f_code.co_filename}, line {caller.f_lineno}"

    def mark(function: Function) -> Function:
        if not callable(function) or isinstance(function, type):
            raise InputError(
                f"expected a function under @kernelwright.example, found {function!r}."
            )
        earlier = examples_of(function)
        call = Example(inputs, tuple(keyword_inputs.items()), place)
        # Decorators apply from the bottom up; people read from the top down.
        examples = (call, *earlier)
        try:
            setattr(function, ATTRIBUTE, examples)
        except (AttributeError, TypeError):
            # What mx.compile returns takes no attributes, and no weak references either.
            _BESIDE[id(function)] = (function, examples)
        return function

    return mark


def examples_of(function: Callable[..., object]) -> tuple[Example, ...]:
    """Return the examples that decorators left on a function."""
    kept, examples = _BESIDE.get(id(function), (None, ()))
    found: tuple[Example, ...] = getattr(function, ATTRIBUTE, ())
    return examples if kept is function else found


def original_of(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function that `kernelwright.optimize` was given; any other as it is."""
    # Asked of the type: a wrapper that copies attributes is a function of its own.
    if hasattr(type(function), OPTIMIZED):
        found: Callable[..., object] = getattr(function, OPTIMIZED)
        return found
    return function
