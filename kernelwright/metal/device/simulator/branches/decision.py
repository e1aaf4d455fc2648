"""Decisions that a listing makes without a condition, rewritten as comparisons that choose.

A maximum, a saturated difference, a `switch` and a comparison of vectors choose as a branch does,
and what is divided, shifted or rounded to an integer may be zero for all but a few numbers. As
comparisons and selections of the same meaning they are watched and forced like branches.
"""

import re
from collections.abc import Iterable, Iterator

from kernelwright.metal.device.simulator.branches.listing import Function, Instruction, Listing

ORDER = '%"kw.order.'
"""How the comparisons are called that stand for a maximum's or a minimum's choice."""
NONZERO = '%"kw.nonzero.'
"""How those are called that ask if a quotient or an integer is not zero, as it seldom is."""
_FLAGS = r"(?:(?:noundef|nnan|ninf|nsz|contract|fast|reassoc|arcp|afn|range\([^)]*\)) )*"
_EXTREME = re.compile(
    rf"^(?:(?:tail|notail) )?call {_FLAGS}(half|bfloat|float|i\d+) "
    r"@llvm\.(maxnum|minnum|umax|umin|smax|smin|usub\.sat)"
    r"\.\w+\(\w+ (?:noundef )?([^,]+), \w+ (?:noundef )?([^)]+)\)"
)
_ORDERS = {
    "maxnum": "fcmp ogt",
    "minnum": "fcmp olt",
    "usub.sat": "icmp ugt",
    "umax": "icmp ugt",
    "umin": "icmp ult",
    "smax": "icmp sgt",
    "smin": "icmp slt",
}
_WRITTEN = ("llvm.maxnum.", "llvm.minnum.", "llvm.umax.", "llvm.fabs.", "llvm.copysign.")
"""Functions that the lines written here call."""
_OPPOSITE = {"maxnum": "minnum", "minnum": "maxnum"}
_SUFFIXES = {"half": "f16", "bfloat": "bf16", "float": "f32"}
_QUOTIENT = re.compile(r"^(udiv|lshr) (?:exact )?(i\d+) ([^,]+), (.+)$")
_CONVERTED = re.compile(
    r"^(?:tail )?call (?P<type_>i\d+) @llvm\.fpto[su]i\.sat\.i\d+\.\w+\("
    r"(?P<source>half|bfloat|float) (?P<value>%[^,)]+)\)"
)
_ROUNDED = re.compile(
    rf"^(?:(?:tail|notail) )?call {_FLAGS}(float) @llvm\.(?:floor|ceil|trunc|rint|round)\.f32\("
)
_LANES = re.compile(
    r"^(icmp|fcmp) ((?:(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|samesign) )*\w+) "
    r"<(\d+) x (i\d+|half|bfloat|float|double)> (%[^,]+|<[^>]*>|splat \([^)]*\)|\w+), (.+)$"
)
_SWITCH = re.compile(r"^switch (i\d+) (%[^,]+), label [^\[]+\[(.*)\]$")
_CASE = re.compile(r"i\d+ (-?\d+), label")


def with_comparisons(listing: Listing, functions: Iterable[Function]) -> list[str]:
    """Return a listing's lines with comparisons in place of what decides without one.

    Args:
        listing: A listing.
        functions: Those of its functions that are rewritten.
    """
    lines = list(listing.lines)
    for function in functions:
        for instruction in function.instructions:
            _rewrite(lines, instruction)
    text = "\n".join(lines)
    return [*text.split("\n"), *_declarations(text)]


def _declarations(text: str) -> Iterator[str]:
    """Declare LLVM's functions that a listing calls and does not declare."""
    declared = set(re.findall(r"^declare .*@(llvm\.[\w.]+)\(", text, re.MULTILINE))
    for type_, name in sorted(set(re.findall(r"= call (\w+) @(llvm\.[\w.]+)\(", text))):
        operands = 1 if name.startswith("llvm.fabs.") else 2
        if name not in declared and name.startswith(_WRITTEN):
            yield f"declare {type_} @{name}({', '.join([type_] * operands)})"


def _rewrite(lines: list[str], instruction: Instruction) -> None:
    """Put what compares in the place of an instruction that decides without it."""
    number = instruction.number
    if found := _EXTREME.match(instruction.text):
        made = [*_chosen(instruction, *found.groups())]
    elif found := _QUOTIENT.match(instruction.text):
        made = [*_divided(instruction, *found.groups())]
    elif found := _CONVERTED.match(instruction.text):
        made = [*_converted(instruction, **found.groupdict())]
    elif found := _ROUNDED.match(instruction.text):
        made = [*_rounded(instruction)]
    elif found := _LANES.match(instruction.text):
        made = [*_compared_lanes(instruction, *found.groups())]
    elif found := _SWITCH.match(instruction.text):
        type_, value, cases = found.groups()
        made = [*_equalities(number, type_, value, _CASE.findall(cases))]
        lines[number] = lines[number].replace(f" {value},", f" {_name('case', number)},", 1)
    else:
        return
    at = "" if instruction.debug is None else f", !dbg !{instruction.debug}"
    written = [f"  {line}{at}" for line in made]
    if instruction.operation == "switch":
        written.append(lines[number])
    lines[number] = "\n".join(written)


def _name(kind: str, number: int, *parts: int | str) -> str:
    return f'%"kw.{".".join(map(str, (kind, number, *parts)))}"'


def _chosen(
    instruction: Instruction, type_: str, function: str, one: str, other: str
) -> Iterator[str]:
    """Write an extreme as a choice of its first operand; what is no number loses, as it does there.

    The second operand is what its opposite leaves over: `max(b, min(a, b))` is `b` for any
    numbers, and `a` where `b` is NaN.
    """
    number = instruction.number
    order = f'{ORDER}{number}"'
    yield f"{order} = {_ORDERS[function]} {type_} {one}, {other}"
    if function == "usub.sat":
        difference = _name("difference", number)
        yield f"{difference} = sub {type_} {one}, {other}"
        one, other = difference, "0"
    elif function in _OPPOSITE:
        least, left = _name("opposite", number), _name("left", number)
        suffix = _SUFFIXES[type_]
        opposite = _OPPOSITE[function]
        yield f"{least} = call {type_} @llvm.{opposite}.{suffix}({type_} {one}, {type_} {other})"
        yield f"{left} = call {type_} @llvm.{function}.{suffix}({type_} {other}, {type_} {least})"
        other = left
    yield f"{instruction.result} = select i1 {order}, {type_} {one}, {type_} {other}"


def _divided(
    instruction: Instruction, operation: str, type_: str, one: str, other: str
) -> Iterator[str]:
    """Write a quotient as a choice between zero and what it is then."""
    number = instruction.number
    plain, nonzero = _name("plain", number), f'{NONZERO}{number}"'
    yield f"{plain} = {instruction.text}"
    if other.isdigit():
        least = int(other) if operation == "udiv" else 1 << int(other)
        yield f"{nonzero} = icmp uge {type_} {one}, {_as_signed(least, type_)}"
    else:
        yield f"{nonzero} = icmp ne {type_} {plain}, 0"
    yield from _nonzero_integer(instruction, type_, plain)


def _as_signed(value: int, type_: str) -> int:
    width = int(type_[1:])
    return value - (1 << width) if value >> (width - 1) else value


def _converted(instruction: Instruction, source: str, value: str, type_: str) -> Iterator[str]:
    """Write a conversion as a choice between zero and what it is from one on."""
    number = instruction.number
    plain, size = _name("plain", number), _name("size", number)
    yield f"{plain} = {instruction.text}"
    yield f"{size} = call {source} @llvm.fabs.{_SUFFIXES[source]}({source} {value})"
    one = "1.0" if source == "float" else "0xH3C00" if source == "half" else "0xR3F80"
    yield f'{NONZERO}{number}" = fcmp uge {source} {size}, {one}'
    yield from _nonzero_integer(instruction, type_, plain)


def _nonzero_integer(instruction: Instruction, type_: str, plain: str) -> Iterator[str]:
    """Write an integer that is one where it is said not to be zero and is."""
    number = instruction.number
    least = _name("least", number)
    yield f"{least} = call {type_} @llvm.umax.{type_}({type_} {plain}, {type_} 1)"
    yield f'{instruction.result} = select i1 {NONZERO}{number}", {type_} {least}, {type_} 0'


def _rounded(instruction: Instruction) -> Iterator[str]:
    """Write a whole float as a choice; it is one where it is said not to be zero and is."""
    number = instruction.number
    plain, size, least, signed = (
        _name(kind, number) for kind in ("plain", "size", "least", "signed")
    )
    yield f"{plain} = {instruction.text}"
    yield f'{NONZERO}{number}" = fcmp one float {plain}, 0.0'
    yield f"{size} = call float @llvm.fabs.f32(float {plain})"
    yield f"{least} = call float @llvm.maxnum.f32(float {size}, float 1.0)"
    yield f"{signed} = call float @llvm.copysign.f32(float {least}, float {plain})"
    yield f'{instruction.result} = select i1 {NONZERO}{number}", float {signed}, float {plain}'


def _compared_lanes(
    instruction: Instruction,
    kind: str,
    predicate: str,
    lanes: str,
    type_: str,
    one: str,
    other: str,
) -> Iterator[str]:
    """Write a comparison of vectors as one of each lane."""
    number = instruction.number
    whole = "poison"
    for lane in range(int(lanes)):
        pair = []
        for side, operand in enumerate((one, other)):
            value = _lane_of(operand, lane)
            if not value:
                # A lane that nothing reads may be poison.
                value, plain = (_name(k, number, lane, side) for k in ("lane", "plain"))
                yield f"{plain} = extractelement <{lanes} x {type_}> {operand}, i64 {lane}"
                yield f"{value} = freeze {type_} {plain}"
            pair.append(value)
        compared = _name("compared", number, lane)
        yield f"{compared} = {kind} {predicate} {type_} {pair[0]}, {pair[1]}"
        last = lane == int(lanes) - 1
        joined = instruction.result if last else _name("joined", number, lane)
        yield f"{joined} = insertelement <{lanes} x i1> {whole}, i1 {compared}, i64 {lane}"
        whole = joined


def _lane_of(operand: str, lane: int) -> str:
    """Return a lane of a vector that is written in the listing; empty for one that is computed."""
    if operand.startswith("splat ("):
        return operand.removeprefix("splat (").rstrip(")").split()[1]
    if operand.startswith("<"):
        return operand.strip("<>").split(", ")[lane].split()[1]
    return ""


def _equalities(number: int, type_: str, value: str, cases: list[str]) -> Iterator[str]:
    """Write the comparisons by which a `switch` chooses, and the number that it then takes."""
    unused = next(n for n in range(len(cases) + 1) if str(n) not in cases)
    chosen = str(unused)
    for place, case in enumerate(cases):
        equal = _name("equal", number, place)
        yield f"{equal} = icmp eq {type_} {value}, {case}"
        last = place == len(cases) - 1
        found = _name("case", number) if last else _name("case", number, place)
        yield f"{found} = select i1 {equal}, {type_} {case}, {type_} {chosen}"
        chosen = found
