"""One launch as the runtime takes it: everything but its buffers, and how it runs once."""

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import prod

from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, Counters, RunOptions
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator import native
from kernelwright.metal.device.simulator.budget import Budget
from kernelwright.metal.device.simulator.build import load_runtime
from kernelwright.metal.device.simulator.bulk import core_count
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
    PARTED,
    PROTECTION,
    STRAY_WRITE,
    TRAP,
    WORK,
    raise_failure,
    stray_write,
)
from kernelwright.metal.device.simulator.launch_limit import (
    MOST_BUFFERS,
    refuse_excess,
    threadgroups,
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
from kernelwright.metal.device.simulator.uninitialised import NOTHING_UNSET, Unset
from kernelwright.metal.diagnostic import LaunchError

EXACT_THREADGROUPS = 512
"""A counting launch of more counts a sample of them."""
SAMPLED_THREADGROUPS = 128
"""At least so many are in the sample."""
_SMALL_THREADS = 1 << 12
_BYTE = ctypes.c_char


@dataclass(frozen=True)
class Clock:
    """What time a launch has left."""

    loan_s: float
    """Of the processors'."""
    deadline: float
    """On the wall."""

    @property
    def endless(self) -> "Clock":
        """The same without an end of processor time."""
        return replace(self, loan_s=math.inf)


class LoanSpentError(Exception):
    """A launch must be counted before it goes on."""


class PartedError(Exception):
    """Lanes that run in loops wait at different places: fibers must run them."""


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
    """Everything of a launch but its buffers; a kernel may launch one again and again."""

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
    options: RunOptions

    @classmethod
    def of(
        cls,
        code: Code,
        *,
        kernel: str,
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        options: RunOptions,
        arguments: Sequence[ThreadgroupArgument] = (),
        variables: Sequence[ThreadgroupVariable] = (),
        unset: Sequence[OwnVariable] = (),
        name_at: Callable[[str, int, int], str] = lambda file, line, column: "",
        uncounted: Code | None = None,
        threadgroup_bytes: int = METAL_THREADGROUP_BYTES,
        fences: bool = False,
    ) -> "Dispatch":
        """Return a launch over `grid` threads, whose threadgroups are no larger than it.

        Sanitizing and counting need a library that was compiled for it. A counting launch runs the
        threadgroups that are not in its sample faster when it is given the plain build as
        `uncounted`. A threadgroup takes `threadgroup_bytes` of memory at most. With `fences`, what
        strays beyond an array that is written harms nothing of the process: for arrays that do not
        lie behind fences already.

        Raises:
            LaunchError: it exceeds a limit of Metal's or of the runtime's.
        """
        size = tuple(min(t, g) for t, g in zip(threadgroup, grid, strict=True))
        refuse_excess(
            kernel,
            grid,
            size,
            needed_bytes=max(code.threadgroup_bytes, sum(a.size for a in arguments)),
            threadgroup_bytes=threadgroup_bytes,
            arguments=len(arguments),
        )
        return cls(
            code=code,
            uncounted=uncounted or code,
            kernel=kernel,
            grid=grid,
            threadgroup=size,
            arguments=arguments,
            variables=variables,
            unset=unset,
            name_at=name_at,
            workers=workers_of(grid, size, options),
            threadgroup_bytes=threadgroup_bytes,
            fences=fences,
            options=options,
        )

    def run(self, buffers: Sequence[Buffer], clock: Clock, unset: Unset = NOTHING_UNSET) -> Outcome:
        """Launch once.

        Raises:
            LoanSpentError: it has spent its processor time; the buffers hold anything.
            PartedError: it must run `on_fibers`; the buffers hold anything unless it is fenced.
        """
        runtime = load_runtime()
        request = self._request(buffers, unset)
        raw = RawReports() if self.options.sanitize else None
        counting = self._counting(request) if self.options.count else None
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
        if outcome.failure == PARTED:
            raise PartedError
        if outcome.failure == STRAY_WRITE:
            raise stray_write(self.kernel, buffers[outcome.address].name)
        reports = () if raw is None else read_reports(raw, self._names(buffers))
        # A stray access that had to be stopped has a report, which says more than an exception.
        if outcome.failure not in (INVALID_ADDRESS, TRAP, PROTECTION) or not reports:
            raise_failure(self.kernel, performed, self.options, self.threadgroup_bytes)
        counters = self._counters(buffers, counting) if counting is not None else None
        return Outcome(
            elapsed_s=outcome.elapsed_s,
            work_s=performed.work_s,
            waits=outcome.waits,
            reports=reports,
            counters=counters,
        )

    def _names(self, buffers: Sequence[Buffer]) -> Names:
        return Names(self.code.library, buffers, self.arguments, self.variables, self.name_at)

    def count(self, code: Code, buffers: Sequence[Buffer], clock: Clock) -> None:
        """Run the build that counts its own work, and refuse what does more than its budget.

        Raises:
            LaunchError: it does, or fails in another way.
            DeviceError: the machine gives it too little time.
        """
        budget = Budget.of(self.options)
        plain = self.options.model_copy(update={"sanitize": False, "count": False})
        metered = replace(self, code=code, uncounted=code, options=plain)
        request = metered._request(buffers)
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
            raise_failure(self.kernel, performed, self.options, self.threadgroup_bytes)

    def vet(self, buffers: Sequence[Buffer], clock: Clock, unset: Unset = NOTHING_UNSET) -> Vetted:
        """Run with each access vetted; the buffers change only when nothing is suspicious."""
        runtime = load_runtime()
        request = self._unsanitized._request(buffers, unset)
        request.vets, request.fences = 1, native.IN_PLACE
        if not request.code.vet:
            return Vetted(is_clean=False)
        performed = native.perform(
            runtime, request, loan_s=clock.loan_s / 2, deadline=clock.deadline
        )
        outcome = performed.outcome
        return Vetted(outcome.failure == 0, outcome.elapsed_s, performed.work_s)

    def _request(
        self, buffers: Sequence[Buffer], unset: Unset = NOTHING_UNSET
    ) -> native.RawRequest:
        request = native.RawRequest.from_buffer_copy(self._without_buffers)
        request.buffers, request.buffer_count = _raw_buffers(buffers), len(buffers)
        request.arguments = self._raw_arguments
        if unset is not NOTHING_UNSET:
            request.unset_first, request.unset_count = unset.variables.start, len(unset.variables)
            request.unset_thread, request.unset_threads = unset.threads.start, len(unset.threads)
            request.unset_word = unset.word
        return request

    @cached_property
    def _unsanitized(self) -> "Dispatch":
        return replace(self, options=self.options.model_copy(update={"sanitize": False}))

    @cached_property
    def _without_buffers(self) -> native.RawRequest:
        """What each request is a copy of; a copy does not keep arguments, so they are not in it."""
        code, options = native.load_code(self.code), self.options
        return native.RawRequest(
            code=code,
            uncounted=code if self.uncounted is self.code else native.load_code(self.uncounted),
            argument_count=len(self.arguments),
            grid=UInt3(*self.grid),
            threadgroup=UInt3(*self.threadgroup),
            workers=self.workers,
            sanitizes=options.sanitize,
            counts=options.count,
            poison=options.poison,
            order_seed=options.order_seed,
            threadgroup_bytes=self.threadgroup_bytes,
            sample=self._sample,
            sample_seed=options.sample_seed,
            fences=native.COPIED if self.is_fenced else native.IN_PLACE,
        )

    @cached_property
    def _raw_arguments(self) -> "ctypes.Array[native.RawArgument]":
        made = (native.RawArgument(a.size, a.itemsize) for a in self.arguments)
        return (native.RawArgument * max(len(self.arguments), 1))(*made)

    @property
    def on_fibers(self) -> "Dispatch":
        """The same launch without lanes in loops."""
        code, uncounted = (replace(c, wide=None) for c in (self.code, self.uncounted))
        return replace(self, code=code, uncounted=code if code == uncounted else uncounted)

    @property
    def is_fenced(self) -> bool:
        """Whether a launch writes copies of the arrays; the sanitizer has its own."""
        return self.fences and not self.options.sanitize

    @property
    def _sample(self) -> int:
        """Of how many threadgroups a counting launch counts one."""
        if not self.options.count or self.options.counts_all:
            return 1
        count = threadgroups(self.grid, self.threadgroup)
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
    return min(core_count(), threadgroups(grid, threadgroup))


def _track_bytes(request: native.RawRequest, memory: int) -> None:
    """Have each byte tracked of a buffer with narrow accesses, or of threadgroup memory."""
    if memory < MOST_BUFFERS:
        request.buffers[memory].itemsize = 1
    else:
        request.tracks_bytes = 1


# A type of arrays is made anew once nobody holds it, which takes as long as the rest of a request.
@cache
def _buffers_of(count: int) -> "type[ctypes.Array[native.RawBuffer]]":
    return native.RawBuffer * count


def _raw_buffers(buffers: Sequence[Buffer]) -> "ctypes.Array[native.RawBuffer]":
    return _buffers_of(max(len(buffers), 1))(
        *(
            native.RawBuffer(
                address_of(b.data),
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


def address_of(array: Array) -> int:
    """Return where an array's memory begins."""
    try:
        # A third of what NumPy's own `ctypes` takes.
        return ctypes.addressof(_BYTE.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        # Read-only, empty or of a type that buffers have no name for.
        return array.ctypes.data
