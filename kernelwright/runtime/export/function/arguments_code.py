"""Prints the arguments of a call, and the expression that is called."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import cast

import mlx.core as mx

from kernelwright.runtime.code_names import _has
from kernelwright.runtime.export.function.dispatch import _Call, _rebuilt
from kernelwright.runtime.export.function.literal import is_literal, literal
from kernelwright.runtime.export.function.object_code import NotPrintableError, ObjectPrinter
from kernelwright.runtime.export.function.source import CarriedSource


@dataclass(frozen=True)
class ArgumentsText:
    """The expression of `(args, kwargs)`."""

    text: str
    """Reads arrays as `a[0]`, `a[1]`, …, the module as `exported`, `_DATA`, and `_made`."""
    data: Mapping[str, mx.array]
    """Arrays that objects among the arguments hold."""


def arguments_source(
    call: _Call, source: CarriedSource, function: Callable[..., object]
) -> ArgumentsText | None:
    """Return a call's arguments as Python; None where an object among them has no text.

    Where one has none, those that are the function's defaults are left to it.
    """
    for arguments in (call.arguments, without_defaults(call, function)):
        count = iter(range(len(call.arrays)))
        printer = ObjectPrinter(partial(_in_module, source), "argument")
        with suppress(NotPrintableError):
            text = _source(arguments, count, printer)
            if not printer.before:
                return ArgumentsText(text, printer.data)
    return None


def without_defaults(
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
    if source.names.get(name) is not value:
        raise NotPrintableError(f"{name} is not part of the module")
    return f"exported.{name}"


def _source(value: object, count: Iterator[int], printer: ObjectPrinter) -> str:
    if isinstance(value, mx.array):
        return f"a[{next(count)}]"
    if type(value) is dict:
        return f"{{{', '.join(f'{k!r}: {_source(v, count, printer)}' for k, v in value.items())}}}"
    if type(value) is list:
        return f"[{', '.join(_source(v, count, printer) for v in value)}]"
    if isinstance(value, tuple) and (type(value) is tuple or _has(value, "_make")):
        inner = ", ".join(_source(v, count, printer) for v in value)
        if type(value) is not tuple:
            return f"{printer.refer(type(value).__name__, type(value))}({inner})"
        return f"({inner}{',' if len(value) == 1 else ''})"
    if is_literal(value):
        return literal(value)
    return printer.expression(value, "arguments")


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
