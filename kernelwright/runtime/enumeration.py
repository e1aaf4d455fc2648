"""Takes members of a user's enumerations for those of this module's copies of them.

Code compares members by identity, and a module that carries an enumeration has members of its
own. The text of this file is part of every export.
"""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

import contextlib
import enum
import functools
import inspect
from collections.abc import Callable, Iterator

from kernelwright.runtime.code_names import _has, _is_the_users, _slot_names
from kernelwright.runtime.unchanged import _are_still_alike


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
    elif type(value) in (tuple, list) or _has(value, "_make"):
        items = [_with_own_members(item, kinds) for item in value]
        own = type(value)._make(items) if _has(value, "_make") else type(value)(items)
        pairs = zip(own, value, strict=True)
    else:
        return value
    # A list or dict that the function changes has to be the caller's.
    return own if any(a is not b for a, b in pairs) else value


def _of_own_members(function: Callable) -> Callable:
    """Return a function to which objects among its arguments hold its module's own members."""
    kinds = _enumerations_of(function)
    if not kinds:
        return function

    @functools.wraps(function)
    def called(*args: object, **kwargs: object) -> object:
        with _own_members_inside((args, kwargs), kinds):
            return function(*args, **kwargs)

    return called


@contextlib.contextmanager
def _own_members_inside(arguments: object, kinds: tuple[type, ...]) -> Iterator[None]:
    """Let the attributes of objects hold own members meanwhile; they stay the caller's objects."""
    replaced = []
    try:
        for owner, name, value in list(_attributes_in(arguments, set()) if kinds else ()):
            own = _with_own_members(value, kinds)
            if own is not value:
                object.__setattr__(owner, name, own)
                replaced.append((owner, name, value, own))
        yield
    finally:
        for owner, name, value, own in replaced:
            # What the function itself put there stays.
            if getattr(owner, name, None) is own:
                object.__setattr__(owner, name, value)


def _attributes_in(value: object, seen: set[int]) -> Iterator[tuple[object, str, object]]:
    """Yield the attributes of a program's own objects, however deep: the object, name and value."""
    if isinstance(value, (enum.Enum, type)) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        for item in list(dict.values(value)):
            yield from _attributes_in(item, seen)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _attributes_in(item, seen)
    if _is_the_users(type(value)):
        names = [*getattr(value, "__dict__", ()), *_slot_names(type(value))]
        for name in names:
            if hasattr(value, name):
                yield value, name, getattr(value, name)
                yield from _attributes_in(getattr(value, name), seen)


def _own_member(member: enum.Enum, kinds: tuple[type, ...]) -> enum.Enum:
    kind = type(member)
    alike = [own for own in kinds if _are_still_alike(own, kind)]
    if kind in alike or len(alike) != 1:
        return member
    # Members of a flag that are taken together have no name of their own.
    return alike[0].__members__.get(member.name) or alike[0](member.value)
