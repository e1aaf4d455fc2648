"""The arrays that a function reads besides its arguments: parameters, captured and global ones.

They may be others at the next call, and gradients flow to them, so a kernel is given them anew
each time, as it is given the arguments.
"""

import dis
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Protocol

import mlx.core as mx

from kernelwright.runtime.code_names import _cached_properties, _is_module
from kernelwright.runtime.kept import (
    Kept,
    KeptItems,
    name_of_cell,
    names_in,
    names_of_class,
)
from kernelwright.runtime.watched_place import _original_of

_NOT_THE_USERS = frozenset({"mlx", "numpy", "kernelwright", *sys.stdlib_module_names})
_MOST_OBJECTS = 100_000
_LOOK_UPS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_REBINDINGS = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})


class Slot(Protocol):
    """A place that holds an array now, and may hold another one later."""

    def get(self) -> mx.array:
        """Return what it holds."""

    def put(self, array: mx.array) -> None:
        """Let it hold another array."""


class Module(Protocol):
    """What is needed of `mlx.nn.Module`, which takes long to import and few programs lack."""

    @property
    def training(self) -> bool:
        """Say whether it trains, which decides what some layers compute."""


@dataclass(frozen=True, eq=False)
class _Item:
    """A place in a dict, a module or a list."""

    holder: dict[object, mx.array]
    key: object

    def get(self) -> mx.array:
        return self.holder[self.key]

    def put(self, array: mx.array) -> None:
        self.holder[self.key] = array


@dataclass(frozen=True, eq=False)
class _Cell:
    """A variable of an enclosing function."""

    cell: CellType

    def get(self) -> mx.array:
        held: mx.array = self.cell.cell_contents
        return held

    def put(self, array: mx.array) -> None:
        self.cell.cell_contents = array


@dataclass
class State:
    """Everything of a function's that is no argument."""

    slots: list[Slot] = field(default_factory=list)
    modules: list["Module"] = field(default_factory=list)
    """Those that no other module holds: whether they train decides what they compute."""
    is_whole: bool = True
    """False where an array stands in a place that cannot be changed, such as a tuple."""

    kept: list[Kept] = field(default_factory=list)
    """What everything that the function may change holds."""

    @property
    def is_as_it_was(self) -> bool:
        """False when something holds other values than when the state was found."""
        return all(holder.is_as_it_was for holder in self.kept)

    def restore(self) -> None:
        """Undo what a call did to whatever holds arrays."""
        for holder in self.kept:
            if not holder.is_as_it_was:
                holder.restore()

    @property
    def arrays(self) -> list[mx.array]:
        """What the slots hold now."""
        return [slot.get() for slot in self.slots]


def state_of(function: Callable[..., object]) -> State:
    """Find the arrays that a function reaches by its own variables, names and parameters.

    What it gets from elsewhere, such as another function's cache, is a constant to it, as it is
    to `mx.compile`.
    """
    return _Walk().over(function)


@contextmanager
def holding(slots: Sequence[Slot], arrays: Sequence[mx.array]) -> Iterator[None]:
    """Let the slots hold other arrays for a while."""
    before = [slot.get() for slot in slots]
    for slot, array in zip(slots, arrays, strict=True):
        slot.put(array)
    try:
        yield
    finally:
        for slot, array in zip(slots, before, strict=True):
            slot.put(array)


class _ModuleDict(Module, Protocol):
    def items(self) -> Iterator[tuple[object, object]]: ...


class _Walk:
    def __init__(self) -> None:
        self._found = State()
        self._seen: dict[int, object] = {}
        self._depth_in_modules = 0

    def over(self, function: object) -> State:
        self._visit(function)
        return self._found

    def _visit(self, value: object) -> None:
        if callable(value):
            value = _original_of(value)
        if id(value) in self._seen or len(self._seen) > _MOST_OBJECTS:
            return
        self._seen[id(value)] = value
        if isinstance(value, MethodType):
            self._visit(value.__self__)
            self._visit(value.__func__)
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, partial):
            self._several((value.func, value.args, value.keywords))
        elif _is_module(value):
            self._module(value)  # type: ignore[arg-type]
        elif isinstance(value, dict):
            self._whole(value, list(value.items()))
        elif isinstance(value, list):
            self._whole(value, list(enumerate(value)))
        elif isinstance(value, tuple):
            self._found.is_whole &= not any(isinstance(v, mx.array) for v in value)
            self._several(value)
        elif isinstance(value, type):
            if is_the_users(value):
                self._found.kept.append(names_of_class(value))
        elif not isinstance(value, ModuleType) and is_the_users(type(value)):
            self._object(value)

    def _several(self, values: Sequence[object]) -> None:
        for value in values:
            self._visit(value)

    def _whole(
        self,
        holder: object,
        items: Sequence[tuple[object, object]],
        filled: Sequence[str] = (),
    ) -> None:
        """Visit everything that something holds, and note it."""
        if isinstance(holder, list | dict):
            copy = list(holder) if isinstance(holder, list) else dict(holder)
            self._found.kept.append(KeptItems(holder, copy, filled))
        self._items(holder, items)

    def _items(self, holder: object, items: Sequence[tuple[object, object]]) -> None:
        for key, value in items:
            if isinstance(value, mx.array):
                self._found.slots.append(_Item(holder, key))  # type: ignore[arg-type]
            else:
                self._visit(value)

    def _module(self, module: "_ModuleDict") -> None:
        if not self._depth_in_modules:
            self._found.modules.append(module)
        self._depth_in_modules += 1
        self._whole(module, list(module.items()))
        self._object(module)
        self._depth_in_modules -= 1

    def _object(self, value: object) -> None:
        kind: type = type(value)
        fields = getattr(value, "__dict__", None)
        if isinstance(fields, dict):
            self._whole(fields, list(fields.items()), _cached_properties(kind))
        for base in kind.__mro__:
            call = vars(base).get("__call__")
            if callable(call) and isinstance(inner := _original_of(call), FunctionType):
                self._visit(inner)
                break

    def _function(self, function: FunctionType) -> None:
        if not is_the_users(function):
            return
        for cell in function.__closure__ or ():
            self._found.kept.append(name_of_cell(cell))
            content = _content(cell)
            if isinstance(content, mx.array):
                self._found.slots.append(_Cell(cell))
            else:
                self._visit(content)
        self._several((function.__defaults__ or (), function.__kwdefaults__ or {}))
        attributes = vars(function)
        self._whole(attributes, list(attributes.items()))
        names = global_names(function.__code__)
        self._named(function.__globals__, names)
        written = global_names(function.__code__, _REBINDINGS)
        self._found.kept.append(names_in(function.__globals__, written))
        modules = [function.__globals__.get(name) for name in names]
        for module in modules:
            if isinstance(module, ModuleType) and _is_from_the_users(module.__name__):
                self._named(vars(module), _names(function.__code__))
                self._found.kept.append(names_in(vars(module), _names(function.__code__)))

    def _named(self, space: dict[str, object], names: frozenset[str]) -> None:
        self._items(space, [(name, space[name]) for name in sorted(names) if name in space])


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        # A variable that is not bound yet.
        return None


@cache
def global_names(code: CodeType, opcodes: frozenset[str] = _LOOK_UPS) -> frozenset[str]:
    """Return the names that a function and those defined in it look up outside of themselves.

    With other opcodes: the names that these have to do with, such as those that it rebinds.
    """
    inner = [global_names(c, opcodes) for c in code.co_consts if isinstance(c, CodeType)]
    own = (i.argval for i in dis.get_instructions(code) if i.opname in opcodes)
    return frozenset(own).union(*inner)


def _names(code: CodeType) -> frozenset[str]:
    """Return those names and the attributes that they ask for, of a module for one."""
    inner = [_names(c) for c in code.co_consts if isinstance(c, CodeType)]
    return frozenset(code.co_names).union(*inner)


def is_the_users(value: type | FunctionType) -> bool:
    """Say whether a class or function is the program's own, and not MLX's or a library's."""
    module: object = getattr(value, "__module__", None)
    return isinstance(module, str) and _is_from_the_users(module)


def _is_from_the_users(module: str) -> bool:
    # What a program's own file defines is in `__main__`, which is a standard module's name, too.
    return module == "__main__" or module.partition(".")[0] not in _NOT_THE_USERS
