"""Code that compares the class of a module by `is`: no subclass passes for it there."""

import dis
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType

from mlx.nn.layers.base import Module


def compares_classes(function: FunctionType) -> bool:
    """Say whether a function's code has such lines as `type(layer) is nn.Linear`."""
    return any(
        isinstance(kind, type) and issubclass(kind, Module)
        for code in _codes(function.__code__)
        for kind in _compared(code, function)
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _compared(code: CodeType, function: FunctionType) -> Iterator[object]:
    """Yield what stands behind `is`, where the code asks for types."""
    if "type" not in code.co_names:
        return
    steps = list(dis.get_instructions(code))
    for number, step in enumerate(steps):
        if step.opname != "IS_OP":
            continue
        begin = number - 1
        while begin > 0 and steps[begin].opname == "LOAD_ATTR":
            begin -= 1
        # Modules say that `__class__` is their own.
        is_own = begin > 0 and steps[begin - 1].argval == "__class__"
        if steps[number - 1].opname.startswith("CALL"):
            # What a call gives may be another module's class.
            yield Module
        elif not is_own:
            yield _value(steps[begin:number], function)


def _value(named: Sequence[dis.Instruction], function: FunctionType) -> object:
    """Return the value of a name with attributes; None where it is a variable or no name."""
    name, *attributes = named
    value: object = None
    if name.opname == "LOAD_GLOBAL":
        value = function.__globals__.get(name.argval)
    elif name.opname == "LOAD_DEREF":
        free = function.__code__.co_freevars
        cells = dict(zip(free, function.__closure__ or (), strict=True))
        value = getattr(cells.get(name.argval), "cell_contents", None)
    for attribute in attributes:
        value = getattr(value, attribute.argval, None)
    return value
