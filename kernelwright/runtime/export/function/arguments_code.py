"""Prints the arguments of a call, and the expression that is called."""

from collections.abc import Iterator, Sequence
from typing import cast

import mlx.core as mx

from kernelwright.runtime.export.function.dispatch import _Call, _rebuilt
from kernelwright.runtime.export.function.source import CarriedSource, is_literal, literal


def arguments_source(call: _Call) -> str | None:
    """Return `(args, kwargs)` as Python, with the arrays as `a[0]`, `a[1]`, …; None for objects."""
    count = iter(range(len(call.arrays)))
    try:
        return _source(call.arguments, count)
    except _ObjectError:
        return None


class _ObjectError(Exception):
    """An argument has no text."""


def _source(value: object, count: Iterator[int]) -> str:
    if isinstance(value, mx.array):
        return f"a[{next(count)}]"
    if type(value) is dict:
        return f"{{{', '.join(f'{k!r}: {_source(v, count)}' for k, v in value.items())}}}"
    if type(value) is list:
        return f"[{', '.join(_source(v, count) for v in value)}]"
    if type(value) is tuple:
        inner = ", ".join(_source(v, count) for v in value)
        return f"({inner}{',' if len(value) == 1 else ''})"
    if is_literal(value):
        return literal(value)
    raise _ObjectError


def target_source(source: CarriedSource) -> str:
    """Return what is called, as an expression over the module's names."""
    if source.attributes in ((), ("__call__",)):
        return source.name
    return ".".join((source.name, *source.attributes))


def arguments_with(
    call: _Call, arrays: Sequence[mx.array]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return a call's arguments with other arrays."""
    made = _rebuilt(call.arguments, iter(arrays))
    return cast("tuple[tuple[object, ...], dict[str, object]]", made)
