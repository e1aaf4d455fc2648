"""Arrays in tuples, lists, dicts and dataclasses that a call passes; part of every export."""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

import collections
import dataclasses
from collections.abc import Iterator

import mlx.core as mx

from kernelwright.runtime.code_names import (
    _has,
)

_DICTS = (dict, collections.OrderedDict, collections.defaultdict)


def _is_record(value: object) -> bool:
    """Say whether a value is an object of a dataclass."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _is_passed_record(value: object) -> bool:
    """Say whether an argument is an object of a dataclass that only holds values."""
    return _is_record(value) and not callable(value)


def _fields_of(record: object) -> dict[str, object]:
    """Return the fields of an object of a dataclass, those that have a value."""
    names = (field.name for field in dataclasses.fields(record))
    return {name: getattr(record, name) for name in names if _has(record, name)}


def _state_of(record: object) -> dict[str, object]:
    """Return all that an object of a dataclass holds, its fields first."""
    return {**_fields_of(record), **getattr(record, "__dict__", {})}


def _record(kind: type, fields: dict[str, object]) -> object:
    """Return an object of a dataclass with these attributes, as its `__init__` left them."""
    made = kind.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def _rebuilt(like: object, arrays: Iterator[mx.array]) -> object:
    """Return arguments with their arrays replaced, in order."""
    if isinstance(like, mx.array):
        return next(arrays)
    if type(like) in _DICTS:
        made = like.copy()
        made.update({name: _rebuilt(item, arrays) for name, item in like.items()})
        return made
    if type(like) in (tuple, list) or _has(like, "_make"):
        items = [_rebuilt(item, arrays) for item in like]
        return type(like)._make(items) if _has(like, "_make") else type(like)(items)
    if _is_passed_record(like):
        fields = {name: _rebuilt(item, arrays) for name, item in _fields_of(like).items()}
        return _record(type(like), {**_state_of(like), **fields})
    return like


def _holds_arrays(value: object) -> bool:
    """Say whether a part of the arguments is or holds an array that `_rebuilt` replaces."""
    if isinstance(value, mx.array):
        return True
    if type(value) in _DICTS:
        return any(map(_holds_arrays, value.values()))
    if type(value) in (tuple, list) or _has(value, "_make"):
        return any(map(_holds_arrays, value))
    return _is_passed_record(value) and any(map(_holds_arrays, _fields_of(value).values()))
