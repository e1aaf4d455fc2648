"""A function's small vectors taken apart into their elements.

LLVM makes vectors of a loop over lanes only where the loop itself holds none, and `float4` is one.
"""

import re
from collections.abc import Callable, Sequence
from math import gcd

from kernelwright.metal.device.simulator.wide.assembly import (
    Block,
    Function,
    Instruction,
    UnknownAssemblyError,
)

_BYTES = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "i8": 1, "i16": 2, "i32": 4, "i64": 8}
_VECTOR = r"<(\d+) x (i\d+|half|bfloat|float|double|ptr)>"
_VALUE = r"(%[-\w$.]+|zeroinitializer|poison|undef|splat \([^()]*\)|<[^<>]*>)"
_POINTER = r"ptr ([%@][-\w$.]+)"
_REST = r"((?:, ![\w.]+ !\d+)*)"
_HAS_VECTOR = re.compile(r"<\d+ x ")
_BINARY = re.compile(rf"((?:[a-z]+ )+){_VECTOR} {_VALUE}, {_VALUE}{_REST}")
_COMPARISON = re.compile(rf"((?:icmp|fcmp) (?:[a-z]+ )+){_VECTOR} {_VALUE}, {_VALUE}{_REST}")
_UNARY = re.compile(rf"((?:fneg|freeze) (?:[a-z]+ )*){_VECTOR} {_VALUE}{_REST}")
_LOAD = re.compile(rf"load {_VECTOR}, {_POINTER}, align (\d+){_REST}")
_STORE = re.compile(rf"store {_VECTOR} {_VALUE}, {_POINTER}, align (\d+){_REST}")
_PHI = re.compile(rf"(phi (?:[a-z]+ )*){_VECTOR} (.*)")
_WAY = re.compile(rf"\[ {_VALUE}, (%[-\w$.]+) \]")
_INSERT = re.compile(rf"insertelement {_VECTOR} {_VALUE}, (.*), i\d+ (\d+){_REST}")
_EXTRACT = re.compile(rf"extractelement {_VECTOR} {_VALUE}, i\d+ (\d+){_REST}")
_EXTRACT_AT = re.compile(rf"extractelement {_VECTOR} {_VALUE}, (i\d+) (%[-\w$.]+){_REST}")
_INSERT_AT = re.compile(rf"insertelement {_VECTOR} {_VALUE}, (.*), (i\d+) (%[-\w$.]+){_REST}")
_SHUFFLE = re.compile(
    rf"shufflevector {_VECTOR} {_VALUE}, {_VECTOR} {_VALUE}, <(\d+) x i32> {_VALUE}{_REST}"
)
_SELECT = re.compile(
    rf"(select (?:[a-z]+ )*)(?:i1 (\S+)|<\d+ x i1> {_VALUE}), {_VECTOR} {_VALUE}, "
    rf"{_VECTOR} {_VALUE}{_REST}"
)
_CAST = re.compile(rf"([a-z]+ (?:[a-z]+ )*){_VECTOR} {_VALUE} to {_VECTOR}{_REST}")
_BITCAST = re.compile(rf"bitcast (?:{_VECTOR}|(\w+)) {_VALUE} to (?:{_VECTOR}|(\w+)){_REST}")
_CALL = re.compile(
    rf"((?:tail )?call (?:[a-z]+ )*){_VECTOR} @(llvm\.[\w.]+)\((.*)\)( #\d+)?{_REST}"
)
_ARGUMENT = re.compile(rf"((?:[a-z]+(?:\([^()]*\))? )*)(?:{_VECTOR} {_VALUE}|(\S+) (\S+))")
_PARTS = re.compile(r",\s+(?![^<(]*[>)])")


class Scalarizer:
    """Takes the vectors of functions apart, and notes which intrinsics that needs."""

    def __init__(self) -> None:
        self.declarations: dict[str, str] = {}
        """Of intrinsics, by their `@name`."""
        self.stores = 0
        """Stores taken apart so far."""

    def apply(self, function: Function) -> Function:
        """Return a function without vectors, or as it was where it has any that are not read."""
        known = dict(self.declarations)
        try:
            blocks = [
                Block(b.label, [new for one in b.instructions for new in self._taken(one)])
                for b in function.blocks
            ]
        except UnknownAssemblyError:
            self.declarations = known
            return function
        return Function(function.name, function.parameters, blocks, function.attributes)

    def _taken(self, one: Instruction) -> Sequence[Instruction]:
        if not _HAS_VECTOR.search(one.text):
            return (one,)
        for pattern, write in _WRITERS:
            if found := pattern.fullmatch(one.text):
                return write(self, one.result, found)
        raise UnknownAssemblyError(one.text)

    def call(self, result: str, found: re.Match[str]) -> list[Instruction]:
        """Call the scalar form of an intrinsic for each element."""
        head, count, type_, name, given, attributes, rest = found.groups()
        scalar = "@" + re.sub(r"\.v\d+(?=[a-z])", ".", name)
        if ".reduce." in name:
            raise UnknownAssemblyError(found[0])
        arguments = [_ARGUMENT.fullmatch(part) for part in _PARTS.split(given)]
        columns, types = [], []
        for argument in arguments:
            if argument is None:
                raise UnknownAssemblyError(found[0])
            words, n, element, value, other, plain = argument.groups()
            types.append(element or other)
            values = _elements(value, int(n)) if n else [plain] * int(count)
            columns.append([f"{words}{types[-1]} {v}" for v in values])
        self.declarations[scalar] = f"declare {type_} {scalar}({', '.join(types)})"
        return [
            Instruction(
                f"{head}{type_} {scalar}({', '.join(c[i] for c in columns)})"
                f"{attributes or ''}{rest}",
                f"{result}.e{i}",
            )
            for i in range(int(count))
        ]


def _elements(value: str, count: int) -> list[str]:
    """Return the elements of an operand."""
    if value[0] == "%":
        return [f"{value}.e{i}" for i in range(count)]
    if value[0] == "<":
        return [part.strip().split(" ", 1)[1] for part in value[1:-1].split(",")]
    if value.startswith("splat"):
        return [value[len("splat (") : -1].split(" ", 1)[1]] * count
    return [value] * count


def _copy(type_: str, value: str, result: str) -> Instruction:
    return Instruction(f"bitcast {type_} {value} to {type_}", result)


def _binary(_: Scalarizer, result: str, found: re.Match[str]) -> list[Instruction]:
    head, count, type_, a, b, rest = found.groups()
    pairs = zip(_elements(a, int(count)), _elements(b, int(count)), strict=True)
    return [
        Instruction(f"{head}{type_} {x}, {y}{rest}", f"{result}.e{i}")
        for i, (x, y) in enumerate(pairs)
    ]


def _unary(_: Scalarizer, result: str, found: re.Match[str]) -> list[Instruction]:
    head, count, type_, a, rest = found.groups()
    values = enumerate(_elements(a, int(count)))
    return [Instruction(f"{head}{type_} {x}{rest}", f"{result}.e{i}") for i, x in values]


def _place(name: str, pointer: str, offset: int) -> Instruction:
    return Instruction(f"getelementptr inbounds i8, ptr {pointer}, i64 {offset}", name)


def _load(_: Scalarizer, result: str, found: re.Match[str]) -> list[Instruction]:
    count, type_, pointer, alignment, rest = found.groups()
    size, written = _size(type_), list[Instruction]()
    for i in range(int(count)):
        aligned = gcd(int(alignment), i * size)
        at = f"{result}.at{i}"
        written.append(_place(at, pointer, i * size))
        text = f"load {type_}, ptr {at}, align {aligned}{rest}"
        written.append(Instruction(text, f"{result}.e{i}"))
    return written


def _store(scalarizer: Scalarizer, _result: str, found: re.Match[str]) -> list[Instruction]:
    count, type_, value, pointer, alignment, rest = found.groups()
    size, written = _size(type_), list[Instruction]()
    scalarizer.stores += 1
    for i, element in enumerate(_elements(value, int(count))):
        at = f"%stored{scalarizer.stores}.at{i}"
        written.append(_place(at, pointer, i * size))
        aligned = gcd(int(alignment), i * size)
        written.append(Instruction(f"store {type_} {element}, ptr {at}, align {aligned}{rest}"))
    return written


def _phi(_: Scalarizer, result: str, found: re.Match[str]) -> list[Instruction]:
    head, count, type_, given = found.groups()
    ways = _WAY.findall(given)
    if not ways:
        raise UnknownAssemblyError(found[0])
    return [
        Instruction(
            f"{head}{type_} "
            + ", ".join(f"[ {_elements(v, int(count))[i]}, {label} ]" for v, label in ways),
            f"{result}.e{i}",
        )
        for i in range(int(count))
    ]


def _insert(_: Scalarizer, result: str, found: re.Match[str]) -> list[Instruction]:
    count, type_, value, given, index, _rest = found.groups()
    elements = _elements(value, int(count))
    elements[int(index)] = given.removeprefix(f"{type_} ")
    return [_copy(type_, e, f"{result}.e{i}") for i, e in enumerate(elements)]


def _extract(_: Scalarizer, result: str, found: re.Match[str]) -> list[Instruction]:
    count, type_, value, index, _rest = found.groups()
    return [_copy(type_, _elements(value, int(count))[int(index)], result)]


def _is_at(result: str, index_type: str, index: str, place: int) -> tuple[Instruction, str]:
    name = f"{result}.is{place}"
    return Instruction(f"icmp eq {index_type} {index}, {place}", name), name


def _extract_at(_: Scalarizer, result: str, found: re.Match[str]) -> list[Instruction]:
    """Choose the element of which only the thread knows the index."""
    count, type_, value, index_type, index, _rest = found.groups()
    elements = _elements(value, int(count))
    written, before = list[Instruction](), elements[0]
    for i in range(1, int(count)):
        is_it, condition = _is_at(result, index_type, index, i)
        after = result if i + 1 == int(count) else f"{result}.o{i}"
        choice = f"select i1 {condition}, {type_} {elements[i]}, {type_} {before}"
        written += [is_it, Instruction(choice, after)]
        before = after
    return written


def _insert_at(_: Scalarizer, result: str, found: re.Match[str]) -> list[Instruction]:
    """Put a value in the place of the element of which only the thread knows the index."""
    count, type_, value, given, index_type, index, _rest = found.groups()
    written = list[Instruction]()
    for i, element in enumerate(_elements(value, int(count))):
        is_it, condition = _is_at(result, index_type, index, i)
        choice = f"select i1 {condition}, {given}, {type_} {element}"
        written += [is_it, Instruction(choice, f"{result}.e{i}")]
    return written


def _shuffle(_: Scalarizer, result: str, found: re.Match[str]) -> list[Instruction]:
    n, type_, a, m, _type, b, count, mask, _rest = found.groups()
    elements = [*_elements(a, int(n)), *_elements(b, int(m))]
    places = ["0"] * int(count) if mask == "zeroinitializer" else _elements(mask, int(count))
    return [
        _copy(type_, elements[int(p)] if p.isdigit() else "poison", f"{result}.e{i}")
        for i, p in enumerate(places)
    ]


def _select(_: Scalarizer, result: str, found: re.Match[str]) -> list[Instruction]:
    head, one, many, count, type_, a, _n, _type, b, rest = found.groups()
    conditions = [one] * int(count) if one else _elements(many, int(count))
    columns = (conditions, _elements(a, int(count)), _elements(b, int(count)))
    return [
        Instruction(f"{head}i1 {c}, {type_} {x}, {type_} {y}{rest}", f"{result}.e{i}")
        for i, (c, x, y) in enumerate(zip(*columns, strict=True))
    ]


def _cast(_: Scalarizer, result: str, found: re.Match[str]) -> list[Instruction]:
    head, count, type_, value, made, to, rest = found.groups()
    if count != made:
        raise UnknownAssemblyError(found[0])
    values = enumerate(_elements(value, int(count)))
    return [Instruction(f"{head}{type_} {x} to {to}{rest}", f"{result}.e{i}") for i, x in values]


def _bitcast(_: Scalarizer, result: str, found: re.Match[str]) -> list[Instruction]:
    """Put the bits of elements together to larger ones, or take them apart, lowest first."""
    n, from_vector, from_one, value, m, to_vector, to_one, _rest = found.groups()
    from_type, to_type = from_vector or from_one, to_vector or to_one
    given = _elements(value, int(n)) if n else [value]
    names = [f"{result}.e{i}" for i in range(int(m))] if m else [result]
    from_bits, to_bits = _bits(from_type), _bits(to_type)
    if len(given) * from_bits != len(names) * to_bits:
        raise UnknownAssemblyError(found[0])
    written: list[Instruction] = []
    words = [f"{result}.w{i}" for i in range(len(given))]
    for word, one in zip(words, given, strict=True):
        written.append(Instruction(f"bitcast {from_type} {one} to i{from_bits}", word))
    for i, name in enumerate(names):
        bits = f"{name}.bits"
        if to_bits > from_bits:
            count = to_bits // from_bits
            written += _put_together(bits, words[i * count : (i + 1) * count], from_bits, to_bits)
        elif to_bits < from_bits:
            count = from_bits // to_bits
            moved = f"{name}.moved"
            shift = f"lshr i{from_bits} {words[i // count]}, {i % count * to_bits}"
            written.append(Instruction(shift, moved))
            written.append(Instruction(f"trunc i{from_bits} {moved} to i{to_bits}", bits))
        else:
            bits = words[i]
        written.append(Instruction(f"bitcast i{to_bits} {bits} to {to_type}", name))
    return written


def _put_together(result: str, parts: list[str], from_bits: int, to_bits: int) -> list[Instruction]:
    written: list[Instruction] = []
    before = "0"
    for i, part in enumerate(parts):
        wide, moved = f"{result}.w{i}", f"{result}.s{i}"
        after = result if i + 1 == len(parts) else f"{result}.o{i}"
        written += [
            Instruction(f"zext i{from_bits} {part} to i{to_bits}", wide),
            Instruction(f"shl i{to_bits} {wide}, {i * from_bits}", moved),
            Instruction(f"or i{to_bits} {moved}, {before}", after),
        ]
        before = after
    return written


def _bits(type_: str) -> int:
    return int(type_[1:]) if re.fullmatch(r"i\d+", type_) else 8 * _size(type_)


def _size(type_: str) -> int:
    if type_ not in _BYTES:
        raise UnknownAssemblyError(type_)
    return _BYTES[type_]


_WRITERS: tuple[
    tuple[re.Pattern[str], Callable[[Scalarizer, str, re.Match[str]], Sequence[Instruction]]], ...
] = (
    (_LOAD, _load),
    (_STORE, _store),
    (_PHI, _phi),
    (_EXTRACT, _extract),
    (_INSERT, _insert),
    (_EXTRACT_AT, _extract_at),
    (_INSERT_AT, _insert_at),
    (_SHUFFLE, _shuffle),
    (_COMPARISON, _binary),
    (_SELECT, _select),
    (_BITCAST, _bitcast),
    (_CAST, _cast),
    (_UNARY, _unary),
    (_CALL, Scalarizer.call),
    (_BINARY, _binary),
)
