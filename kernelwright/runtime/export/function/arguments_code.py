"""The arguments of a call with other arrays, as values and as text, and what is called."""

import copy
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import cast

import mlx.core as mx

from kernelwright.runtime.code_names import _has
from kernelwright.runtime.enumeration import _member_exchange
from kernelwright.runtime.export.function.carried_names import is_library
from kernelwright.runtime.export.function.carried_source import CarriedSource
from kernelwright.runtime.export.function.dispatch import _binding
from kernelwright.runtime.export.function.literal import is_literal, literal
from kernelwright.runtime.export.function.object_code import NotPrintableError, ObjectPrinter
from kernelwright.runtime.export.function.passed_call import _Call
from kernelwright.runtime.export.function.passed_nest import (
    _DICTS,
    _fields_of,
    _is_passed_record,
    _rebuilt,
    _state_of,
)


@dataclass(frozen=True)
class ArgumentsText:
    """The expression of `(args, kwargs)`."""

    text: str
    """Reads arrays as `a[0]`, `a[1]`, …, the module as `exported`, `_DATA`, and `_made`."""
    data: Mapping[str, mx.array]
    """Arrays that objects among the arguments hold."""


@dataclass(frozen=True)
class GivenArguments:
    """What a call passes, as a function of arrays: of nests and records, then of objects."""

    call: _Call
    held: tuple[mx.array, ...]
    """The arrays that objects hold, each once; none where the objects cannot be copied."""

    @classmethod
    def of(
        cls,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> "GivenArguments":
        """Read a call; what is a default of the function is left to it."""
        own = _member_exchange(function)(args, dict(kwargs))
        whole = _Call(_binding(function)(*own))
        call = _Call(_without_defaults(whole, function))
        direct = set(map(id, call.arrays))
        found = {id(a): a for a in map(call.array_at, range(len(call.slots)))}
        given = cls(call, tuple(a for key, a in found.items() if key not in direct))
        try:
            given.rebuilt(given.arrays)
        except Exception:
            # An object may refuse to be copied in any way that its class thinks of.
            return cls(call, ())
        return given

    @property
    def arrays(self) -> list[mx.array]:
        """List the arrays in the order in which `rebuilt` takes others."""
        return [*self.call.arrays, *self.held]

    def rebuilt(self, arrays: Sequence[mx.array]) -> tuple[tuple[object, ...], dict[str, object]]:
        """Return the arguments with other arrays; an object that holds some is another, too."""
        count = len(self.call.arrays)
        made = arguments_with(self.call, arrays[:count])
        if not self.held:
            return made
        others = dict(zip(map(id, self.held), arrays[count:], strict=True))
        return copy.deepcopy(made, {id(a): a for a in arrays} | others)

    def source(self, source: CarriedSource) -> ArgumentsText | None:
        """Return the arguments as Python; None where an object among them has no text."""
        numbers = iter(range(len(self.call.arrays)))
        first = len(self.call.arrays)
        held = {id(array): f"a[{first + i}]" for i, array in enumerate(self.held)}
        printer = ObjectPrinter(partial(_in_module, source), "argument", given=held)
        try:
            text = _source(self.call.arguments, numbers, printer)
        except NotPrintableError:
            return None
        # What several objects share is made once, within the same expression.
        shared = "".join(f"({made.replace(' = ', ' := ', 1)}), " for made in printer.before)
        return ArgumentsText(f"[{shared}{text}][-1]" if shared else text, printer.data)


def _without_defaults(
    call: _Call, function: Callable[..., object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return a call's arguments without the last ones and the named ones that are defaults."""
    args, kwargs = cast("tuple[tuple[object, ...], dict[str, object]]", call.arguments)
    defaults = {n: p.default for n, p in inspect.signature(function).parameters.items()}
    places = list(defaults.values())

    def is_left_out(value: object, default: object) -> bool:
        return value is default and not _Call(value).arrays

    while args and len(args) <= len(places) and is_left_out(args[-1], places[len(args) - 1]):
        args = args[:-1]
    kept = {n: v for n, v in kwargs.items() if not is_left_out(v, defaults.get(n))}
    return args, kept


def _in_module(source: CarriedSource, name: str, value: object) -> str:
    """Return what a class is called in the exported module."""
    if isinstance(value, ModuleType):
        return f'__import__("{value.__name__}")'
    home = str(getattr(value, "__module__", ""))
    if is_library(home) and getattr(sys.modules.get(home), name, None) is value:
        return f'__import__("{home}", fromlist=["{name}"]).{name}'
    if source.names.get(name) is not value:
        raise NotPrintableError(f"{name} is not part of the module")
    return f"exported.{name}"


def _source(value: object, count: Iterator[int], printer: ObjectPrinter) -> str:
    if isinstance(value, mx.array):
        return f"a[{next(count)}]"
    if isinstance(value, dict) and type(value) in _DICTS:
        # A key may be a member of an enumeration.
        pairs = (
            f"{printer.expression(k, 'arguments')}: {_source(v, count, printer)}"
            for k, v in value.items()
        )
        return _dict_source(value, f"{{{', '.join(pairs)}}}")
    if type(value) is list:
        return f"[{', '.join(_source(v, count, printer) for v in value)}]"
    if isinstance(value, tuple) and (type(value) is tuple or _has(value, "_make")):
        inner = ", ".join(_source(v, count, printer) for v in value)
        if type(value) is not tuple:
            return f"{printer.refer(type(value).__name__, type(value))}({inner})"
        return f"({inner}{',' if len(value) == 1 else ''})"
    if is_literal(value):
        return literal(value)
    if _is_passed_record(value):
        fields = _fields_of(value)
        parts = [f"{name!r}: {_source(item, count, printer)}" for name, item in fields.items()]
        parts += [
            f"{name!r}: {printer.expression(item, 'arguments')}"
            for name, item in _state_of(value).items()
            if name not in fields
        ]
        kind = printer.refer(type(value).__name__, type(value))
        return f"_made({kind}, {{{', '.join(parts)}}})"
    return printer.expression(value, "arguments")


def _dict_source(value: dict[object, object], items: str) -> str:
    """Return the text of a dict, or of a kind of dict that the module imports for itself."""
    if isinstance(value, defaultdict):
        factory = value.default_factory
        if factory is not None and getattr(factory, "__module__", "") != "builtins":
            raise NotPrintableError("a defaultdict has a factory of its own")
        return f"exported.collections.defaultdict({getattr(factory, '__name__', None)}, {items})"
    return f"exported.collections.OrderedDict({items})" if type(value) is not dict else items


def target_source(source: CarriedSource) -> str:
    """Return what is called, as an expression over the module's names."""
    if source.public or source.attributes in ((), ("__call__",)):
        return source.public or source.name
    return ".".join((source.name, *source.attributes))


def imported_name(source: CarriedSource) -> str:
    """Return what users import: the function, its object, or the method's own name."""
    return source.public or source.name


def arguments_with(
    call: _Call, arrays: Sequence[mx.array]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return a call's arguments with other arrays."""
    made = _rebuilt(call.arguments, iter(arrays))
    return cast("tuple[tuple[object, ...], dict[str, object]]", made)
