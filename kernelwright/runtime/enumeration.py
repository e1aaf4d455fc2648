"""Takes members of a user's enumerations for those of this module's copies of them.

Code compares members by identity, and a module that carries an enumeration has members of its
own. The text of this file is part of every export.
"""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

import enum
import functools
import inspect
from collections.abc import Callable

from kernelwright.runtime.definition import _are_alike


def _member_exchange(function: Callable) -> Callable[[tuple, dict], tuple[tuple, dict]]:
    """Return what takes the members among arguments for those of the function's module."""
    kinds = _enumerations_of(function)
    if not kinds:
        return lambda args, kwargs: (args, kwargs)
    return lambda args, kwargs: _with_own_members((args, kwargs), kinds)


def _enumerations_of(function: Callable) -> tuple[type, ...]:
    """List the enumerations that the module of a function defines."""
    space = getattr(inspect.unwrap(function), "__globals__", {})
    kinds = (value for value in list(space.values()) if isinstance(value, enum.EnumMeta))
    return tuple(kind for kind in kinds if kind.__module__ == space.get("__name__"))


def _with_own_members(value: object, kinds: tuple[type, ...]) -> object:
    """Return arguments with the members of enumerations that say the same as one of `kinds`."""
    if isinstance(value, enum.Enum):
        return _own_member(value, kinds)
    if type(value) is dict:
        own = {_with_own_members(k, kinds): _with_own_members(v, kinds) for k, v in value.items()}
        pairs = zip((*own, *own.values()), (*value, *value.values()), strict=True)
    elif type(value) in (tuple, list):
        own = type(value)(_with_own_members(item, kinds) for item in value)
        pairs = zip(own, value, strict=True)
    else:
        return value
    # A list or dict that the function changes has to be the caller's.
    return own if any(a is not b for a, b in pairs) else value


def _own_member(member: enum.Enum, kinds: tuple[type, ...]) -> enum.Enum:
    kind = type(member)
    alike = [own for own in kinds if own is kind or _say_the_same(own, kind)]
    if kind in alike or len(alike) != 1:
        return member
    # Members of a flag that are taken together have no name of their own.
    return alike[0].__members__.get(member.name) or alike[0](member.value)


@functools.cache
def _say_the_same(one: type, other: type) -> bool:
    """Say whether two enumerations have the same name, and the same members in order."""
    members = [tuple((n, m.value) for n, m in kind.__members__.items()) for kind in (one, other)]
    return one.__qualname__ == other.__qualname__ and _are_alike(*members)
