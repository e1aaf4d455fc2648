"""What is written into a listing to watch one condition, and to force it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelwright.metal.device.simulator.branches.listing import Instruction
from kernelwright.metal.device.simulator.branches.predicate import COMPARISON
from kernelwright.metal.device.simulator.branches.site import COMPARED, FORCED, SEEN

DISTANCE = "@llvm.fabs.f64"
_SIGNED, _UNSIGNED = "sitofp", "uitofp"
_LANES = re.compile(
    r"^(icmp|fcmp) ((?:(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|samesign) )*\w+) "
    r"<(\d+) x (i\d+|half|bfloat|float|double)> ([^,<]+|<[^>]*>|splat \([^)]*\)), (.+)$"
)
_EXTREME = re.compile(
    r"^(?:(?:tail|notail|musttail) )?call (?:(?:noundef|nnan|ninf|nsz|contract|fast) )*"
    r"(half|bfloat|float|i\d+) "
    r"@llvm\.(maxnum|minnum|maximum|minimum|maximumnum|minimumnum|umax|umin|smax|smin)\.\w+"
    r"\(\w+ (?:noundef )?([^,]+), \w+ (?:noundef )?([^)]+)\)"
)
_ORDERS = {"umax": "icmp ugt", "umin": "icmp ult", "smax": "icmp sgt", "smin": "icmp slt"}
_SWITCH = re.compile(r"^switch (i\d+) ([^,]+), label [^\[]+\[(.*)\]$")
_CASE = re.compile(r"i\d+ (-?\d+), label")


@dataclass(frozen=True)
class Probe:
    """One condition: what makes it, and what is done with what it was forced to be."""

    instruction: Instruction
    before: tuple[str, ...] = ()
    """Lines that compute it, where it does not stand in the listing."""


def watched(instruction: Instruction, number: int, name: str) -> Iterator[str]:
    """Write what notes the side, and what `name` is: the condition, or what it is forced to be."""
    raw = instruction.result
    yield f'  {name}.side" = zext i1 {raw} to i64'
    yield f'  {name}.seen" = getelementptr [2 x i8], ptr @{SEEN}, i64 {number}, i64 {name}.side"'
    yield f'  store i8 1, ptr {name}.seen"'
    yield from _noted(instruction, number, name)
    yield f'  {name}.force" = load i8, ptr getelementptr (i8, ptr @{FORCED}, i64 {number})'
    yield f'  {name}.off" = icmp ne i8 {name}.force", 1'
    yield f'  {name}.on" = icmp eq i8 {name}.force", 2'
    yield f'  {name}.left" = and i1 {raw}, {name}.off"'
    yield f'  {name}" = or i1 {name}.left", {name}.on"'


def _noted(instruction: Instruction, number: int, name: str) -> Iterator[str]:
    """Write what keeps the two numbers closest to each other that a comparison has met."""
    found = COMPARISON.match(instruction.text)
    if found is None:
        return
    kind, predicate, type_, *operands = found.groups()
    values = []
    for place, operand in enumerate(operands):
        value = f'{name}.value{place}"'
        values.append(value)
        if kind == "icmp":
            cast = _UNSIGNED if predicate[0] == "u" else _SIGNED
            yield f"  {value} = {cast} {type_} {operand} to double"
        elif type_ == "double":
            yield f"  {value} = fadd double {operand}, 0.0"
        else:
            yield f"  {value} = fpext {type_} {operand} to double"
    yield f'  {name}.apart" = fsub double {values[0]}, {values[1]}'
    yield f'  {name}.far" = call double {DISTANCE}(double {name}.apart")'
    least, one, other = (
        f"getelementptr (double, ptr @{COMPARED}, i64 {3 * number + place})" for place in range(3)
    )
    yield f'  {name}.least" = load double, ptr {least}'
    yield f'  {name}.closer" = fcmp olt double {name}.far", {name}.least"'
    kept = ((least, f'{name}.far"'), (one, values[0]), (other, values[1]))
    for place, (address, value) in enumerate(kept):
        yield f'  {name}.old{place}" = load double, ptr {address}'
        yield (
            f'  {name}.new{place}" = select i1 {name}.closer", double {value}, '
            f'double {name}.old{place}"'
        )
        yield f'  store double {name}.new{place}", ptr {address}'


def lanes_of(instruction: Instruction) -> tuple[Probe, ...]:
    """Return the comparisons of a vector's lanes; nothing for what compares no vectors."""
    found = _LANES.match(instruction.text)
    if found is None:
        return ()
    plain = instruction.result.strip('%"')
    kind, predicate, count, type_, one, other = found.groups()
    made = []
    for lane in range(int(count)):
        pair, lines = [], []
        for side, operand in enumerate((one, other)):
            known = _lane_of(operand, lane)
            if not known:
                known = f'%"kw.{plain}.lane{lane}.{side}"'
                # Lanes that nobody reads may be poison.
                plain_lane = f'%"kw.{plain}.lane{lane}.{side}.plain"'
                lines += [
                    f"  {plain_lane} = extractelement <{count} x {type_}> {operand}, i64 {lane}",
                    f"  {known} = freeze {type_} {plain_lane}",
                ]
            pair.append(known)
        made.append(
            _synthetic(instruction, f"{plain}.lane{lane}", kind, predicate, type_, pair, lines)
        )
    return tuple(made)


def _lane_of(operand: str, lane: int) -> str:
    """Return a lane of a vector that is written in the listing; empty for one that is computed."""
    if operand.startswith("splat ("):
        return operand.removeprefix("splat (").rstrip(")").split()[1]
    if operand == "zeroinitializer":
        return ""
    if operand.startswith("<"):
        return operand.strip("<>").split(", ")[lane].split()[1]
    return ""


def joined_lanes(instruction: Instruction, names: Sequence[str]) -> Iterator[str]:
    """Write the vector of conditions that lanes were made to be; the last line is its own."""
    plain, count = instruction.result.strip('%"'), len(names)
    before = "poison"
    for lane, name in enumerate(names):
        made = f'%"kw.{plain}.joined{lane}"'
        yield f"  {made} = insertelement <{count} x i1> {before}, i1 {name}, i64 {lane}"
        before = made


def extreme_of(instruction: Instruction) -> Probe | None:
    """Return the order by which a maximum or minimum picks its first operand."""
    found = _EXTREME.match(instruction.text)
    if found is None:
        return None
    type_, function, one, other = found.groups()
    order = _ORDERS.get(function) or ("fcmp ogt" if function.startswith("max") else "fcmp olt")
    kind, predicate = order.split()
    plain = instruction.result.strip('%"')
    return _synthetic(instruction, f"{plain}.first", kind, predicate, type_, [one, other], [])


def picked(instruction: Instruction, probe: Probe, name: str) -> Iterator[str]:
    """Write what a maximum or minimum gives where its order is forced; the last line is its own."""
    found = _EXTREME.match(instruction.text)
    if found is None:
        return
    type_, _, one, other = found.groups()
    plain = instruction.result.strip('%"')
    yield f'  %"kw.{plain}.same" = icmp eq i1 {probe.instruction.result}, {name}'
    yield f'  %"kw.{plain}.other" = select i1 {name}, {type_} {one}, {type_} {other}'
    yield (
        f'  %"kw.{plain}.picked" = select i1 %"kw.{plain}.same", {type_} {instruction.result}, '
        f'{type_} %"kw.{plain}.other"'
    )


def cases_of(instruction: Instruction) -> tuple[Probe, ...]:
    """Return the comparisons by which a switch chooses."""
    found = _SWITCH.match(instruction.text)
    if found is None:
        return ()
    type_, value, cases = found.groups()
    return tuple(
        _synthetic(
            instruction,
            f"switch{instruction.number}.{place}",
            "icmp",
            "eq",
            type_,
            [value, case],
            [],
        )
        for place, case in enumerate(_CASE.findall(cases))
    )


def switched(
    instruction: Instruction, probes: Sequence[Probe], names: Sequence[str]
) -> Iterator[str]:
    """Write the number by which a switch chooses as its cases were forced; the last line is it."""
    found = _SWITCH.match(instruction.text)
    if found is None:
        return
    type_, value, cases = found.groups()
    numbers = _CASE.findall(cases)
    none = max(map(int, numbers)) + 1
    for place, (probe, name, case) in enumerate(zip(probes, names, numbers, strict=True)):
        stem = f'%"kw.switch{instruction.number}.{place}'
        yield f'  {stem}.no" = xor i1 {name}, true'
        yield f'  {stem}.lost" = and i1 {probe.instruction.result}, {stem}.no"'
        yield f'  {stem}.off" = select i1 {stem}.lost", {type_} {none}, {type_} {value}'
        yield f'  {stem}.new" = xor i1 {name}, {probe.instruction.result}'
        yield f'  {stem}.on" = and i1 {stem}.new", {name}'
        yield f'  {stem}.chosen" = select i1 {stem}.on", {type_} {case}, {type_} {stem}.off"'
        value = f'{stem}.chosen"'


def _synthetic(
    instruction: Instruction,
    plain: str,
    kind: str,
    predicate: str,
    type_: str,
    operands: list[str],
    lines: list[str],
) -> Probe:
    text = f"{kind} {predicate} {type_} {operands[0]}, {operands[1]}"
    name = f'%"kw.{plain}"'
    made = Instruction(instruction.number, name, text, instruction.debug)
    return Probe(made, (*lines, f"  {name} = {text}"))
