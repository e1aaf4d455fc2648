"""The decorator by which a function names the inputs that it is searched for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

ATTRIBUTE = "__kernelwright_examples__"
Function = TypeVar("Function", bound=Callable[..., object])


@dataclass(frozen=True)
class Example:
    """One call: each input a type such as `bf16[2048,4096]`, or an array."""

    inputs: tuple[object, ...]
    keywords: tuple[tuple[str, object], ...] = ()


def example(*inputs: object, **keyword_inputs: object) -> Callable[[Function], Function]:
    """Name the inputs that a function is searched for; repeat it for more shapes.

    An input is a type such as `"bf16[2048,4096]"`, or an array whose shape and dtype count.
    The function itself is returned unchanged.
    """

    def mark(function: Function) -> Function:
        earlier = examples_of(function)
        call = Example(inputs, tuple(keyword_inputs.items()))
        # Decorators apply from the bottom up; people read from the top down.
        setattr(function, ATTRIBUTE, (call, *earlier))
        return function

    return mark


def examples_of(function: Callable[..., object]) -> tuple[Example, ...]:
    """Return the examples that decorators left on a function."""
    found: tuple[Example, ...] = getattr(function, ATTRIBUTE, ())
    return found
