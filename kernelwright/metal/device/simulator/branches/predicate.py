"""What a single condition of a listing asks for, as far as its text alone tells."""

import math
import operator
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from kernelwright.metal.device.simulator.branches.decision import NONZERO
from kernelwright.metal.device.simulator.branches.listing import Function, Instruction
from kernelwright.metal.device.simulator.wide.assembly import NAME

COMPARISON = re.compile(
    r"^(icmp|fcmp) (?:(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|samesign) )*(\w+) "
    r"(i\d+|half|bfloat|float|double) ([^,]+), (.+)$"
)
LOGIC = re.compile(
    r"^(?:and|or(?: disjoint)?|xor|phi|select i1 [^,]+,|trunc (?:nuw |nsw )*\w+ \S+ to|freeze) i1\b"
)
_BOTH = re.compile(r"^(?:and i1 (\S+), (\S+)|select i1 (\S+), i1 (\S+), i1 false)$")
_EITHER = re.compile(r"^(?:or(?: disjoint)? i1 \S+, \S+|select i1 \S+, i1 true, i1 \S+)$")
_OPPOSITE = re.compile(r"^xor i1 (%[^,]+), true$")
_ABSOLUTE = re.compile(r"@llvm\.fabs\.\w+\(\w+ (?:noundef )?(%[^,\s)]+)\)")
_MOST_JOINED = 16
_KEPT_NUMBER = re.compile(r"\[ (-?\d+),")

_ENDS_OF_FORMATS = frozenset(
    (
        # As LLVM writes the infinities and largest numbers of float, half and bfloat.
        *("0x7FF0000000000000", "0xFFF0000000000000", "0x47EFFFFFE0000000", "0xC7EFFFFFE0000000"),
        *("0xH7C00", "0xHFC00", "0xH7BFF", "0xHFBFF", "0xR7F80", "0xRFF80", "0xR7F7F", "0xRFF7F"),
        # The least numbers that are no denormals, which fast functions take for zeros.
        *("0x3810000000000000", "0xB810000000000000", "0xH0400", "0xH8400", "0xR0080", "0xR8080"),
        # And their bits, or those next to them, as integers.
        *("8388607", "8388608"),
        *("2139095039", "2139095040", "2139095041", "-8388608", "-8388609", "-8388607"),
        *("32639", "32640", "32641", "31743", "31744", "31745"),
    )
)
_ORDERS: Mapping[str, Callable[[float, float], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def is_end_of_format(token: str) -> bool:
    """Say whether a number, as LLVM writes it, is infinite or at the end of its format."""
    return token in _ENDS_OF_FORMATS


def is_comparison(text: str) -> bool:
    """Say whether an instruction compares two numbers."""
    return COMPARISON.match(text) is not None


def is_special(function: Function, name: str, seen: frozenset[str] = frozenset()) -> bool:
    """Say whether a condition asks for special numbers, or joins conditions that do."""
    instruction = function.definitions.get(name)
    if name in ("true", "false") or name in seen:
        return True
    if instruction is None:
        return False
    if found := COMPARISON.match(instruction.text):
        return found[2] in ("uno", "ord") or found[5] in _ENDS_OF_FORMATS
    if not LOGIC.match(instruction.text):
        return False
    if instruction.operation == "trunc":
        flags = kept_flags(function, instruction)
        return bool(flags) and all(is_special(function, n, seen | {name}) for n in flags)
    operands = [n for n in NAME.findall(instruction.text) if n in function.definitions]
    return bool(operands) and all(
        is_special(function, n, seen | {name}) for n in operands if n not in function.blocks
    )


def kept_flags(function: Function, instruction: Instruction) -> frozenset[str]:
    """Return the conditions that a flag holds, which is kept as an integer from turn to turn.

    None where something else may be in it.
    """
    found, seen = set[str](), set[str]()
    pending = [n for n in instruction.operands if n[0] == "%"]
    while pending:
        name = pending.pop()
        made = function.definitions.get(name)
        if name in seen or name in function.blocks:
            continue
        seen.add(name)
        if made is None or made.operation not in ("phi", "zext", "freeze"):
            return frozenset()
        operands = [n for n in made.operands if n[0] == "%" and n not in function.blocks]
        if made.operation == "zext":
            if not made.text.startswith(("zext i1 ", "zext nneg i1 ")):
                return frozenset()
            found.update(operands)
        elif any(n not in ("0", "1") for n in _KEPT_NUMBER.findall(made.text)):
            return frozenset()
        else:
            pending += operands
    return frozenset(found)


def kind_of(instruction: Instruction) -> str:
    """Name a comparison with its predicate, a combination by what it needs: `and`, `or`, others."""
    if found := COMPARISON.match(instruction.text):
        if instruction.result.startswith(NONZERO):
            return f"{found[1]} nonzero"
        return f"{found[1]} {found[2]}"
    if _BOTH.match(instruction.text):
        return "and"
    return "or" if _EITHER.match(instruction.text) else instruction.operation


def joined_by(function: Function, instruction: Instruction) -> Iterator[tuple[str, bool]]:
    """Yield the conditions that a combination joins, and whether it takes their opposite."""
    if not LOGIC.match(instruction.text) or instruction.operation == "trunc":
        return
    for name in dict.fromkeys(NAME.findall(instruction.text)):
        one, is_negated = function.definitions.get(name), False
        while one is not None and (found := _OPPOSITE.match(one.text)):
            name, is_negated = found[1], not is_negated
            one = function.definitions.get(name)
        yield name, is_negated


@dataclass(frozen=True)
class _Demand:
    """What a comparison of a value with a number asks of the value."""

    predicate: str
    number: float
    of_size: bool
    """It is the value's absolute that is compared."""

    def is_met(self, value: float) -> bool:
        """Say whether a value passes."""
        value = abs(value) if self.of_size else value
        if self.predicate in ("uno", "ord"):
            return math.isnan(value) == (self.predicate == "uno")
        if math.isnan(value) or math.isnan(self.number):
            return self.predicate[0] == "u"
        return _ORDERS[self.predicate[-2:]](value, self.number)


def is_contradiction(function: Function, instruction: Instruction) -> bool:
    """Say whether a conjunction asks of one float what no number is, as infinite and zero."""
    if not _BOTH.match(instruction.text):
        return False
    demands: dict[str, list[_Demand]] = {}
    for part in _parts(function, instruction.result):
        if (found := _demand(function, part)) is not None:
            demands.setdefault(found[0], []).append(found[1])
    return any(not _can_be_met(of_one) for of_one in demands.values() if len(of_one) > 1)


def _parts(function: Function, name: str) -> Iterator[str]:
    """Yield the conditions that a conjunction joins."""
    pending, left = [name], _MOST_JOINED
    while pending and left:
        one, left = pending.pop(), left - 1
        instruction = function.definitions.get(one)
        found = _BOTH.match(instruction.text) if instruction is not None else None
        if found is None:
            yield one
        else:
            pending += [operand for operand in found.groups() if operand]


def _demand(function: Function, name: str) -> tuple[str, _Demand] | None:
    instruction = function.definitions.get(name)
    found = COMPARISON.match(instruction.text) if instruction is not None else None
    if found is None or found[1] != "fcmp" or found[5][0] in "%@":
        return None
    value = found[4]
    behind = function.definitions.get(value)
    absolute = _ABSOLUTE.search(behind.text) if behind is not None else None
    of_size = absolute is not None
    base = absolute[1] if absolute is not None else value
    return base, _Demand(found[2], number_of(found[5]), of_size)


def _can_be_met(demands: list[_Demand]) -> bool:
    """Try the numbers that the demands name, what lies beside and between them, and NaN."""
    named = sorted({n for d in demands for n in (d.number, -d.number) if not math.isnan(n)})
    tried = [math.nan, math.inf, -math.inf, 0.0, *named]
    tried += [math.nextafter(n, end) for n in named for end in (math.inf, -math.inf)]
    tried += [low / 2 + high / 2 for low, high in pairwise(named)]
    return any(all(demand.is_met(value) for demand in demands) for value in tried)


def number_of(token: str) -> float:
    """Read a number as LLVM writes it."""
    if token.startswith("0xH"):
        return float(struct.unpack(">e", bytes.fromhex(token[3:]))[0])
    if token.startswith("0xR"):
        return float(struct.unpack(">f", bytes.fromhex(token[3:] + "0000"))[0])
    if token.startswith("0x"):
        return float(struct.unpack(">d", bytes.fromhex(token[2:].zfill(16)))[0])
    return float(token)
