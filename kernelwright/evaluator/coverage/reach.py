"""Sides of conditions that no input which a task allows can take."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernelwright.evaluator.coverage.explained import Explained
from kernelwright.evaluator.coverage.sides import Seen, Side, Tally
from kernelwright.evaluator.inputs.value_domain import Domain, domains_of
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program

_PREDICATES: Mapping[str, Callable[[float, float], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    **{f"{sign}lt": operator.lt for sign in "us"},
    **{f"{sign}le": operator.le for sign in "us"},
    **{f"{sign}gt": operator.gt for sign in "us"},
    **{f"{sign}ge": operator.ge for sign in "us"},
}
"""Of integers; comparisons of unsigned ones read a negative number as a large one."""


_NO_PLACE = frozenset(("-1", "2147483647", "-2147483648", "65535"))
"""What stands for a place where none was found."""
_LARGEST_MARK = 32
"""Integers up to here count places and mark what was found."""
_NONZERO = " nonzero"
"""How the kind of a condition ends that asks of a quotient, or an integer, if it is not zero."""
_EQUALITIES = frozenset(("icmp eq", "icmp ne"))
_EQUAL_FLOATS = frozenset(
    (("fcmp oeq", True), ("fcmp ueq", True), ("fcmp one", False), ("fcmp une", False))
)


@dataclass(frozen=True)
class Range:
    """The integers that an input may hold."""

    least: int
    greatest: int
    bits: int
    """Of one of them."""
    excluded: tuple[int, ...] = ()

    def allows(self, value: float) -> bool:
        """Say whether an input may hold a number."""
        return self.least <= value <= self.greatest and value not in self.excluded

    def near(self, value: float) -> list[float]:
        """Return the ends, and what lies next to a number: all that a comparison tells apart."""
        found = (self.least, self.greatest, value - 1, value, value + 1)
        return [number for number in found if self.allows(number)]

    def near_unsigned(self, value: float) -> list[float]:
        """Return the same of numbers whose bits may be read without a sign."""
        wrap = float(1 << self.bits)
        below = [n + wrap for n in (*self.near(value - wrap), -1.0) if n < 0 and self.allows(n)]
        return self.near(value) + below


def ranges_of(references: Sequence[Reference], program: Program) -> dict[str, Range]:
    """Return by name what the integers of a program's inputs may be."""
    graph = references[0].case.graph
    found: dict[str, Range] = {}
    for place, (tensor, domain) in enumerate(zip(program.inputs, domains_of(graph), strict=True)):
        arrays = [r.inputs[place] for r in references if r.inputs[place].size]
        if arrays and arrays[0].dtype.kind in "ui":
            found[tensor.name] = _range(domain, arrays)
    return found


def _range(domain: Domain, arrays: Sequence[Array]) -> Range:
    bounds = np.iinfo(arrays[0].dtype.name)
    least, greatest = int(bounds.min), int(bounds.max)
    limits = domain.levels or (domain.index_limit and (0, domain.index_limit - 1))
    if limits:
        # Where the task itself bounds what it reads, its cases lie beyond.
        least = min(limits[0], *(int(a.min()) for a in arrays))
        greatest = max(limits[1], *(int(a.max()) for a in arrays))
    excluded = (*((0,) if domain.is_divisor else ()), *((least,) if domain.avoids_least else ()))
    return Range(least, greatest, bounds.bits, excluded)


def is_out_of_reach(side: Side, tally: Tally, ranges: Mapping[str, Range]) -> bool:
    """Say whether what the inputs may hold proves that a side is never taken.

    So it is with checks of indices, divisors and shifts: a number that is loaded as it is, and
    compared with one that is no data.
    """
    seen = tally.seen[side.key]
    if side.key.kind.removeprefix("icmp ") not in _PREDICATES or seen.compared is None:
        return False
    return any(
        _is_impossible(side, seen, place, ranges.get(name))
        for place, name in enumerate(seen.loaded)
    )


def _is_impossible(side: Side, seen: Seen, place: int, allowed: Range | None) -> bool:
    if allowed is None or not seen.is_known[1 - place] or seen.compared is None:
        return False
    if seen.loaded_bits[place] != allowed.bits:
        # Parts of elements, or several at once, are other numbers.
        return False
    other, predicate = seen.compared[1 - place], side.key.kind.removeprefix("icmp ")
    compare, is_signed = _PREDICATES[predicate], predicate[0] == "s"
    near = allowed.near(other) if is_signed else allowed.near_unsigned(other)
    pairs = [(n, other) if place == 0 else (other, n) for n in near]
    return all(compare(one, another) != side.value for one, another in pairs)


def is_guard(side: Side, tally: Tally, explained: Explained) -> bool:
    """Say whether honest kernels have a condition also where nothing leads to one of its sides.

    Some ask for NaN, infinities and ends of a format, before roundings and behind maxima, also of
    scales that are finite, and hand the answer from lane to lane. Others ask if a place was found,
    where each lane has one to give: what finds it are conditions of their own.
    """
    seen = tally.seen[side.key]
    if tally.is_special(side.key) or (seen.is_chosen and side.key.constant in _NO_PLACE):
        return True
    parts = [key for key, _ in seen.parts if not tally.seen[key].is_fixed]
    if parts and all(map(tally.is_special, parts)):
        # Beside them stands what no data decides, such as the place of a thread.
        return True
    is_flag = side.key.kind in _EQUALITIES and _is_mark(side.key.constant)
    return is_flag and not _is_made(seen, side.key.kind, explained)


def is_trigger(
    side: Side, tally: Tally, explained: Explained, around: frozenset[Side] = frozenset()
) -> bool:
    """Say whether a side that nothing leads to, and that would be wrong, is refused.

    What mathematics rules out is a comparison by order of numbers that data alone makes, as a
    running maximum with the one before it. What waits for data that nobody drew asks for more:
    for numbers that come from nowhere, for equality, for the bits of a float, or for several
    conditions at once of which each is met by itself. A condition that is part of others is asked
    with those `around` it.
    """
    seen, kind = tally.seen[side.key], side.key.kind
    if not kind.startswith(("icmp", "fcmp")):
        return _asks_for_more(side, tally, explained, around | {side})
    if waits_for_equal(side):
        return True
    if explained.reads_bits(seen) and not kind.endswith(_NONZERO):
        return True
    if kind in _EQUALITIES and _is_mark(side.key.constant):
        return _is_made(seen, kind, explained)
    if (kind, side.value) in _EQUAL_FLOATS and not any(seen.is_known):
        return True
    return not all(explained.has(number, kind) for number in seen.numbers)


def _asks_for_more(side: Side, tally: Tally, explained: Explained, around: frozenset[Side]) -> bool:
    """Say whether a combination could be met, as far as its parts tell.

    A part that was met, or that is a trigger itself, may be met by somebody; one that mathematics
    rules out keeps a conjunction from it.
    """
    needs_all = (side.key.kind, side.value) in {("and", True), ("or", False)}

    def may_be_met(part: Side) -> bool:
        if part in around or tally.takes(part):
            return True
        if needs_all and tally.is_special(part.key):
            # Any number may be NaN or finite; what cannot be both is not watched.
            return True
        return not is_guard(part, tally, explained) and is_trigger(part, tally, explained, around)

    parts = [
        Side(key, side.value is not is_negated)
        for key, is_negated in tally.seen[side.key].parts
        if not tally.seen[key].is_fixed
    ]
    return not parts or (all if needs_all else any)(map(may_be_met, parts))


def _is_made(seen: Seen, kind: str, explained: Explained) -> bool:
    """Say whether a flag or a count is what a text makes of data by conditions, or by numbers."""
    if seen.compares or seen.is_chosen:
        return True
    return not all(explained.has(number, kind) for number in seen.numbers)


def waits_for_equal(side: Side) -> bool:
    """Say whether a side is taken where two integers are equal, as two hashes of data."""
    is_equal = (side.key.kind, side.value) in {("icmp eq", True), ("icmp ne", False)}
    return is_equal and not _is_mark(side.key.constant)


def _is_mark(constant: str) -> bool:
    """Say whether a number counts places, or marks what was found."""
    return constant.lstrip("-").isdigit() and abs(int(constant)) <= _LARGEST_MARK
