"""The arguments and results of a module's call: arrays, plain values, and state such as caches."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeGuard

import mlx.core as mx

Key = tuple[object, ...]
_FIXED = frozenset({bool, str, bytes, type(None)})
"""Plain values that decide what is computed; numbers are state, as an offset grows with a cache."""


_KEEPS_ARRAYS = "ArraysCache"
"""mlx-lm's cache of states by number; which of them are there decides what is computed."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A place in a call's environment, which holds arrays and state."""

    place: int


def is_fixed(value: object) -> bool:
    """Say whether a value is a constant of the trace."""
    # Not `isinstance`, which asks state for its class, as a model may not.
    return type(value) in _FIXED or type(value) is mx.Dtype


def is_array(value: object) -> TypeGuard[mx.array]:
    """Say whether a value is an array."""
    return issubclass(type(value), mx.array)


def map_leaves(value: object, change: Callable[[object], object]) -> object:
    """Return a nest with every leaf changed; tuples, lists and dicts are walked through."""
    if type(value) is tuple:
        return tuple([map_leaves(item, change) for item in value])
    if type(value) is list:
        return [map_leaves(item, change) for item in value]
    if type(value) is dict:
        return {key: map_leaves(item, change) for key, item in value.items()}
    return change(value)


def leaves(value: object) -> list[object]:
    """List the leaves of a nest in order."""
    found: list[object] = []
    map_leaves(value, found.append)
    return found


def arrays_of(value: object) -> list[mx.array]:
    """List the arrays of a nest in order."""
    return [leaf for leaf in leaves(value) if is_array(leaf)]


def fill(template: object, environment: list[object]) -> object:
    """Return a template with what its places hold."""
    if type(template) is Ref:
        return environment[template.place]
    if type(template) is tuple:
        return tuple([fill(item, environment) for item in template])
    if type(template) is list:
        return [fill(item, environment) for item in template]
    if type(template) is dict:
        return {key: fill(item, environment) for key, item in template.items()}
    return template


def call_key(
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    passed: frozenset[object] | None = None,
) -> Key:
    """Return what tells calls apart: shapes and dtypes, fixed values, the kinds of state.

    Of arguments that are `passed` on, by place or name, the type alone counts where it is an array.
    """
    key: list[object] = []
    for place, value in enumerate(args):
        if passed and place in passed and type(value) is mx.array:
            key.append(mx.array)
        else:
            _add_key(value, key)
    for name, value in kwargs.items():
        key.append(name)
        if passed and name in passed and type(value) is mx.array:
            key.append(mx.array)
        else:
            _add_key(value, key)
    return tuple(key)


def _add_key(value: object, key: list[object]) -> None:
    kind = type(value)
    if kind is mx.array:
        key.append(value.shape)  # type: ignore[attr-defined]
        # A dtype is a new object each time, slow to compare; its hash is its number.
        key.append(hash(value.dtype))  # type: ignore[attr-defined]
    elif kind in _FIXED:
        # 1, 1.0 and True are equal in Python.
        key += (kind, value)
    elif kind is tuple or kind is list:
        key += (kind, len(value))  # type: ignore[arg-type]
        for item in value:  # type: ignore[attr-defined]
            _add_key(item, key)
    elif kind is dict:
        key += (kind, *value)  # type: ignore[misc]
        for item in value.values():  # type: ignore[attr-defined]
            _add_key(item, key)
    elif kind.__name__ == _KEEPS_ARRAYS and hasattr(value, "left_padding"):
        key.append(kind)
        _add_kept(value, key)
    else:
        key.append(hash(value) if kind is mx.Dtype else kind)


def _add_kept(value: object, key: list[object]) -> None:
    """Add what decides how such a cache is used: which arrays it has, and what it counts."""
    for item in value.cache:  # type: ignore[attr-defined]
        if item is None:
            key.append(None)
        else:
            key.append(item.shape)
            key.append(hash(item.dtype))
    key.append(value.lengths is None and value.left_padding is None)  # type: ignore[attr-defined]


def without_sizes(key: Key) -> Key:
    """Return what calls share whose arrays have other sizes: a key with lengths for shapes."""
    return tuple(len(part) if type(part) is tuple else part for part in key)


def array_types(value: object) -> Key:
    """Return the shapes and dtypes of a nest's arrays alone."""
    return tuple((a.shape, hash(a.dtype)) for a in arrays_of(value))
