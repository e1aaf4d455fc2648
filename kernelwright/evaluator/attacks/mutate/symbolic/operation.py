"""What an instruction makes of its operands, element by element."""

import re
from collections.abc import Callable, Sequence

from kernelwright.evaluator.attacks.mutate.symbolic.listing import lanes_of, width_of
from kernelwright.evaluator.attacks.mutate.symbolic.memory import Pointer, number_of, pointer_of
from kernelwright.evaluator.attacks.mutate.symbolic.term import (
    UnprovenError,
    Value,
    compared,
    converted,
    integer,
    operation,
)

_INTEGERS = frozenset(
    {"add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor"}
)
_FLOATS = frozenset({"fadd", "fsub", "fmul", "fdiv", "frem", "fneg"})
_OF_INTEGERS = frozenset({"zext", "sext", "trunc"})
CONVERSIONS = _OF_INTEGERS | {"fptrunc", "fpext", "fptosi", "fptoui", "sitofp", "uitofp", "bitcast"}
_ORDERS = re.compile(r"llvm\.([us](?:min|max)|u(?:sub|add)\.sat)\.")


def by_lanes(
    kind: str, values: Sequence[object], make: Callable[[str, Sequence[object]], object]
) -> object:
    """Return what is made of operands, for each element where the type is a vector."""
    lanes, element = lanes_of(kind)
    if not lanes:
        return make(element, values)
    return tuple(
        make(element, [v[lane] if isinstance(v, tuple) else v for v in values])
        for lane in range(lanes)
    )


def applied(name: str, lenience: str, element: str, values: Sequence[object]) -> object:
    """Return the result of an operation such as `add` or `icmp ult` on numbers of a type."""
    head, _, predicate = name.partition(" ")
    if head == "icmp" and all(isinstance(value, Pointer) for value in values):
        return _of_pointers(predicate, *values)
    numbers = _numbers(values)
    if head == "icmp":
        a, b = numbers
        return compared(predicate, a, b, width_of(element))
    if head == "disjoint":
        a, b = numbers
        return integer("or", a, b, width_of(element), is_disjoint=True)
    if head in _INTEGERS:
        a, b = numbers
        return integer(head, a, b, width_of(element))
    if head == "fcmp":
        found = operation(f"{name} {lenience}", element, *numbers)
        found.high = 1
        return found
    if head not in _FLOATS:
        raise UnprovenError(f"it does {name}.")
    return operation(name, lenience, element, *numbers)


def _of_pointers(predicate: str, a: object, b: object) -> Value:
    one, other = pointer_of(a), pointer_of(b)
    if one.base != other.base:
        raise UnprovenError("it compares pointers.")
    return compared(predicate, one.offset, other.offset, 64)


def called(name: str, lenience: str, element: str, values: Sequence[object]) -> object:
    """Return the result of a function that depends on its arguments alone."""
    numbers = _numbers(values)
    if match := _ORDERS.match(name):
        a, b = numbers
        return integer(match[1], a, b, width_of(element))
    return operation(name, lenience, *numbers)


def retyped(name: str, kind: str, wanted: str, value: object) -> object:
    """Return a conversion of a number or of each element of a vector."""
    (lanes, element), (others, target) = lanes_of(kind), lanes_of(wanted)
    if lanes != others:
        raise UnprovenError("it reads a vector as another type.")
    if name == "bitcast":
        return value

    def make(_: str, values: Sequence[object]) -> object:
        (number,) = _numbers(values)
        if name in _OF_INTEGERS:
            return converted(name, number, width_of(element), width_of(target))
        return operation(name, element, target, number)

    return by_lanes(kind, (value,), make)


def _numbers(values: Sequence[object]) -> Sequence[Value]:
    return [number_of(value) for value in values]
