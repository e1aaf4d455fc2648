"""Proof that two kernels leave the same in memory on every input, thread by thread."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod

from kernelwright.evaluator.attacks.mutate.symbolic.equality import same_outputs
from kernelwright.evaluator.attacks.mutate.symbolic.listing import Function
from kernelwright.evaluator.attacks.mutate.symbolic.term import (
    Term,
    UnprovenError,
    Value,
    added,
    forget,
    scaled,
    unknown,
)
from kernelwright.evaluator.attacks.mutate.symbolic.threadgroup import (
    SIMDGROUP,
    Group,
    Run,
    Sizes,
    run,
)
from kernelwright.evaluator.attacks.mutate.symbolic.wait import UndecidedError

STEPS = 500_000
"""How many instructions a proof may run unless told: some six seconds."""
_MOST_DECISIONS = 6
_MOST_FURTHER = 1 << 20
"""Threadgroups behind a grid's end."""
_MOST_GROUPS = 64
"""So few threadgroups are looked at one by one where their position decides what they do."""


_MEMORY = ("kw_barrier", "kw_threadgroup_alloc", "kw_simdgroup_barrier")
_AXES = ("grid", "threadgroup", "is_open")


@dataclass(frozen=True)
class Range:
    """Threadgroups along an axis that have as many threads."""

    first: int
    count: int
    threads: int


@dataclass(frozen=True)
class Dispatch:
    """How many threads a launch has along each axis, and where that is open, how many at most."""

    grid: Sizes
    threadgroup: Sizes
    is_open: tuple[bool, bool, bool] = (False, False, False)
    """Where sizes are symbolic, the grid is the largest one: all smaller ones are meant."""


def is_same(
    one: Function,
    other: Function,
    dispatch: Dispatch,
    other_dispatch: Dispatch,
    steps: int = STEPS,
) -> bool:
    """Say whether two kernels are proven to leave the same values in the same places.

    Each thread is run; numbers of the launch are known, data is not. False proves nothing.

    Args:
        one: What is right.
        other: What is compared with it.
        dispatch: The launch of the first.
        other_dispatch: That of the second, which may have other threadgroups or further ones.
        steps: How many instructions each run of threads may take.
    """
    try:
        return _Proof(one, other, dispatch, steps).of(other_dispatch)
    except UnprovenError:
        return False
    finally:
        forget()


@dataclass
class _Proof:
    one: Function
    other: Function
    dispatch: Dispatch
    steps: int

    def of(self, other: Dispatch) -> bool:
        """Say whether it holds where the second kernel's launch is another.

        Raises:
            UnprovenError: something is not understood.
        """
        if other == self.dispatch:
            return self._of_all()
        if other.threadgroup == self.dispatch.threadgroup:
            return self._of_all() and self._of_further(other)
        return other.grid == self.dispatch.grid and self._of_any_division(other)

    def _of_all(self) -> bool:
        axes = zip(*(getattr(self.dispatch, name) for name in _AXES), strict=True)
        return all(
            self._of_ranges(ranges) for ranges in product(*(tuple(_ranges(*axis)) for axis in axes))
        )

    def _of_further(self, other: Dispatch) -> bool:
        """Say whether threadgroups behind the grid leave what those at its start do, or nothing."""
        longer = [axis for axis in range(3) if other.grid[axis] != self.dispatch.grid[axis]]
        sizes = self.dispatch.threadgroup
        (axis, *more) = longer
        is_longer = other.grid[axis] > self.dispatch.grid[axis]
        is_ragged = self.dispatch.is_open[axis] or self.dispatch.grid[axis] % sizes[axis] > 0
        if more or not is_longer or (is_ragged and sizes[axis] > 1) or self._waits(*_MEMORY):
            return False
        starts = [_below("threadgroup", i, -(-self.dispatch.grid[i] // sizes[i])) for i in range(3)]
        behind = [*starts]
        starts[axis] = 0
        more_groups = _MOST_FURTHER
        if not self.dispatch.is_open[axis]:
            more_groups = -(-(other.grid[axis] - self.dispatch.grid[axis]) // sizes[axis])
        end = -(-self.dispatch.grid[axis] // sizes[axis])
        behind[axis] = added(_below("further", axis, more_groups), end, 32)
        groups = [
            [
                Group(tuple(at), threads, sizes, sizes, self.dispatch.grid, is_open=True)
                for at in (starts, behind)
            ]
            for threads in self._threads(sizes)
        ]
        return _is_any(partial(self._adds_nothing, *pair) for pair in groups)

    def _of_any_division(self, other: Dispatch) -> bool:
        """Say whether it does not matter how the grid is divided: by whole simdgroups at least."""
        grid = self.dispatch.grid
        if not self._waits():
            i, j, k = (_below("row", axis, size) for axis, size in enumerate(grid))
            return self._agree(Group((0, 0, 0), [(i, j, k)], grid, grid, grid, is_apart=True), {})
        x, *rest = grid
        widths = (x, self.dispatch.threadgroup[0], other.threadgroup[0])
        is_open = self.dispatch.is_open[0]
        if is_open or any(width % SIMDGROUP for width in widths) or self._waits(*_MEMORY):
            return False
        j, k = (_below("row", axis, size) for axis, size in enumerate(rest))
        start = scaled(_below("simdgroup", 0, x // SIMDGROUP), SIMDGROUP, 32)
        threads = [(added(start, lane, 32), j, k) for lane in range(SIMDGROUP)]
        return self._agree(Group((0, 0, 0), threads, grid, grid, grid, is_apart=True), {})

    def _adds_nothing(self, first: Group, behind: Group) -> bool:
        """Say whether what a threadgroup behind the grid leaves is part of what one of it does."""
        runs = [(self.one, first), (self.other, behind)]
        right, further = (run(f, group, {}, self.steps).outputs for f, group in runs)
        return further.items() <= right.items()

    def _of_ranges(self, ranges: tuple[Range, ...]) -> bool:
        position = tuple(
            added(_below("threadgroup", axis, r.count), r.first, 32)
            for axis, r in enumerate(ranges)
        )
        try:
            return self._of_group(position, ranges)
        except UnprovenError:
            if any(self.dispatch.is_open) or not 1 < prod(r.count for r in ranges) <= _MOST_GROUPS:
                raise
        places = product(*(range(r.first, r.first + r.count) for r in ranges))
        return all(self._of_group(place, ranges) for place in places)

    def _of_group(self, position: tuple[Value, ...], ranges: tuple[Range, ...]) -> bool:
        """Try it with one thread, with a simdgroup, with all threads; the first proof will do."""
        x, y, z = (r.threads for r in ranges)
        dispatch = self.dispatch
        if x < dispatch.threadgroup[0] and y * z > 1 and self._waits():
            raise UnprovenError("simdgroups at the edge are made of other threads.")
        sizes, is_open = (x, y, z), any(dispatch.is_open)
        groups = (
            Group(position, threads, sizes, dispatch.threadgroup, dispatch.grid, is_open=is_open)
            for threads in self._threads(sizes)
        )
        return _is_any(partial(self._agree, group, {}) for group in groups)

    def _threads(self, sizes: Sizes) -> Iterator[Sequence[tuple[Value, Value, Value]]]:
        """Yield the threads that stand for all, fewer before more."""
        x, y, z = sizes
        j, k = (_below("thread", axis, size) for axis, size in ((1, y), (2, z)))
        if not self._waits():
            yield [(_below("thread", 0, x), j, k)]
        if not self._waits(*_MEMORY) and x % SIMDGROUP == 0:
            start = scaled(_below("simdgroup", 0, x // SIMDGROUP), SIMDGROUP, 32)
            yield [(added(start, lane, 32), j, k) for lane in range(SIMDGROUP)]
        yield [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]

    def _waits(self, *names: str) -> bool:
        names = names or (*_MEMORY, "kw_simdgroup")
        return any(f.calls(name) for f in (self.one, self.other) for name in names)

    def _agree(self, group: Group, decisions: Mapping[Term, bool]) -> bool:
        """Say whether both leave the same, whatever conditions that threads wait behind give."""
        try:
            runs = [run(f, group, decisions, self.steps) for f in (self.one, self.other)]
        except UndecidedError as e:
            if len(decisions) == _MOST_DECISIONS:
                raise
            ways = ({**decisions, e.condition: way} for way in (True, False))
            return all(self._agree(group, way) for way in ways)
        self._check_edges(runs)
        return same_outputs(*(found.outputs for found in runs))

    def _check_edges(self, runs: list[Run]) -> None:
        """Ask that fewer threads at an open edge do what they do among all.

        Raises:
            UnprovenError: threads wait for some that may be missing there.
        """
        waits = frozenset().union(*(found.waits for found in runs))
        x, y, z = (
            is_open and size > 1
            for size, is_open in zip(self.dispatch.threadgroup, self.dispatch.is_open, strict=True)
        )
        is_by_rows = self.dispatch.threadgroup[0] % SIMDGROUP == 0 and not x
        if (x or y or z) and waits and (waits != {"simdgroup"} or not is_by_rows):
            raise UnprovenError("threads wait for others that an edge may lack.")


def _is_any(proofs: Iterable[Callable[[], bool]]) -> bool:
    """Say that one holds; what one does not understand the next one may.

    Raises:
        UnprovenError: none does.
    """
    problem = UnprovenError("the results differ.")
    for proof in proofs:
        try:
            if proof():
                return True
        except UnprovenError as e:
            problem = e
    raise problem


def _below(name: str, axis: int, size: int) -> Value:
    return unknown(name, axis, low=0, high=size - 1)


def _ranges(threads: int, size: int, is_open: bool) -> Iterator[Range]:
    if is_open:
        yield Range(0, max(-(-threads // size), 1), size)
        return
    full, rest = divmod(threads, size)
    if full:
        yield Range(0, full, size)
    if rest:
        yield Range(full, 1, rest)
