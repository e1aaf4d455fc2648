"""Prints what gives definitions the user's arrays: attributes of classes, defaults of parameters.

A definition runs again where the module is imported, and may draw other arrays then.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FunctionType

import mlx.core as mx

from kernelwright.annotation import original_of
from kernelwright.errors import UnsupportedError
from kernelwright.runtime.export.function.carried_names import is_library
from kernelwright.runtime.export.function.passed_call import _Call

Printer = Callable[[str, mx.array], str]
"""Takes an array's name and the array; returns the expression that makes it in the module."""


@dataclass
class DefinitionArrays:
    """The lines, and the arrays that they load by name."""

    lines: list[str] = field(default_factory=list)
    data: dict[str, mx.array] = field(default_factory=dict)


def definition_arrays(names: Mapping[str, object], printed: Printer) -> DefinitionArrays:
    """Print the lines for everything that is defined in a module.

    Args:
        names: what the module's names mean in the user's program.
        printed: prints an array that stands in a place of its own.

    Raises:
        UnsupportedError: a definition holds an array where no other can be put.
    """
    found = DefinitionArrays()
    seen: set[int] = set()
    for name, value in names.items():
        own = original_of(value) if callable(value) else value
        if id(own) in seen:
            continue
        seen.add(id(own))
        if not isinstance(own, FunctionType | type) or is_library(str(own.__module__)):
            continue
        if isinstance(own, FunctionType):
            _add_defaults(found, name, name, own, printed)
        else:
            _add_class(found, name, own, printed)
    return found


def _add_class(found: DefinitionArrays, name: str, kind: type, printed: Printer) -> None:
    own = ((key, value) for key, value in vars(kind).items() if not _is_special(key))
    for key, value in own:
        path = f"{name}.{key}"
        if isinstance(value, mx.array):
            found.lines.append(f"{path} = {printed(path, value)}")
        elif isinstance(value, FunctionType | staticmethod):
            _add_defaults(found, path, path, getattr(value, "__func__", value), printed)
        elif isinstance(value, classmethod):
            _add_defaults(found, f"{path}.__func__", path, value.__func__, printed)
        elif not callable(value):
            _add_nest(found, f'vars({name})["{key}"]', path, value)


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in ("__init__", "__call__")


def _add_defaults(
    found: DefinitionArrays, place: str, path: str, function: object, printed: Printer
) -> None:
    for wrapped in _wrapped(function):
        _add_own_defaults(found, place, path, wrapped, printed)
        place = f"{place}.__wrapped__"


def _wrapped(function: object) -> Iterator[FunctionType]:
    """Yield a function and those within its decorators, which `functools.wraps` shows."""
    while isinstance(function, FunctionType):
        yield function
        function = getattr(function, "__wrapped__", None)


def _add_own_defaults(
    found: DefinitionArrays, place: str, path: str, function: FunctionType, printed: Printer
) -> None:
    code, given = function.__code__, function.__defaults__ or ()
    named = code.co_varnames[code.co_argcount - len(given) : code.co_argcount]
    values = [f"{place}.__defaults__[{i}]" for i in range(len(given))]
    for i, (name, value) in enumerate(zip(named, given, strict=True)):
        if isinstance(value, mx.array):
            values[i] = printed(f"{path}.{name}", value)
        else:
            _add_nest(found, values[i], f"{path}.{name}", value)
    if any(isinstance(value, mx.array) for value in given):
        found.lines.append(f"{place}.__defaults__ = ({', '.join(values)},)")
    for name, value in (function.__kwdefaults__ or {}).items():
        held = f'{place}.__kwdefaults__["{name}"]'
        if isinstance(value, mx.array):
            found.lines.append(f"{held} = {printed(f'{path}.{name}', value)}")
        else:
            _add_nest(found, held, f"{path}.{name}", value)


def _add_nest(found: DefinitionArrays, place: str, path: str, value: object) -> None:
    call = _Call((), [({path: value}, path)])
    if not call.slots:
        return
    if any(isinstance(holder, tuple) for holder, _ in call.slots):
        raise UnsupportedError(f"{path} keeps an array in a tuple; keep it in a list.")
    found.data |= {name: call.array_at(i) for i, name in enumerate(call.paths)}
    found.lines.append(f'_restore(_Call((), [({{"{path}": {place}}}, "{path}")]), _DATA)')
