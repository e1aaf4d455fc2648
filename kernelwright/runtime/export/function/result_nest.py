"""What a function returns, with places for its arrays, and the code that makes it again."""

import enum
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import mlx.core as mx

from kernelwright.errors import UnsupportedError
from kernelwright.runtime.export.function.literal import is_literal, literal
from kernelwright.runtime.export.function.passed_nest import _DICTS, _is_record, _state_of


class ResultError(UnsupportedError):
    """A function returns what no export can make again."""


@dataclass(frozen=True)
class _Place:
    """Stands for an array of a result."""

    index: int


@dataclass(frozen=True)
class _Made:
    """Stands for an object of a dataclass, or a kind of dict, in a result."""

    kind: type
    content: Mapping[object, object]
    factory: object = None
    """What a `defaultdict` makes of a key that it lacks."""


def count_arrays(result: object) -> int:
    """Count the arrays of a result whose arrays are places."""
    if isinstance(result, _Place):
        return 1
    if isinstance(result, _Made):
        result = result.content
    inner = result.values() if isinstance(result, Mapping) else result
    return (
        sum(map(count_arrays, inner))
        if isinstance(inner, Iterable) and not isinstance(inner, str)
        else 0
    )


def with_places(result: object) -> object:
    """Replace the arrays of a result by their places."""
    count = iter(range(1_000_000))

    def visit(value: object) -> object:
        if isinstance(value, mx.array):
            return _Place(next(count))
        if type(value) is dict:
            return {name: visit(item) for name, item in value.items()}
        if isinstance(value, OrderedDict | defaultdict) and type(value) in _DICTS:
            held = {name: visit(item) for name, item in value.items()}
            return _Made(type(value), held, _factory_of(value))
        if isinstance(value, tuple) and hasattr(value, "_make"):
            return type(value)._make(map(visit, value))
        if type(value) is tuple:
            return tuple(map(visit, value))
        if type(value) is list:
            return list(map(visit, value))
        if _is_record(value):
            return _Made(type(value), {n: visit(item) for n, item in _state_of(value).items()})
        if value is None or is_literal(value) or isinstance(value, enum.Enum):
            return value
        raise ResultError(
            f"the function returns an object of {type(value).__name__}, expected arrays in "
            "tuples, lists, dicts and dataclasses; return one of these, or make "
            f"{type(value).__name__} a dataclass."
        )

    return visit(result)


def _factory_of(value: object) -> object:
    """Return what a dict makes of keys that it lacks; a class of Python's own, or nothing."""
    factory = getattr(value, "default_factory", None)
    if factory is None or (isinstance(factory, type) and factory.__module__ == "builtins"):
        return factory
    raise ResultError(
        "the function returns a defaultdict with a factory of its own; return a dict, as dict(…) "
        "makes it."
    )


def is_one_array(result: object) -> bool:
    """Say whether a result is an array by itself."""
    return isinstance(result, _Place)


def nest_source(result: object, name_of: Callable[[type], str]) -> str:
    """Return a lambda that puts results into the function's nest.

    Args:
        result: its arrays are places.
        name_of: says what a class is called in the module.
    """

    def nest(value: object) -> str:
        if isinstance(value, _Place):
            return f"r[{value.index}]"
        if isinstance(value, _Made):
            content = nest(dict(value.content))
            if value.kind is OrderedDict:
                return f"collections.OrderedDict({content})"
            if value.kind is defaultdict:
                factory = getattr(value.factory, "__name__", None)
                return f"collections.defaultdict({factory}, {content})"
            return f"_record({name_of(value.kind)}, {content})"
        if isinstance(value, enum.Enum):
            is_named = value.name in type(value).__members__
            member = f".{value.name}" if is_named else f"({value.value!r})"
            return f"{name_of(type(value))}{member}"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{k!r}: {nest(v)}' for k, v in value.items())}}}"
        if isinstance(value, list):
            return f"[{', '.join(map(nest, value))}]"
        if isinstance(value, tuple):
            inner = ", ".join(map(nest, value))
            if hasattr(value, "_make"):
                return f"{name_of(type(value))}({inner})"
            return f"({inner}{',' if len(value) == 1 else ''})"
        return literal(value)

    return f"lambda *r: {nest(result)}"
