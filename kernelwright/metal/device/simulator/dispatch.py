"""One launch as the runtime takes it: everything but its buffers, and how it runs once."""

import ctypes
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from operator import index

from kernelwright.metal.device.base import Counters, RunOptions
from kernelwright.metal.device.simulator import native
from kernelwright.metal.device.simulator.budget import Budget
from kernelwright.metal.device.simulator.build import load_runtime
from kernelwright.metal.device.simulator.counters import (
    SITES,
    BlockTally,
    SiteTally,
    Tally,
    read_blocks,
    read_counters,
)
from kernelwright.metal.device.simulator.failure import (
    INVALID_ADDRESS,
    PART,
    PROTECTION,
    STRAY_WRITE,
    TRAP,
    WORK,
    excessive_memory,
    raise_failure,
    stray_write,
)
from kernelwright.metal.device.simulator.record import (
    Buffer,
    Code,
    Outcome,
    OwnVariable,
    ThreadgroupArgument,
    ThreadgroupVariable,
    UInt3,
)
from kernelwright.metal.device.simulator.sanitizer import Names, RawReports, read_reports
from kernelwright.metal.device.simulator.uninitialised import NOTHING_UNSET, UNSET_WORD, Unset
from kernelwright.metal.diagnostic import LaunchError

THREADS_PER_THREADGROUP = 1024
EXACT_THREADGROUPS = 512
"""A counting launch of more counts a sample of them."""
SAMPLED_THREADGROUPS = 128
"""At least so many are in the sample."""
_MOST_BUFFERS, _MOST_ARGUMENTS = 64, 32
_SMALL_THREADS = 1 << 12


@dataclass(frozen=True)
class Clock:
    """What time a launch has left."""

    loan_s: float
    """Of the processors'."""
    deadline: float
    """On the wall."""


class LoanSpentError(Exception):
    """A launch must be counted before it goes on."""


@dataclass(frozen=True)
class Vetted:
    """How a vetted launch went."""

    is_clean: bool
    elapsed_s: float = 0.0
    work_s: float = 0.0


@dataclass(frozen=True)
class _Counting:
    """What a counting launch adds to."""

    tally: Tally
    blocks: "ctypes.Array[BlockTally]"
    sites: "ctypes.Array[SiteTally]"


@dataclass(frozen=True)
class Dispatch:
    """Everything of a launch but its buffers."""

    code: Code
    uncounted: Code
    kernel: str
    grid: tuple[int, int, int]
    threadgroup: tuple[int, ...]
    arguments: Sequence[ThreadgroupArgument]
    variables: Sequence[ThreadgroupVariable]
    unset: Sequence[OwnVariable]
    name_at: Callable[[str, int, int], str]
    """Returns the name that the text has at a file's line and column."""
    workers: int
    threadgroup_bytes: int
    fences: bool
    """Plain launches write copies of the arrays, alone in memory, and leave the caller's as they
    were where they fail."""

    def run(
        self,
        buffers: Sequence[Buffer],
        options: RunOptions,
        clock: Clock,
        unset: Unset = NOTHING_UNSET,
    ) -> Outcome:
        """Launch once."""
        runtime = load_runtime()
        request = self._request(buffers, options, unset)
        raw = RawReports() if options.sanitize else None
        counting = self._counting(request) if options.count else None
        while True:
            if raw is not None:
                request.reports = ctypes.pointer(raw)
            performed = native.perform(
                runtime, request, loan_s=clock.loan_s, deadline=clock.deadline
            )
            if performed.outcome.failure != PART:
                break
            # It left everything as it was.
            _track_bytes(request, performed.outcome.address)
            raw = RawReports()
        if performed.is_spent:
            raise LoanSpentError
        outcome = performed.outcome
        if outcome.failure == STRAY_WRITE:
            raise stray_write(self.kernel, buffers[outcome.address].name)
        names = Names(self.code.library, buffers, self.arguments, self.variables, self.name_at)
        reports = read_reports(raw, names) if raw is not None else ()
        # A stray access that had to be stopped has a report, which says more than an exception.
        if outcome.failure not in (INVALID_ADDRESS, TRAP, PROTECTION) or not reports:
            raise_failure(self.kernel, performed, options, self.threadgroup_bytes)
        counters = self._counters(buffers, counting) if counting is not None else None
        return Outcome(
            elapsed_s=outcome.elapsed_s,
            work_s=performed.work_s,
            waits=outcome.waits,
            reports=reports,
            counters=counters,
        )

    def count(
        self, code: Code, buffers: Sequence[Buffer], options: RunOptions, clock: Clock
    ) -> None:
        """Run the build that counts its own work, and refuse what does more than its budget.

        Raises:
            LaunchError: it does, or fails in another way.
            DeviceError: the machine gives it too little time.
        """
        budget = Budget.of(options)
        plain = options.model_copy(update={"sanitize": False, "count": False})
        request = replace(self, code=code, uncounted=code)._request(buffers, plain)
        request.fences = native.DISCARDED if self.fences else native.IN_PLACE
        request.work_limit, request.group_work_limit = budget.units, budget.group_units
        performed = native.perform(
            load_runtime(), request, loan_s=math.inf, deadline=clock.deadline
        )
        outcome = performed.outcome
        if outcome.failure == WORK or (not outcome.failure and outcome.work > budget.units):
            raise LaunchError(
                f"{self.kernel}: it did not end within its budget, {budget.units:.1e} rounds of "
                f"loops in a launch and {budget.group_units:.1e} in a threadgroup; look for an "
                f"endless loop, or do less in one launch."
            )
        if outcome.failure == native.TIMEOUT:
            raise_failure(self.kernel, performed, options, self.threadgroup_bytes)

    def vet(
        self,
        buffers: Sequence[Buffer],
        options: RunOptions,
        clock: Clock,
        unset: Unset = NOTHING_UNSET,
    ) -> Vetted:
        """Run with each access vetted; the buffers change only when nothing is suspicious."""
        runtime = load_runtime()
        request = self._request(buffers, options.model_copy(update={"sanitize": False}), unset)
        request.vets, request.fences = 1, native.IN_PLACE
        if not request.code.vet:
            return Vetted(is_clean=False)
        performed = native.perform(
            runtime, request, loan_s=clock.loan_s / 2, deadline=clock.deadline
        )
        outcome = performed.outcome
        return Vetted(outcome.failure == 0, outcome.elapsed_s, performed.work_s)

    def _request(
        self, buffers: Sequence[Buffer], options: RunOptions, unset: Unset = NOTHING_UNSET
    ) -> native.RawRequest:
        code = native.load_code(self.code)
        return native.RawRequest(
            code=code,
            uncounted=code if self.uncounted is self.code else native.load_code(self.uncounted),
            buffers=_raw_buffers(buffers),
            arguments=_raw_arguments(self.arguments),
            buffer_count=len(buffers),
            argument_count=len(self.arguments),
            grid=UInt3(*self.grid),
            threadgroup=UInt3(*self.threadgroup),
            workers=self.workers,
            sanitizes=options.sanitize,
            counts=options.count,
            poison=options.poison,
            order_seed=options.order_seed,
            threadgroup_bytes=self.threadgroup_bytes,
            sample=self._sample(options),
            sample_seed=options.sample_seed,
            unset_first=unset.variables.start,
            unset_count=len(unset.variables),
            unset_thread=unset.threads.start,
            unset_threads=len(unset.threads),
            unset_word=UNSET_WORD,
            fences=native.COPIED if self.is_fenced(options) else native.IN_PLACE,
        )

    def is_fenced(self, options: RunOptions) -> bool:
        """Say whether a launch writes copies of the arrays; the sanitizer has its own."""
        return self.fences and not options.sanitize

    def _sample(self, options: RunOptions) -> int:
        """Return of how many threadgroups a counting launch counts one."""
        if not options.count or options.counts_all:
            return 1
        count = _threadgroups(self.grid, self.threadgroup)
        return count // SAMPLED_THREADGROUPS if count > EXACT_THREADGROUPS else 1

    def _counting(self, request: native.RawRequest) -> _Counting:
        """Give a request the tables that it counts in."""
        count = native.count_blocks(load_runtime(), request.code.entry)
        counting = _Counting(Tally(), (BlockTally * count)(), (SiteTally * SITES)())
        request.tally = ctypes.pointer(counting.tally)
        request.blocks, request.block_count = counting.blocks, count
        request.block_records = read_blocks(self.code.library, count)
        request.sites = counting.sites
        return counting

    def _counters(self, buffers: Sequence[Buffer], counting: _Counting) -> Counters:
        return read_counters(
            self.kernel,
            self.code.library,
            self.grid,
            self.threadgroup,
            buffers,
            counting.tally,
            list(counting.blocks),
            list(counting.sites),
        )


def workers_of(
    grid: tuple[int, int, int], threadgroup: tuple[int, ...], options: RunOptions
) -> int:
    """Return how many threads run a launch: one where it is small and its order is drawn.

    Threadgroups then follow each other in that order, so that one that waits for another, which
    Metal does not promise to run beside it, waits forever under some orders.
    """
    if options.order_seed and prod(grid) <= _SMALL_THREADS:
        return 1
    # A core runs whole threadgroups.
    return min(_core_count(), _threadgroups(grid, threadgroup))


def _track_bytes(request: native.RawRequest, memory: int) -> None:
    """Have each byte tracked of a buffer with narrow accesses, or of threadgroup memory."""
    if memory < _MOST_BUFFERS:
        request.buffers[memory].itemsize = 1
    else:
        request.tracks_bytes = 1


@cache
def _core_count() -> int:
    """Return how many cores there are, for which Python reads a file each time."""
    return os.cpu_count() or 1


def _threadgroups(grid: Sequence[int], threadgroup: Sequence[int]) -> int:
    (x, y, z), (width, height, depth) = grid, threadgroup
    return -(-x // width) * -(-y // height) * -(-z // depth)


# A type of arrays is made anew once nobody holds it, which takes as long as the rest of a request.
@cache
def _buffers_of(count: int) -> "type[ctypes.Array[native.RawBuffer]]":
    return native.RawBuffer * count


@cache
def _arguments_of(count: int) -> "type[ctypes.Array[native.RawArgument]]":
    return native.RawArgument * count


def _raw_buffers(buffers: Sequence[Buffer]) -> "ctypes.Array[native.RawBuffer]":
    return _buffers_of(max(len(buffers), 1))(
        *(
            native.RawBuffer(
                b.data.ctypes.data,
                b.data.nbytes,
                b.data.itemsize,
                b.writable,
                b.initialised,
                0 if b.taken is None else b.taken.size,
                None if b.taken is None else b.taken.ctypes.data,
            )
            for b in buffers
        )
    )


def _raw_arguments(
    arguments: Sequence[ThreadgroupArgument],
) -> "ctypes.Array[native.RawArgument]":
    return _arguments_of(max(len(arguments), 1))(
        *(native.RawArgument(a.size, a.itemsize) for a in arguments)
    )


def three_sizes(kernel: str, argument: str, value: Sequence[int]) -> tuple[int, int, int]:
    """Return a size along x, y and z.

    Raises:
        LaunchError: it is none.
    """
    try:
        x, y, z = map(index, value)
        if all(1 <= size < 1 << 32 for size in (x, y, z)):
            return x, y, z
    except (TypeError, ValueError):
        pass
    raise LaunchError(
        f"{kernel}: {argument} is expected to be three integers of 1 to 2^32 - 1, found {value!r}; "
        f"pass (x, y, z), with 1 along an axis that is not used."
    )


def threadgroup_size(kernel: str, value: Sequence[int]) -> tuple[int, int, int]:
    """Return a threadgroup's size, which the limit counts whole even where the grid is smaller.

    Raises:
        LaunchError: it is none, or has too many threads.
    """
    size = three_sizes(kernel, "threadgroup", value)
    if (count := prod(size)) > THREADS_PER_THREADGROUP:
        raise LaunchError(
            f"{kernel}: a threadgroup has at most {THREADS_PER_THREADGROUP} threads, found {count}"
            f"; lower the threadgroup size."
        )
    return size


def check(dispatch: Dispatch, buffers: Sequence[Buffer]) -> None:
    """Refuse a launch that exceeds a limit of Metal's or of the runtime's.

    Raises:
        LaunchError: it does, or a buffer's array cannot be used in place.
    """
    kernel, grid, threadgroup = dispatch.kernel, dispatch.grid, dispatch.threadgroup
    if min(*grid, *threadgroup) < 1 or max(*grid, *threadgroup) >= 1 << 32:
        raise LaunchError(
            f"{kernel}: a grid or threadgroup has sizes of 1 to 2^32 - 1, found {grid} and "
            f"{threadgroup}."
        )
    threadgroup_size(kernel, threadgroup)
    needed = max(dispatch.code.threadgroup_bytes, sum(a.size for a in dispatch.arguments))
    if needed > dispatch.threadgroup_bytes:
        raise excessive_memory(kernel, needed, dispatch.threadgroup_bytes)
    if _threadgroups(grid, threadgroup) >= 1 << 32:
        raise LaunchError(
            f"{kernel}: the simulator runs fewer than 2^32 threadgroups; lower the grid."
        )
    if len(buffers) > _MOST_BUFFERS or len(dispatch.arguments) > _MOST_ARGUMENTS:
        raise LaunchError(
            f"{kernel}: a launch has at most {_MOST_BUFFERS} buffers and {_MOST_ARGUMENTS} "
            f"threadgroup arguments, found {len(buffers)} and {len(dispatch.arguments)}."
        )
    for buffer in buffers:
        if not buffer.data.flags.c_contiguous or (
            buffer.writable and not buffer.data.flags.writeable
        ):
            raise LaunchError(
                f"{kernel}: buffer {buffer.name} is not a contiguous array that can be written; "
                f"pass a copy."
            )
