"""Prints an object as the expression that makes another in the same state, without its `__init__`.

What a statement of the file cannot make again stands so in an export: an object that was changed
later, came from a checkpoint or a loop, or was made in a notebook.
"""

import enum
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import cast

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from kernelwright.runtime.code_names import _has
from kernelwright.runtime.export.function.literal import is_literal, literal
from kernelwright.runtime.method import ATTRIBUTE

MADE = '''\
def _made(kind, fields, items=()):
    """Return an object of a class with these fields, and items if it is a dict or a list."""
    made = kind.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    if isinstance(made, dict):
        dict.update(made, items)
    elif items:
        list.extend(made, items)
    return made
'''
_DEEPEST = 200
_LITERAL_ELEMENTS = 32


class NotPrintableError(Exception):
    """Something in an object has no expression; the text says what, and where."""


@dataclass
class ObjectPrinter:
    """Prints objects; each that several others hold is printed once, under a name of its own."""

    refer: Callable[[str, object], str]
    """Carries a function, class or module of a given name; returns what to call it."""
    prefix: str
    names: frozenset[str] | None = None
    """Attributes that are read; another that has no expression is left out. None for all."""
    given: Mapping[int, str] = field(default_factory=dict)
    """Expressions of arrays that have one already, by their ids."""
    data: dict[str, mx.array] = field(default_factory=dict)
    """Arrays by the name that the expression reads them under."""
    before: list[str] = field(default_factory=list)
    """Statements that make what is shared."""
    uses_numpy: bool = False
    containers: list[object] = field(default_factory=list)
    """All objects that are printed, the inner ones among them."""
    _holders: Counter[int] = field(default_factory=Counter)
    _shared: dict[int, str] = field(default_factory=dict)
    _lambdas: dict[int, str] = field(default_factory=dict)
    _open: set[int] = field(default_factory=set)

    def expression(self, value: object, path: str) -> str:
        """Return the expression of an object.

        Raises:
            NotPrintableError: it holds something that has none.
        """
        self._count(value, 0)
        return self._print(value, path)

    def _count(self, value: object, depth: int) -> None:
        if depth > _DEEPEST or not _is_container(value):
            return
        self._holders[id(value)] += 1
        self.containers.append(value)
        if self._holders[id(value)] == 1:
            for inner in _contents(value):
                self._count(inner, depth + 1)

    def _print(self, value: object, path: str) -> str:
        if is_literal(value) and not isinstance(value, list | dict):
            return literal(value)
        if not _is_container(value):
            return self._single(value, path)
        if id(value) in self._shared:
            return self._shared[id(value)]
        if id(value) in self._open:
            raise NotPrintableError(f"{path} holds itself; cut the circle")
        self._open.add(id(value))
        try:
            text = self._container(value, path)
        finally:
            self._open.remove(id(value))
        if self._holders[id(value)] > 1:
            name = f"_{self.prefix}_{len(self._shared) + 1}"
            self.before.append(f"{name} = {text}")
            self._shared[id(value)] = text = name
        return text

    def _single(self, value: object, path: str) -> str:
        if isinstance(value, mx.array):
            return self._array(value, path)
        if isinstance(value, np.ndarray | np.generic):
            return self._numpy(value, path)
        if isinstance(value, enum.Enum):
            kind = self.refer(type(value).__name__, type(value))
            # Several flags together have no name that is one of Python's.
            is_named = value.name in type(value).__members__
            return f"{kind}.{value.name}" if is_named else f"{kind}({value.value!r})"
        if isinstance(value, range | slice) or value is Ellipsis:
            return repr(value)
        if isinstance(value, MethodType):
            return f"{self._print(value.__self__, path)}.{value.__func__.__name__}"
        if isinstance(value, FunctionType | BuiltinFunctionType | type | ModuleType) or (
            callable(value) and _has(value, "__qualname__")
        ):
            name = str(getattr(value, "__name__", "")).rpartition(".")[2]
            if name == "<lambda>":
                number = len(self._lambdas) + 1
                name = self._lambdas.setdefault(id(value), f"_{self.prefix}_lambda_{number}")
            if name.isidentifier():
                return self.refer(name, value)
        raise NotPrintableError(
            f"{path} is a {type(value).__name__}, which has no text; keep numbers, arrays and "
            "objects of your own classes in it"
        )

    def _array(self, value: mx.array, path: str) -> str:
        if id(value) in self.given:
            return self.given[id(value)]
        key = next((k for k, v in self.data.items() if v is value), path)
        self.data[key] = value
        return f"_DATA[{key!r}]"

    def _numpy(self, value: NDArray[np.generic] | np.generic, path: str) -> str:
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise NotPrintableError(f"{path} is an array of Python objects; keep numbers")
        self.uses_numpy = True
        if (
            array.size <= _LITERAL_ELEMENTS
            and array.dtype.kind in "biuf"
            and np.isfinite(array).all()
        ):
            values = f"{array.tolist()!r}, {array.dtype.str!r}"
            return f"{self.refer('_numpy', np)}.array({values}){'' if array.ndim else '[()]'}"
        raw = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        name = self.refer("_numpy", np)
        read = f"{name}.frombuffer({self._array(mx.array(raw), path)}, {array.dtype.str!r})"
        whole = f"{read}.reshape({array.shape!r}).copy()"
        return whole if isinstance(value, np.ndarray) else f"{whole}[()]"

    def _container(self, value: object, path: str) -> str:
        if isinstance(value, partial):
            name = self.refer("partial", partial)
            parts = [value.func, *value.args]
            printed = [self._print(v, f"{path}.{i}") for i, v in enumerate(parts)]
            named = [f"{k}={self._print(v, f'{path}.{k}')}" for k, v in value.keywords.items()]
            return f"{name}({', '.join([*printed, *named])})"
        if type(value) in (list, tuple, set, frozenset) or _has(value, "_make"):
            return self._sequence(value, path)
        if type(value) is dict:
            return self._dict(value, path)
        return self._object(value, path)

    def _sequence(self, value: object, path: str) -> str:
        assert isinstance(value, list | tuple | set | frozenset)
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        inner = ", ".join(self._print(v, f"{path}.{i}") for i, v in enumerate(items))
        if isinstance(value, list):
            return f"[{inner}]"
        if isinstance(value, set | frozenset):
            whole = f"{{{inner}}}" if inner else "()"
            return whole if inner and type(value) is set else f"{type(value).__name__}({whole})"
        if _has(value, "_make"):
            return f"{self.refer(type(value).__name__, type(value))}({inner})"
        return f"({inner}{',' if len(value) == 1 else ''})"

    def _dict(self, value: Mapping[str, object] | Mapping[object, object], path: str) -> str:
        pairs: list[tuple[object, object]] = list(value.items())
        items = [f"{self._print(k, path)}: {self._print(v, f'{path}.{k}')}" for k, v in pairs]
        return f"{{{', '.join(items)}}}"

    def _object(self, value: object, path: str) -> str:
        kind = type(value)
        if (made := _of_a_library(value)) is not None:
            return f"{self.refer(made[0].__name__, made[0])}({', '.join(map(literal, made[1]))})"
        name = self.refer(kind.__name__, kind)
        parts = [name, self._attributes(_fields(value), path)]
        if isinstance(value, dict) and (items := dict(dict.items(value))):
            parts.append(self._attributes(items, path))
        elif isinstance(value, list):
            parts.append(self._sequence(list(value), path))
        return f"_made({', '.join(parts)})"

    def _attributes(self, value: Mapping[str, object], path: str) -> str:
        """Print attributes by name, without those that are not read and have no expression."""
        items: list[str] = []
        for name, held in value.items():
            try:
                items.append(f"{name!r}: {self._print(held, f'{path}.{name}')}")
            except NotPrintableError:
                if self.names is None or name in self.names:
                    raise
        return f"{{{', '.join(items)}}}"


def _of_a_library(value: object) -> tuple[Callable[..., object], tuple[object, ...]] | None:
    """Return the call that makes an object of Python's library again, such as a log by its name."""
    if type(value).__module__.partition(".")[0] not in sys.stdlib_module_names:
        return None
    if type(value).__module__ in ("__main__", "pathlib"):
        return None
    try:
        made = value.__reduce_ex__(2)
    except Exception as e:
        raise NotPrintableError(f"a {type(value).__name__} has no text") from e
    if not isinstance(made, tuple) or len(made) < 2 or any(part for part in made[2:]):
        return None
    function, arguments = made[0], tuple(made[1])
    name = str(getattr(function, "__name__", ""))
    home = sys.modules.get(str(getattr(function, "__module__", "")))
    if getattr(home, name, None) is not function or not all(map(is_literal, arguments)):
        return None
    return cast("Callable[..., object]", function), arguments


def _is_container(value: object) -> bool:
    if isinstance(value, mx.array | np.ndarray | np.generic | enum.Enum | type | ModuleType):
        return False
    if isinstance(value, list | tuple | dict | set | frozenset | partial):
        return True
    if isinstance(value, FunctionType | BuiltinFunctionType | MethodType | range | slice):
        return False
    if type(value).__module__ == "weakref":
        return False
    if is_literal(value) or (callable(value) and _has(value, "__qualname__")):
        return False
    return _has(value, "__dict__") or _has(value, "__slots__")


def _contents(value: object) -> list[object]:
    if isinstance(value, partial):
        return [*value.args, *value.keywords.values()]
    inner = list(_fields(value).values())
    if isinstance(value, dict):
        return [*dict.values(value), *inner]
    return [*value, *inner] if isinstance(value, list | tuple | set | frozenset) else inner


def _fields(value: object) -> dict[str, object]:
    """Return what an object keeps in its attributes."""
    found = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    found.pop(ATTRIBUTE, None)
    return found
