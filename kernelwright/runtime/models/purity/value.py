"""What an expression may stand for, as far as that outlives the call; looked up, never run."""

import ast
import functools
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module

from kernelwright.runtime.models.purity.library import is_library
from kernelwright.runtime.models.tree import own_class

Values = tuple[object, ...]
"""Objects that an expression may stand for; what the call makes or is given is not among them."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), mx.Dtype, mx.array)
ABSENT = object()
"""Stands for an entry that no class has."""
UNKNOWN = object()
"""Stands for a value that is not known before the call."""


@dataclass(frozen=True, eq=False)
class Row:
    """A list, a tuple, a dict or an iterator that the call makes, by what it holds."""

    parts: tuple[Values, ...]
    added: list[Values] = field(default_factory=list)
    """What is put into it later."""


@dataclass(frozen=True, eq=False)
class RowMethod:
    """A method of what the call makes."""

    row: Row


@dataclass(frozen=True, eq=False)
class Fresh:
    """An object of the program's own class that the call makes."""

    kind: type
    fields: dict[str, Values] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Above:
    """What `super()` gives in a method of a class."""

    kind: type
    owner: object


@dataclass(frozen=True, eq=False)
class Bound:
    """A method of what the call makes, or of a class above."""

    function: FunctionType
    owner: object


@dataclass(frozen=True, eq=False)
class Inner:
    """A function that is defined in the call."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    frame: "Frame"


@dataclass(frozen=True, eq=False)
class Computed:
    """A property that an object computes when it is asked for."""

    function: object
    owner: object


@dataclass
class Frame:
    """The names of a function that is examined."""

    globals: Mapping[str, object]
    cells: Mapping[str, CellType]
    local: frozenset[str]
    file: str
    names: dict[str, Values] = field(default_factory=dict)
    made: list[object] = field(default_factory=list)
    """What it returns."""


def joined(*several: Values) -> Values:
    """Return all values of several, each once."""
    if sum(map(bool, several)) < 2:
        return next(filter(None, several), ())
    return tuple({id(v): v for values in several for v in values}.values())


def kept(values: Iterator[object]) -> Values:
    """Return those values that can do or change anything."""
    return joined(tuple(v for v in values if not isinstance(v, _PLAIN)))


def class_of(value: object) -> type:
    """Return the class of a value, as it was before kernels were installed."""
    if isinstance(value, Module):
        return own_class(value)
    if isinstance(value, Fresh | Above):
        return value.kind
    return type(value)


def is_own_kind(value: object) -> bool:
    """Say whether a value is of a class of the program's own."""
    return not is_library(class_of(value).__module__)


def is_own_object(value: object) -> bool:
    """Say whether a value is an object of a class of the program's own, and no module."""
    if isinstance(value, Fresh):
        return True
    if isinstance(value, Module | type | FunctionType | MethodType | _MADE):
        return False
    return not is_library(type(value).__module__)


_MADE = Row | RowMethod | Above | Bound | Inner | Computed


def elements(value: object) -> Values:
    """Return what a container holds; of a dict the values."""
    if isinstance(value, Row):
        return joined(*value.parts, *value.added)
    if isinstance(value, dict):
        return kept(iter(list(dict.values(value))))
    if isinstance(value, list | tuple | set | frozenset | deque):
        return kept(iter(list(value)))
    # A part of an array of NumPy's is a view of it.
    return (value,) if isinstance(value, np.ndarray) else ()


def attribute(value: object, name: str) -> Values:
    """Return what an attribute of a value stands for."""
    if name == "__class__":
        return (class_of(value),)
    if isinstance(value, ModuleType):
        found = vars(value).get(name, ABSENT)
        if found is ABSENT and is_library(value.__name__):
            # NumPy loads parts of itself when they are named.
            found = getattr(value, name, ABSENT)
        return () if found is ABSENT else kept(iter([found]))
    if isinstance(value, type):
        return _bound(entry(value.__mro__, name), None, value)
    if isinstance(value, Above):
        mro = class_of(value.owner).__mro__ if value.owner is not None else value.kind.__mro__
        above = mro[mro.index(value.kind) + 1 :] if value.kind in mro else ()
        return _bound(entry(above, name), value.owner, class_of(value.owner))
    if isinstance(value, Fresh) and name in value.fields:
        return value.fields[name]
    if isinstance(value, Row):
        return (RowMethod(value),)
    if isinstance(value, Bound | Inner | RowMethod):
        return ()
    return _of_object(value, name)


def _of_object(value: object, name: str) -> Values:
    kind = class_of(value)
    said = entry(kind.__mro__, name)
    if isinstance(said, property | functools.cached_property):
        return _bound(said, value, kind)
    for fields in _fields(value):
        if name in fields:
            return kept(iter([fields[name]]))
    return _bound(said, value, kind)


def _fields(value: object) -> Iterator[Mapping[object, object]]:
    if not isinstance(value, Fresh):
        yield own_fields(value)
    if isinstance(value, Module):
        yield value


def own_fields(value: object) -> Mapping[object, object]:
    """Return an object's own attributes, whatever its class makes up of their names."""
    try:
        return object.__getattribute__(value, "__dict__")  # type: ignore[no-any-return]
    except (AttributeError, TypeError):
        return {}


def entry(classes: tuple[type, ...], name: str) -> object:
    """Return what the first of some classes with a name keeps there; `ABSENT` where none is."""
    return next((vars(kind)[name] for kind in classes if name in vars(kind)), ABSENT)


def _bound(said: object, owner: object, kind: type) -> Values:
    """Return what an entry of a class stands for when it is read of an object, or of the class."""
    if said is ABSENT:
        return ()
    if isinstance(said, staticmethod):
        return (said.__func__,)
    if isinstance(said, classmethod):
        inner = said.__func__
        return (Bound(inner, kind),) if isinstance(inner, FunctionType) else ()
    if isinstance(said, property):
        return (Computed(said.fget, owner),) if owner is not None and said.fget else ()
    if isinstance(said, functools.cached_property):
        return (Computed(said.func, owner),) if owner is not None else ()
    if isinstance(said, FunctionType):
        return (said,) if owner is None else (Bound(said, owner),)
    if isinstance(said, ClassMethodDescriptorType):
        return (said.__get__(None, kind),)
    is_container = isinstance(owner, list | dict | set | deque | tuple)
    is_changing = (is_container and not isinstance(owner, Module)) or hasattr(kind, "__next__")
    if isinstance(said, WrapperDescriptorType) and (is_changing or isinstance(owner, np.ndarray)):
        return (said.__get__(owner),) if not isinstance(owner, Fresh) else ()
    if type(said).__name__ == "_tuplegetter" and isinstance(owner, tuple):
        return elements(owner)
    if isinstance(said, MethodDescriptorType | BuiltinFunctionType) and owner is not None:
        if isinstance(owner, Fresh):
            return ()
        return (getattr(owner, said.__name__),) if is_container else (_of(said, owner),)
    if isinstance(owner, np.ndarray):
        return (owner,)
    if hasattr(type(said), "__get__") and owner is not None and not callable(said):
        # A slot, or what a library's object computes.
        is_slot = type(said).__name__ == "member_descriptor" and not isinstance(owner, Fresh)
        return kept(iter([getattr(owner, said.__name__, None)])) if is_slot else ()  # type: ignore[attr-defined]
    return kept(iter([said]))


def _of(said: MethodDescriptorType | BuiltinFunctionType, owner: object) -> object:
    return said.__get__(owner) if isinstance(said, MethodDescriptorType) else said


def raw_field(value: object, name: str) -> object:
    """Return what an object, a module or a class of the program's own keeps under a name."""
    if isinstance(value, Module) and name == "training":
        name = "_training"
    is_asked = isinstance(value, Module) or is_own_object(value) or is_namespace(value)
    if not is_asked or isinstance(value, Fresh):
        return UNKNOWN
    said = entry(class_of(value).__mro__, name)
    if hasattr(type(said), "__set__"):
        return UNKNOWN
    found = next((fields[name] for fields in _fields(value) if name in fields), said)
    return UNKNOWN if found is ABSENT else found


def is_namespace(value: object) -> bool:
    """Say whether a library's object only holds attributes."""
    return isinstance(value, SimpleNamespace) or type(value).__name__ == "Namespace"


def positional(text: ast.AST) -> list[str]:
    """Name the parameters that a definition takes by place."""
    given: ast.arguments = text.args  # type: ignore[attr-defined]
    return [a.arg for a in (*given.posonlyargs, *given.args)]


def bind(
    frame: Frame,
    text: ast.AST,
    args: tuple[Values, ...],
    named: Mapping[str, Values],
    defaults: Mapping[str, Values],
) -> None:
    """Give parameters what a call passes."""
    given: ast.arguments = text.args  # type: ignore[attr-defined]
    names = positional(text)
    spread = named.get("**", ())
    more = joined(*map(elements, spread))
    for place, name in enumerate(names):
        passed = args[place] if place < len(args) else named.get(name, defaults.get(name, ()))
        frame.names[name] = passed if place < len(args) else joined(passed, more)
    for keyword in given.kwonlyargs:
        frame.names[keyword.arg] = named.get(keyword.arg, defaults.get(keyword.arg, ()))
    if given.vararg is not None:
        frame.names[given.vararg.arg] = (Row((joined(*args[len(names) :]),)),)
    if given.kwarg is not None:
        rest = [v for n, v in named.items() if n not in names]
        frame.names[given.kwarg.arg] = (Row((joined(spread, *rest),)),)
