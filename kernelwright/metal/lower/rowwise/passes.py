"""The loops over a row: what each reduces, in what order, and what is kept between them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kernelwright.metal.kernel_ir.expression import (
    Apply,
    Expr,
    IndexValue,
    OrderStat,
    ReduceExpr,
    Store,
    always,
    walk,
)
from kernelwright.metal.kernel_ir.index import Axis
from kernelwright.metal.kernel_ir.scalar_op import is_one_instruction
from kernelwright.metal.lower.emit.accumulator import online_moments, online_pairs
from kernelwright.metal.lower.rowwise.moment import factor_of, is_moment


@dataclass(frozen=True)
class Loop:
    """One walk over a row, that reduces, or writes outputs."""

    axis: Axis
    reduced: tuple[ReduceExpr, ...] = ()
    online: tuple[tuple[ReduceExpr, ReduceExpr], ...] = ()
    """(maximum, sum of shifted exponentials) found together."""
    moments: tuple[tuple[ReduceExpr, ReduceExpr], ...] = ()
    """(maximum, sum of shifted exponentials times a factor) found with the pair of that maximum."""
    ranked: tuple[OrderStat, ...] = ()
    """Elements and places of one ranking."""
    stores: tuple[Store, ...] = ()

    @property
    def is_map(self) -> bool:
        """True where the loop writes outputs and reduces nothing."""
        return not (self.reduced or self.online or self.ranked)

    @property
    def roots(self) -> tuple[Expr, ...]:
        """What each step of the loop needs."""
        bodies = [r.body for r in (*self.reduced, *(peak for peak, _ in self.online))]
        bodies += [f for _, m in self.moments if (f := factor_of(m)) is not None]
        bodies += [r.key for r in self.ranked[:1]]
        return (*bodies, *(s.value for s in self.stores))


def loops(stores: Sequence[Store], *, online: bool) -> tuple[Loop, ...]:
    """Return the loops that compute `stores`, in order; stores of one element a row are not in."""
    waiting = [t for t in walk([s.value for s in stores]) if isinstance(t, ReduceExpr | OrderStat)]
    found = [t for t in waiting if isinstance(t, ReduceExpr)]
    ranked = [t for t in waiting if isinstance(t, OrderStat)]
    pairs = {total: peak for peak, total in online_pairs(found)} if online else {}
    pairs |= {moment: peak for peak, moment in online_moments(found)} if online else {}
    levels = _levels(waiting, pairs)
    result: list[Loop] = []
    for level in range(max(levels.values(), default=0) + 1):
        current = [r for r in found if levels[r] == level]
        axes = dict.fromkeys(r.axis for r in current)
        result += [_reducing(a, [r for r in current if r.axis == a], pairs) for a in axes]
        result += _ranking([r for r in ranked if levels[r] == level])
    columns = dict.fromkeys(a for s in stores if (a := column_of(s)) is not None)
    for axis in columns:
        here = [s for s in stores if column_of(s) == axis]
        early = [s for s in here if not _waits(s)]
        first = next((i for i, loop in enumerate(result) if _takes(loop, axis)), None)
        if first is not None and early:
            # What waits for no reduction is written while the elements are read for one.
            result[first] = replace(result[first], stores=tuple(early))
            here = [s for s in here if _waits(s)]
        result += [Loop(axis, stores=tuple(here))] if here else []
    return tuple(result)


def _waits(store: Store) -> bool:
    return any(isinstance(t, ReduceExpr | OrderStat) for t in walk([store.value]))


def _takes(loop: Loop, axis: Axis) -> bool:
    return loop.axis == axis and bool(loop.reduced or loop.online)


def _reducing(axis: Axis, here: Sequence[ReduceExpr], pairs: dict[ReduceExpr, ReduceExpr]) -> Loop:
    both = tuple((pairs[r], r) for r in here if r in pairs)
    paired = {r for pair in both for r in pair}
    moments = tuple(pair for pair in both if is_moment(pair[1]))
    alone = tuple(r for r in here if r not in paired)
    return Loop(axis, alone, tuple(p for p in both if p not in moments), moments)


def _ranking(here: Sequence[OrderStat]) -> list[Loop]:
    """Return a loop for each row that is ranked from one end."""
    groups: dict[tuple[int, Axis, bool], list[OrderStat]] = {}
    for term in here:
        groups.setdefault((term.key.number, term.axis, term.is_largest_first), []).append(term)
    return [Loop(terms[0].axis, ranked=tuple(terms)) for terms in groups.values()]


def column_of(store: Store) -> Axis | None:
    """Return the axis along a row that a store runs over, None where it writes once a row."""
    return next((a for a in store.offset.axes if a.name == "column"), None)


def _levels(
    found: Sequence[ReduceExpr | OrderStat], pairs: dict[ReduceExpr, ReduceExpr]
) -> dict[ReduceExpr | OrderStat, int]:
    levels: dict[ReduceExpr | OrderStat, int] = {}
    for term in found:
        ahead = pairs.get(term, term) if isinstance(term, ReduceExpr) else term
        body = ahead.key if isinstance(ahead, OrderStat) else ahead.body
        below = [t for t in walk([body]) if isinstance(t, ReduceExpr | OrderStat)]
        levels[term] = max((levels[t] + 1 for t in below), default=0)
    return levels


def kept_between(sequence: Sequence[Loop]) -> dict[int, tuple[Expr, ...]]:
    """Return, for each loop by its place, the terms whose values a later loop reads again.

    A value that one arithmetic operation makes from kept ones is computed again instead.
    """
    made: dict[tuple[Axis, int], int] = {}
    kept: dict[tuple[Axis, int], Expr] = {}
    for place, loop in enumerate(sequence):
        fresh, demanded = _split(loop, made)
        for term in demanded:
            if not _is_cheap(term, loop.axis, kept):
                kept[loop.axis, term.number] = term
        for term in fresh:
            made[loop.axis, term.number] = place
    by_loop: dict[int, tuple[Expr, ...]] = {}
    for key, term in kept.items():
        by_loop[made[key]] = (*by_loop.get(made[key], ()), term)
    return by_loop


def _split(loop: Loop, made: dict[tuple[Axis, int], int]) -> tuple[list[Expr], list[Expr]]:
    """Return what a loop computes itself, and what it could take from an earlier one."""
    fresh: list[Expr] = []
    demanded: list[Expr] = []
    earlier = {number for axis, number in made if axis == loop.axis}
    still = {t.number for t in walk(loop.roots) if loop.axis not in t.axes}
    certain = {t.number for t in always(loop.roots, earlier | still)}
    for term in walk(loop.roots, earlier | still):
        if term.number in earlier:
            demanded.append(term)
        elif term.number not in still and term.number in certain:
            fresh.append(term)
    return fresh, demanded


def _is_cheap(term: Expr, axis: Axis, kept: dict[tuple[Axis, int], Expr]) -> bool:
    if isinstance(term, IndexValue):
        return True
    if not isinstance(term, Apply) or not is_one_instruction(term.op, term.dtype):
        return False
    varying = [a for a in term.arguments if axis in a.axes]
    return all((axis, a.number) in kept or isinstance(a, IndexValue) for a in varying)


def per_lane(axis: Axis, lanes: int, vector: int) -> int:
    """Count a lane's elements of a row, rounded up to whole vectors."""
    return -(-axis.extent // (lanes * vector)) * vector


def register_count(sequence: Iterable[Loop], lanes: int, vector: int) -> int:
    """Estimate the 32-bit registers that a lane's kept values take."""
    listed = tuple(sequence)
    total = 0
    for place, terms in kept_between(listed).items():
        elements = per_lane(listed[place].axis, lanes, vector)
        total += sum(elements * max(t.dtype.itemsize // 4, 1) for t in terms)
    return total
