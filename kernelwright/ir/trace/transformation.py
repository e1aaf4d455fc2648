"""What `mx.grad`, `mx.vmap` and their like return, which says nothing of how it was made."""

import gc
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType

import mlx.core as mx

Function = Callable[..., object]
_KIND = type(mx.compile(abs))
_NO_PARAMETER = "no parameter"
"""A keyword that no function takes: nothing of the user's runs."""


@dataclass(frozen=True)
class Transformation:
    """A function that another was made of."""

    name: str
    """Of what made it, such as `value_and_grad`."""
    inner: Function
    arguments: tuple[object, ...] | None
    """The further ones that it was made with; None where MLX does not show them."""


def transformation_of(function: object) -> Transformation | None:
    """Return what a function of MLX's transformations, or a wrapper of Python's, was made of."""
    if type(function) is not _KIND:
        return _wrapper_of(function)
    *arguments, inner = gc.get_referents(function)[1:]
    if not arguments:
        return Transformation(_derivative(function, inner), inner, None)
    name = "vmap" if _holds_axes(arguments[0]) else "compile"
    return Transformation(name, inner, tuple(arguments))


def innermost(function: Function) -> Function:
    """Return the function inside of all that transformations made of it."""
    while (made := transformation_of(function)) is not None:
        function = made.inner
    return function


def _wrapper_of(function: object) -> Transformation | None:
    """Return what `functools.wraps` says of a wrapper, such as `nn.value_and_grad` returns."""
    inner = getattr(function, "__wrapped__", None)
    if not isinstance(function, FunctionType) or not callable(inner):
        return None
    return Transformation(function.__code__.co_qualname.partition(".")[0], inner, None)


def _holds_axes(argument: object) -> bool:
    """Say whether an argument is an axis or a nest of axes; `mx.compile` takes one of arrays."""
    if isinstance(argument, dict):
        return any(map(_holds_axes, argument.values()))
    if isinstance(argument, list | tuple):
        return any(map(_holds_axes, argument))
    return isinstance(argument, int)


def _derivative(function: Function, inner: Function) -> str:
    """Return the name that stands in a derivative's errors; `mx.checkpoint` has none of its own."""
    if _takes_any_keyword(inner):
        return "derivative"
    try:
        function(**{_NO_PARAMETER: None})
    except Exception as e:
        if found := re.match(r"\[(grad|value_and_grad)\]", str(e)):
            return found[1]
    return "checkpoint"


def _takes_any_keyword(function: Function) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.kind is p.VAR_KEYWORD for p in parameters)
