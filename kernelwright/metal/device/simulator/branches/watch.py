"""A listing that tells which sides of its conditions were taken, and can be made to take one."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from kernelwright.metal.device.simulator.branches.backward_slice import BackwardSlice
from kernelwright.metal.device.simulator.branches.decision import NONZERO, ORDER, with_comparisons
from kernelwright.metal.device.simulator.branches.first_turn import ways_beyond_ends
from kernelwright.metal.device.simulator.branches.flag_way import Way, ways_of
from kernelwright.metal.device.simulator.branches.listing import (
    Function,
    Instruction,
    Listing,
    Location,
)
from kernelwright.metal.device.simulator.branches.predicate import (
    COMPARISON,
    LOGIC,
    is_comparison,
    is_contradiction,
    is_special,
    joined_by,
    kind_of,
)
from kernelwright.metal.device.simulator.branches.taint import Taint
from kernelwright.metal.device.simulator.path import ROUND
from kernelwright.metal.device.simulator.sound_arithmetic import GUARD
from kernelwright.metal.device.simulator.toolchain import INCLUDE
from kernelwright.metal.diagnostic import Record

SEEN, FORCED, COMPARED = "kw_condition_seen", "kw_condition_forced", "kw_condition_compared"
"""Of each condition: two bytes, whether it was false and true; a byte that is 1 to force it to be
false, 2 true; the two numbers that it compared last."""
MOST_CONDITIONS = 4096
_ENTRY = re.compile(r'^@"(?:\\01_?)?kw_entry:([^:"]*):')
_NOT = re.compile(r"^xor i1 .*, true$")
_OWN_FILES = frozenset(("source", "header", "signature", ""))
_ARITHMETIC = re.compile(
    r"(?:scalar_math|scalar|fast_math|metal_math|metal_simdgroup\w*|metal_atomic|abi)(?:\.h)?$"
)
"""Files of Metal's library whose conditions are how a function is computed."""
_BOUND = re.compile(r"\bbounded\(x, (-?[\d.]+)f, (-?[\d.]+)f\)")
"""How the library keeps an argument within the range of its exponentials."""
_DISTANCE = "@llvm.fabs.f64"
_MARKS = frozenset((-1.0, 0.0, 1.0))
"""Numbers of the text by which flags are kept."""
_SIGNED, _UNSIGNED = "sitofp", "uitofp"


class Site(Record):
    """A condition of the text; copies of it that a compiler has made are one."""

    file: str
    line: int
    column: int
    kind: str
    """The comparison, such as `fcmp oeq`, or the operation that joins conditions."""
    constant: str = ""
    """What it compares with, where that is written in the text."""
    has_values: bool = False
    loaded: tuple[int, int] = (-1, -1)
    """The buffers that the compared numbers were loaded from, where nothing was done to them."""
    loaded_bits: tuple[int, int] = (0, 0)
    """As in `Condition`."""
    is_known: tuple[bool, bool] = (False, False)
    """Which of the compared numbers depend on no loaded data."""
    is_fixed: bool = False
    """It depends on no loaded data at all, and others that do hang on it."""
    ways: tuple[tuple[tuple[int, bool], ...], ...] = ()
    """As in `Condition`."""
    ways_beyond_ends: tuple[tuple[tuple[int, bool], ...], ...] = ()
    """As in `Condition`."""
    is_special: bool = False
    """It asks whether numbers are NaN, infinite or at the end of their format, and no more."""
    is_chosen: bool = False
    """The first compared number is a place that data chose, or a mark in its stead."""
    numbers: tuple[float, ...] = ()
    """Those of the text that what it compares is computed with."""
    reads_bits: bool = False
    """What it compares is computed from the bits of a float."""
    loads: tuple[int, ...] = ()
    """The buffers of which elements that it compares are loaded as integers."""
    parts: tuple[tuple[int, bool], ...] = ()
    """The conditions that it joins, and whether it takes their opposite."""
    compares: bool = False
    """What it compares hangs on other comparisons, which ask for more than special numbers."""


@dataclass(frozen=True)
class Watched:
    """A listing with its conditions watched."""

    text: str
    sites: tuple[Site, ...]


def watch(text: str, descriptions: Mapping[str, Sequence[int]]) -> Watched:
    """Return a listing whose conditions on loaded data leave traces and can be forced.

    Args:
        text: A listing with line tables.
        descriptions: By kernel, the numbers of its buffers that hold shapes and strides alone.
    """
    read = Listing(text.split("\n"))
    listing = Listing(with_comparisons(read, _own_functions(read)))
    writer = _Writer(listing)
    for function in _own_functions(listing):
        entry = _ENTRY.match(function.name)
        taint = Taint(
            function, descriptions.get(entry[1], ()) if entry else (), is_entry=bool(entry)
        )
        writer.watch(function, taint)
    return Watched(writer.text(), tuple(writer.sites))


def _own_functions(listing: Listing) -> Iterator[Function]:
    """Yield the kernels' entries, and the functions of the text that they call."""
    for function in listing.functions:
        if _ENTRY.match(function.name) or listing.file_of(function.file) in _OWN_FILES - {""}:
            yield function


class _Writer:
    """Adds to each condition what watches it."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._lines: list[str] = list(listing.lines)
        self._after: dict[int, list[str]] = {}
        self._numbers: dict[object, int] = {}
        self.sites: list[Site] = []

    def watch(self, function: Function, taint: Taint) -> None:
        """Watch a function's conditions."""
        self._behind = BackwardSlice(self._listing, function, taint)
        forced: dict[str, str] = {}
        numbers: dict[str, int] = {}
        ways, beyond = _flag_ways(function, taint), self._beyond_ends(function, taint)
        led = (*ways.values(), *beyond.values())
        turns = (name for found in led for way in found for name, _ in way)
        fixed = _fixed_parts(function, taint).union(turns)
        for block in function.blocks.values():
            heads = [i for i in block.instructions if i.operation == "phi"]
            last_phi = heads[-1].number if heads else 0
            for instruction in block.instructions:
                is_watched = instruction.result in taint.names or instruction.result in fixed
                if not is_watched or not _is_condition(instruction):
                    continue
                if is_contradiction(function, instruction):
                    continue
                number = self._number(function, instruction, taint)
                if number is None:
                    continue
                numbers[instruction.result] = number
                at = max(instruction.number, last_phi)
                plain = instruction.result.strip('%"')
                name = f'%"kw.{number}.{plain}'
                self._after.setdefault(at, []).extend(_watched(instruction, number, name))
                forced[instruction.result] = f'{name}"'
        self._use(function, forced)
        self._join(function, numbers)
        self._lead("ways", ways, numbers)
        self._lead("ways_beyond_ends", beyond, numbers)

    def _join(self, function: Function, numbers: Mapping[str, int]) -> None:
        """Note which sites each combination of conditions joins."""
        for name, number in numbers.items():
            found = {
                (numbers[part], is_negated)
                for part, is_negated in joined_by(function, function.definitions[name])
                if part in numbers
            }
            site = self.sites[number]
            parts = tuple(sorted(found.union(site.parts)))
            self.sites[number] = site.model_copy(update={"parts": parts})

    def _beyond_ends(self, function: Function, taint: Taint) -> dict[str, tuple[Way, ...]]:
        """Return by which ways more than special numbers come to be asked for.

        So it is with comparisons, and with flags of them that lanes hand each other.
        """
        compared = ways_beyond_ends(function, taint)
        found = dict(compared)
        for one in function.instructions if compared else ():
            is_flag = one.result in taint.names and one.result not in compared
            if not (is_flag and is_comparison(one.text)):
                continue
            origins = self._behind.origins(one, without=compared)
            if origins.left_out and not origins.compares and origins.numbers <= _MARKS:
                found[one.result] = tuple(
                    dict.fromkeys(w for name in origins.left_out for w in compared[name])
                )
        return found

    def _lead(
        self,
        name_of_ways: Literal["ways", "ways_beyond_ends"],
        ways: Mapping[str, tuple[Way, ...]],
        numbers: Mapping[str, int],
    ) -> None:
        """Note by which ways data comes into values; copies of one are told apart by none."""
        of_site: dict[int, list[str]] = {}
        for name, number in numbers.items():
            of_site.setdefault(number, []).append(name)
        for number, names in of_site.items():
            found = [ways.get(name, ()) for name in names]
            if not all(found) or any(t not in numbers for f in found for way in f for t, _ in way):
                continue
            told = {tuple(sorted((numbers[t], side) for t, side in w)) for f in found for w in f}
            self.sites[number] = self.sites[number].model_copy(
                update={name_of_ways: tuple(sorted(told))}
            )

    def _use(self, function: Function, forced: Mapping[str, str]) -> None:
        """Let all others use what a condition was made to be."""
        if not forced:
            return
        pattern = re.compile(r'%(?:"[^"]*"|[-\w$.]+)')
        first = min(i.number for i in function.instructions)
        last = max(i.number for i in function.instructions)
        for number in range(first, last + 1):
            line = self._lines[number]
            head, mark, rest = line.partition(" = ")
            if not mark or not head.startswith("  %"):
                head, mark, rest = "", "", line
            rest = pattern.sub(lambda m: forced.get(m[0], m[0]), rest)
            self._lines[number] = f"{head}{mark}{rest}"

    def _number(self, function: Function, instruction: Instruction, taint: Taint) -> int | None:
        """Return the number of a condition's site; None for what is not the text's own."""
        chain = self._listing.chain(instruction.debug)
        if chain and _ARITHMETIC.search(chain[0].file):
            return None
        own = next((c for c in chain if c.file in _OWN_FILES and c.line), None)
        found = COMPARISON.match(instruction.text)
        kind = kind_of(instruction)
        constant = found[5] if found and found[5][0] not in "%@" else ""
        if not chain and _is_library_bound(function, instruction, kind, constant):
            return None
        is_fixed = instruction.result not in taint.names
        key: object = (chain, kind, constant, is_fixed)
        if own is None or not chain[0].line:
            key = (function.name, instruction.result)
        if key not in self._numbers:
            if len(self.sites) == MOST_CONDITIONS:
                return None
            self._numbers[key] = len(self.sites)
            place = own or self._nearby(function, instruction)
            one, other = (found[4], found[5]) if found else ("", "")
            is_known = (one not in taint.names, other not in taint.names)
            loaded = (taint.loaded_from(one), taint.loaded_from(other))
            origins = self._behind.origins(instruction)
            if instruction.result.startswith(ORDER) and not any(is_known):
                origins = self._behind.difference(one, other)
            site = Site(
                is_fixed=is_fixed,
                file=place.file,
                line=place.line,
                column=place.column,
                kind=kind,
                constant=constant,
                has_values=found is not None,
                loaded=(loaded[0][0], loaded[1][0]),
                loaded_bits=(loaded[0][1], loaded[1][1]),
                is_special=is_special(function, instruction.result),
                is_chosen=taint.is_chosen_index(one),
                is_known=is_known,
                numbers=tuple(sorted(origins.numbers)),
                reads_bits=origins.reads_bits,
                compares=origins.compares,
                loads=tuple(sorted(origins.loads)),
            )
            self.sites.append(site)
        return self._numbers[key]

    def _nearby(self, function: Function, instruction: Instruction) -> Location:
        """Return where what follows a condition stands that has no place of its own."""
        block = next(b for b in function.blocks.values() if instruction in b.instructions)
        start = block.instructions.index(instruction)
        for other in (*block.instructions[start:], *reversed(block.instructions[:start])):
            chain = self._listing.chain(other.debug)
            own = next((c for c in chain if c.file in _OWN_FILES and c.line), None)
            if own is not None:
                return own
        return Location("source", 0, 0)

    def text(self) -> str:
        """Return the listing with all that watches it."""
        written: list[str] = []
        for number, line in enumerate(self._lines):
            written.append(line)
            written += self._after.get(number, ())
        count = max(len(self.sites), 1)
        written += [
            f"@{SEEN} = global [{2 * count} x i8] zeroinitializer",
            f"@{FORCED} = global [{count} x i8] zeroinitializer",
            f"@{COMPARED} = global [{3 * count} x double] zeroinitializer",
        ]
        if not any(line.startswith("declare") and f"{_DISTANCE}(" in line for line in self._lines):
            written.append(f"declare double {_DISTANCE}(double)")
        return "\n".join((*written, ""))


def _flag_ways(function: Function, taint: Taint) -> dict[str, tuple[Way, ...]]:
    """Return by which ways data comes into flags that a loop may carry."""
    flags = (
        i
        for i in function.instructions
        if i.result in taint.names and i.operation in ("trunc", "phi") and _is_condition(i)
    )
    return {flag.result: ways_of(function, taint, flag) for flag in flags}


def _fixed_parts(function: Function, taint: Taint) -> frozenset[str]:
    """Return the conditions without data that are joined with others on data."""
    joined = (i for i in function.instructions if i.result in taint.names)
    parts = (name for i in joined for name, _ in joined_by(function, i))
    return frozenset(n for n in parts if n in function.definitions and n not in taint.names)


def _is_library_bound(
    function: Function, instruction: Instruction, kind: str, constant: str
) -> bool:
    """Say whether a comparison without a place bounds the argument of an exponential.

    What a loop does not change is moved before it, and loses its place in the library.
    """
    if (kind, constant) not in _library_bounds():
        return False
    bounds = f"select i1 {instruction.result}, float {constant}, float "
    return any(bounds in other.text for other in function.instructions)


@cache
def _library_bounds() -> frozenset[tuple[str, str]]:
    """Return the comparisons that bound arguments in Metal's library, as a listing writes them."""
    text = (INCLUDE / "kw" / "scalar_math.h").read_text(encoding="utf-8")
    return frozenset(
        (kind, f"{float(bound):e}")
        for pair in _BOUND.findall(text)
        for kind, bound in zip(("fcmp olt", "fcmp ogt"), pair, strict=True)
    )


def _is_condition(instruction: Instruction) -> bool:
    text = instruction.text
    if _NOT.match(text) or instruction.result.startswith((GUARD, ROUND)):
        return False
    return bool(COMPARISON.match(text) or LOGIC.match(text))


def _watched(instruction: Instruction, number: int, name: str) -> Iterator[str]:
    """Write what notes the side, and what `name` is: the condition, or what it is forced to be."""
    raw = instruction.result
    yield f'  {name}.side" = zext i1 {raw} to i64'
    yield (f'  {name}.seen" = getelementptr [2 x i8], ptr @{SEEN}, i64 {number}, i64 {name}.side"')
    yield f'  store i8 1, ptr {name}.seen"'
    if raw.startswith(NONZERO):
        # That something is never zero decides nothing.
        yield f"  store i8 1, ptr getelementptr ([2 x i8], ptr @{SEEN}, i64 {number})"
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
    yield f'  {name}.far" = call double {_DISTANCE}(double {name}.apart")'
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
