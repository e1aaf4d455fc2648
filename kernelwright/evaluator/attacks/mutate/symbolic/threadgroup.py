"""Runs the threads of a threadgroup from wait to wait; nothing may hang on their order."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from kernelwright.evaluator.attacks.mutate.symbolic.listing import Function
from kernelwright.evaluator.attacks.mutate.symbolic.memory import (
    Cell,
    Memory,
    Shared,
    is_own,
    is_threadgroup,
)
from kernelwright.evaluator.attacks.mutate.symbolic.term import (
    Term,
    UnprovenError,
    Value,
    added,
    scaled,
    unknown,
)
from kernelwright.evaluator.attacks.mutate.symbolic.thread import Thread
from kernelwright.evaluator.attacks.mutate.symbolic.wait import Budget, Wait, Waits

SIMDGROUP = 32
_SAME_FOR_ALL = re.compile(r"kw_prebuilt_(?:(?:sum|max|min|and|or|xor)_of_\w+|votes)")
"""Operations whose result all lanes share."""
_EXCHANGE = re.compile(r"kw_prebuilt_(lane|partner|neighbour)_of_\w+")
_DEVICE, _THREADGROUP = 1, 2
_FULL_SIZES = 12
"""Which word of `kw_thread` begins the sizes of a whole threadgroup: behind those of the thread's
own, before the grid's."""
_LANE = 25
"""Which word of `kw_thread` is a thread's lane: behind its index, before its simdgroup's, how many
of these there are, and the lanes of this one."""
Sizes = tuple[int, int, int]


@dataclass(frozen=True)
class Group:
    """Threads of one threadgroup, all or some that stand for all."""

    position: tuple[Value, ...]
    """Of the threadgroup, along three axes; it may be unknown, as a thread's."""
    threads: Sequence[tuple[Value, Value, Value]]
    """Where each is in the threadgroup."""
    sizes: Sizes
    full_sizes: Sizes
    """Of a threadgroup that is not at an edge."""
    grid: Sizes
    is_open: bool = False
    """The grid may be smaller, so that neither its size is known nor whether this is its edge."""
    is_apart: bool = False
    """How the grid is divided is open, so that threads know their place in it alone, which is as
    if it were one threadgroup, and their lane."""


@dataclass
class Run:
    """What came of a threadgroup."""

    outputs: Mapping[Cell, object]
    """What it left in device memory."""
    waits: frozenset[str]
    """Whether its threads waited: at barriers, or for their simdgroup."""


def run(function: Function, group: Group, decisions: Mapping[Term, bool], steps: int) -> Run:
    """Run a threadgroup.

    Raises:
        UndecidedError: a condition on data decides about waits; ask again with a decision.
        UnprovenError: the result may hang on the threads' order, or is not understood.
    """
    shared, budget = Shared(), Budget(steps)
    threads = [
        Thread(function, Memory(shared), fields, budget, decisions) for fields in _fields(group)
    ]
    driver = _Driver(shared, [_Running(thread, thread.run()) for thread in threads])
    driver.drive()
    shared.check()
    left = {cell: value for cell, value in shared.cells.items() if not is_threadgroup(cell)}
    return Run(left, frozenset(driver.waits))


def _fields(group: Group) -> Iterator[Mapping[int, Value]]:
    """Yield what each thread's attributes are, by their bytes in `kw_thread`."""
    for number, place in enumerate(group.threads):
        words = _places(group, place)
        if not group.is_apart:
            words |= _indices(group, number)
        elif len(group.threads) == SIMDGROUP:
            words[_LANE] = number
        yield {4 * at: word for at, word in words.items()}


def _places(group: Group, place: tuple[Value, Value, Value]) -> dict[int, Value]:
    positions = [
        added(scaled(at, size, 32), here, 32)
        for at, size, here in zip(group.position, group.full_sizes, place, strict=True)
    ]
    if group.is_apart:
        return dict(enumerate(positions))
    known = dict(enumerate((*positions, *place, *group.position)))
    known |= dict(enumerate(group.full_sizes, _FULL_SIZES))
    if not group.is_open:
        known |= dict(enumerate(group.sizes, _FULL_SIZES - 3))
        known |= dict(enumerate(group.grid, _FULL_SIZES + 3))
    return known


def _indices(group: Group, number: int) -> dict[int, Value]:
    count, full = prod(group.sizes), prod(group.full_sizes)
    found: dict[int, Value] = {_LANE + 3: -(-full // SIMDGROUP)}
    if len(group.threads) == count:
        simdgroup, lane = divmod(number, SIMDGROUP)
        found |= {_LANE - 1: number, _LANE: lane, _LANE + 1: simdgroup}
    elif len(group.threads) == SIMDGROUP:
        found[_LANE] = number
    if not group.is_open:
        found[_LANE + 2] = -(-count // SIMDGROUP)
        if len(group.threads) == count:
            found[_LANE + 4] = min(count - number // SIMDGROUP * SIMDGROUP, SIMDGROUP)
    return found


@dataclass
class _Running:
    thread: Thread
    steps: Waits
    wait: Wait | None = None
    has_ended: bool = False

    def advance(self) -> None:
        """Run to the next wait."""
        self.wait = next(self.steps, None)
        self.has_ended = self.wait is None


def _combination(
    kind: str, published: Mapping[int, tuple[tuple[int, int, Value], ...]], lane: int, size: int
) -> Value:
    """Return what a lane gets of what all lanes publish."""
    high = (1 << (8 * size)) - 1
    cells = published[lane]
    if (match := _EXCHANGE.fullmatch(kind)) and len(cells) == 2:
        number = cells[1][2]
        if isinstance(number, int):
            source = _source(match[1], lane, number - (number >> 31 << 32))
            if source in published:
                return published[source][0][2]
            return unknown("absent", lane, low=0, high=high)
    who = () if _SAME_FOR_ALL.fullmatch(kind) else (lane,)
    return unknown("lanes", kind, tuple(published.items()), *who, low=0, high=high)


def _source(rule: str, lane: int, number: int) -> int:
    """Return the lane that one reads, negative for none."""
    if rule == "neighbour":
        return lane + number if 0 <= lane + number < SIMDGROUP else lane
    if not 0 <= number < SIMDGROUP:
        return -1
    return number if rule == "lane" else lane ^ number


@dataclass
class _Driver:
    shared: Shared
    running: list[_Running]
    waits: set[str] = field(default_factory=set)

    def drive(self) -> None:
        """Run all threads to their ends."""
        ready: Sequence[_Running] = self.running
        while ready:
            for one in ready:
                one.advance()
            ready = self._resumed()
        self._publish(lambda cell: True)

    def _resumed(self) -> Sequence[_Running]:
        """Return the threads whose wait is over."""
        living = [one for one in self.running if not one.has_ended]
        if not living:
            return ()
        resumed = list[_Running]()
        for start in range(0, len(self.running), SIMDGROUP):
            resumed += self._combined(self.running[start : start + SIMDGROUP])
        if resumed:
            return resumed
        waits = {one.wait for one in living}
        if len(living) < len(self.running) or len(waits) > 1:
            raise UnprovenError("threads wait at different places.")
        wait = waits.pop()
        assert wait is not None
        self._pass_barrier(wait.detail[0])
        return living

    def _combined(self, simdgroup: Sequence[_Running]) -> Sequence[_Running]:
        """Give each lane its result where all lanes wait for one."""
        lanes = [(lane, one) for lane, one in enumerate(simdgroup) if not one.has_ended]
        places = {(o.wait.kind, o.wait.detail, o.wait.under) for _, o in lanes if o.wait}
        if not lanes or all(kind == "barrier" for kind, *_ in places):
            return ()
        if len(places) > 1:
            raise UnprovenError("lanes wait at different places.")
        self.waits.add("simdgroup")
        ((kind, (_, size, *_), _),) = places
        published = {lane: one.wait.published for lane, one in lanes if one.wait}
        for lane, one in lanes:
            assert one.wait is not None
            assert one.wait.result is not None
            value = _combination(kind, published, lane, size)
            one.thread.memory.write(one.wait.result, size, value)
        return [one for _, one in lanes]

    def _pass_barrier(self, flags: int) -> None:
        self.waits.add("barrier")
        orders = {True: bool(flags & _THREADGROUP), False: bool(flags & _DEVICE)}
        self._publish(lambda cell: orders[is_threadgroup(cell)])

    def _publish(self, is_ordered: Callable[[Cell], bool]) -> None:
        """Let all threads see what each has stored, if that is one thing.

        Raises:
            UnprovenError: two threads stored different values in one cell, or one read what
                another has stored since.
        """
        found: dict[Cell, object] = {}
        writers: dict[Cell, set[int]] = {}
        for number, one in enumerate(self.running):
            for cell, value in one.thread.memory.stores.items():
                if is_own(cell) or not is_ordered(cell):
                    continue
                if found.setdefault(cell, value) != value:
                    raise UnprovenError("threads store different values in one place.")
                writers.setdefault(cell, set()).add(number)
        for number, one in enumerate(self.running):
            memory = one.thread.memory
            for cell in memory.loads & writers.keys():
                is_new = found[cell] != self.shared.value(cell)
                if is_new and writers[cell] != {number}:
                    raise UnprovenError("a thread reads what another stores.")
            memory.loads = {cell for cell in memory.loads if not is_ordered(cell)}
            memory.stores = {
                cell: value
                for cell, value in memory.stores.items()
                if is_own(cell) or not is_ordered(cell)
            }
        self.shared.cells.update(found)
