"""Says whether two definitions are alike; the text of this file is part of every export."""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

import collections
import dataclasses
import enum
import functools
import types

from kernelwright.runtime.code_names import (
    _MISSING,
    _PLAIN,
    _attribute,
    _globals_in,
    _is_from_the_users,
    _slot_names,
)

_OF_EVERY_CLASS = frozenset(
    {"__module__", "__doc__", "__dict__", "__weakref__", "__slots__", "__annotations__"}
    | {"__dataclass_fields__", "__dataclass_params__", "__orig_bases__", "__parameters__"}
    | {"__firstlineno__", "__static_attributes__", "__abstractmethods__", "_abc_impl"}
    # What the interpreter, copy and pickle keep in a class once they have looked at it.
    | {"__slotnames__", "__annotations_cache__", "__annotate__", "__annotate_func__"}
)

# What collections.namedtuple makes anew for each class, from its fields alone.
_OF_A_NAMED_TUPLE = frozenset(
    {"__new__", "__repr__", "__getnewargs__", "__match_args__", "__replace__"}
    | {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}
)

# What a method or a property is made of.
_PARTS = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    types.MethodType: ("__func__", "__self__"),
    property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",),
    functools.partial: ("func", "args", "keywords"),
    functools.partialmethod: ("func", "args", "keywords"),
}
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_MET_AGAIN = (type, types.FunctionType)
_MOST_DEPTH = 40
_CONTAINERS = (list, dict, set, frozenset, types.SimpleNamespace, collections.deque)
_CONTAINERS += (collections.OrderedDict, collections.defaultdict, collections.Counter)


def _are_alike(one: object, other: object, depth: int = 0, met: set | None = None) -> bool:
    """Say whether two definitions say the same, such as a class and the one it was copied from.

    Args:
        one: a class, function or what these hold.
        other: what it is compared with.
        depth: how deep in definitions these two were found.
        met: pairs that were met: another difference tells of them, or none does.
    """
    if one is other or depth > _MOST_DEPTH:
        return one is other
    met = set() if met is None else met
    if isinstance(one, _MET_AGAIN):
        if (id(one), id(other)) in met:
            # A method that names its own class, as those of a frozen dataclass do.
            return True
        met.add((id(one), id(other)))
    if type(one) is type(other) and type(one) in _PARTS:
        parts = (tuple(getattr(each, n) for n in _PARTS[type(one)]) for each in (one, other))
        return _are_alike(*parts, depth, met)
    if isinstance(one, enum.Enum) and isinstance(other, enum.Enum):
        return one.name == other.name and _are_alike(type(one), type(other), depth + 1, met)
    if isinstance(one, _PLAIN):
        return type(one) is type(other) and repr(one) == repr(other)
    if type(one) is tuple and type(other) is tuple:
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_are_alike(a, b, depth + 1, met) for a, b in pairs)
    if type(one) is type(other) and type(one) in _CONTAINERS:
        # What code reads beside its definitions, such as a table or settings of its file.
        return _are_alike(_items_of(one), _items_of(other), depth + 1, met)
    if dataclasses.is_dataclass(type(one)) and type(one).__qualname__ == type(other).__qualname__:
        held = ((type(each), *_items_of(each)) for each in (one, other))
        return _are_alike(*held, depth + 1, met)
    if isinstance(one, enum.EnumMeta) and isinstance(other, enum.EnumMeta):
        pairs = zip(_parts_of_enumeration(one), _parts_of_enumeration(other), strict=True)
        return all(_are_alike(a, b, depth + 1, met) for a, b in pairs)
    if isinstance(one, type) and isinstance(other, type):
        if [b.__qualname__ for b in one.__mro__] != [b.__qualname__ for b in other.__mro__]:
            return False
        names = (set(vars(one)) | set(vars(other))) - _OF_EVERY_CLASS
        if issubclass(one, tuple) and hasattr(one, "_fields"):
            if not _are_alike(
                _fields_with_defaults(one), _fields_with_defaults(other), depth + 1, met
            ):
                return False
            names -= {*one._fields, *_OF_A_NAMED_TUPLE}
        spaces = [(vars(one).get(n, _MISSING), vars(other).get(n, _MISSING)) for n in names]
        bases = zip(one.__mro__[1:], other.__mro__[1:], strict=True)
        return all(_are_alike(a, b, depth + 1, met) for a, b in (*spaces, *bases))
    if not (type(one) is type(other) is types.FunctionType):
        # What a class has by itself, such as the description of a slot.
        return type(one) is type(other) and isinstance(one, _DESCRIPTORS)
    if (
        one.__code__ is other.__code__
        and hasattr(one, "__wrapped__")
        and not _is_the_users_code(one)
    ):
        # A library's wrapper, such as that of a dataclass's `__repr__`: the same around alikes.
        return _are_alike(one.__wrapped__, getattr(other, "__wrapped__", None), depth + 1, met)
    codes, names = (one.__code__, other.__code__), _globals_in(one.__code__)
    held = [
        (f.__globals__.get(n, _MISSING), g.__globals__.get(n, _MISSING))
        for f, g in ((one, other),)
        for n in names
    ]
    return (
        _text_of(codes[0]) == _text_of(codes[1])
        and _enclose_alikes(one, other, depth, met)
        and _are_alike(one.__defaults__, other.__defaults__, depth + 1, met)
        and _are_alike(one.__kwdefaults__, other.__kwdefaults__, depth + 1, met)
        and all(_are_alike(a, b, depth + 1, met) for a, b in held)
    )


def _items_of(container: object) -> tuple:
    """Return what a container or record holds in order, with the keys or names that it has."""
    if isinstance(container, (list, collections.deque)):
        return tuple(container)
    if isinstance(container, (set, frozenset)):
        return tuple(sorted(map(repr, container)))
    if dataclasses.is_dataclass(container):
        slots = {n: _attribute(container, n) for n in _slot_names(type(container))}
        return *slots.items(), *getattr(container, "__dict__", {}).items()
    is_dict = isinstance(container, dict)
    factory = getattr(container, "default_factory", None) if is_dict else None
    return factory, *(container if is_dict else vars(container)).items()


def _parts_of_enumeration(kind: type) -> tuple[tuple, ...]:
    """Return what an enumeration says: its name, its members in order, its methods and theirs."""
    members = tuple((name, member.value) for name, member in kind.__members__.items())
    own = {n: v for n, v in vars(kind).items() if not n.startswith("_")}
    kinds = (types.FunctionType, property, staticmethod, classmethod)
    methods = {n: v for n, v in own.items() if isinstance(v, kinds)}
    return (kind.__qualname__,), members, tuple(methods), tuple(methods.values())


def _fields_with_defaults(kind: type) -> tuple:
    """Return the fields of a class of named tuples, and those that have a default."""
    return getattr(kind, "_fields", ()), *getattr(kind, "_field_defaults", {}).items()


def _enclose_alikes(
    one: types.FunctionType, other: types.FunctionType, depth: int, met: set
) -> bool:
    """Say whether all that two functions enclose says the same."""
    if one.__code__.co_freevars != other.__code__.co_freevars:
        return False
    held = [
        (_attribute(a, "cell_contents"), _attribute(b, "cell_contents"))
        for name, a, b in zip(
            one.__code__.co_freevars, one.__closure__ or (), other.__closure__ or (), strict=True
        )
        # Python's own, for `super()`.
        if name != "__class__"
    ]
    return all(_are_alike(a, b, depth + 1, met) for a, b in held)


def _is_the_users_code(function: types.FunctionType) -> bool:
    """Say whether a function's own lines are the program's; `functools.wraps` renames it."""
    return _is_from_the_users(str(function.__globals__.get("__name__", "")))


def _text_of(code: types.CodeType) -> tuple:
    inner = [_text_of(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, tuple(inner)
