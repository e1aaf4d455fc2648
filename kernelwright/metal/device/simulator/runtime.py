"""Runs a compiled kernel: one fiber per GPU thread, threadgroups over all cores."""

import ctypes
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import prod

import numpy as np

from kernelwright.errors import DeviceError
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, Counters, RunOptions
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator import native
from kernelwright.metal.device.simulator.budget import Budget
from kernelwright.metal.device.simulator.build import load_runtime
from kernelwright.metal.device.simulator.counters import (
    SITES,
    BlockTally,
    SiteTally,
    Tally,
    block_work,
    read_counters,
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
from kernelwright.metal.device.simulator.uninitialised import (
    NOTHING_UNSET,
    UNSET_WORD,
    Unset,
    has_ignorable_reads,
    unset_reads,
    without_ignored_reads,
)
from kernelwright.metal.diagnostic import LaunchError

THREADS_PER_THREADGROUP = 1024
EXACT_THREADGROUPS = 512
"""A counting launch of more counts a sample of them."""
SAMPLED_THREADGROUPS = 128
"""At least so many are in the sample."""
_MOST_BUFFERS, _MOST_ARGUMENTS = 64, 32
_SMALL_THREADS = 1 << 12
_MOST_REPLAYED, _REPLAY_S = 10, 0.1
"""What a repeated launch may do of the first one's work, and seconds of processor time more: with
another number in a variable a loop may not end."""


def launch(
    code: Code,
    buffers: Sequence[Buffer],
    *,
    kernel: str,
    grid: tuple[int, int, int],
    threadgroup: tuple[int, int, int],
    metered: Callable[[], Code],
    threadgroup_arguments: Sequence[ThreadgroupArgument] = (),
    threadgroup_variables: Sequence[ThreadgroupVariable] = (),
    unset: Sequence[OwnVariable] = (),
    name_at: Callable[[str, int, int], str] = lambda file, line, column: "",
    threads: int | None = None,
    uncounted: Code | None = None,
    threadgroup_bytes: int = METAL_THREADGROUP_BYTES,
    options: RunOptions = RunOptions(),  # noqa: B008 (a frozen record)
) -> Outcome:
    """Run an entry of a compiled library over `grid` threads, on `threads` cores.

    The entry's i-th argument is `buffers[i]`; the threadgroup arguments follow. Sanitizing and
    counting need a library that was compiled for it; `metered` gives the build that counts its own
    work, which a launch that takes long is judged by. A counting launch runs the threadgroups that
    are not in its sample faster when it is given the plain build as `uncounted`. A threadgroup
    takes `threadgroup_bytes` of memory at most.

    Raises:
        LaunchError: the launch exceeds a limit, does more than its budget allows, overflows a
            stack or touches memory that is not its own.
        DeviceError: the runtime cannot be built, the library not loaded, or the machine gives the
            launch too little time.
    """
    size = tuple(min(t, g) for t, g in zip(threadgroup, grid, strict=True))
    dispatch = _Dispatch(
        code=code,
        uncounted=uncounted or code,
        kernel=kernel,
        grid=grid,
        threadgroup=size,
        arguments=threadgroup_arguments,
        variables=threadgroup_variables,
        unset=unset,
        name_at=name_at,
        workers=threads or _workers(grid, size, options),
        threadgroup_bytes=threadgroup_bytes,
    )
    _check(dispatch, buffers)
    budget = Budget.of(options)
    clock = _Clock(budget.loan_s, time.monotonic() + budget.patience_s)
    if options.sanitize and code.vet is not None:
        vetted = _vetted(dispatch, buffers, options, clock)
        if vetted.is_clean:
            return Outcome(elapsed_s=vetted.elapsed_s, work_s=vetted.work_s, vetted=True)
        outcome = _counted_if_long(dispatch, buffers, options, clock, metered)
        return replace(
            outcome,
            elapsed_s=outcome.elapsed_s + vetted.elapsed_s,
            work_s=outcome.work_s + vetted.work_s,
        )
    return _counted_if_long(dispatch, buffers, options, clock, metered)


def _counted_if_long(
    dispatch: "_Dispatch",
    buffers: Sequence[Buffer],
    options: RunOptions,
    clock: "_Clock",
    metered: Callable[[], Code],
) -> Outcome:
    """Run on the loan; count what does not end within it, then let it run to its end."""
    if options.forced:
        # The build that counts forces nothing, and a loop whose end is forced away has none.
        try:
            return _sanitized(dispatch, buffers, options, replace(clock, loan_s=options.timeout_s))
        except _LoanSpentError:
            raise LaunchError(
                f"{dispatch.kernel}: with a condition forced it did not end in "
                f"{options.timeout_s:g} s of processor time."
            ) from None
    before = [b.data.copy() if b.writable and _is_kept(b, options) else None for b in buffers]
    try:
        return _sanitized(dispatch, buffers, options, clock)
    except _LoanSpentError:
        dispatch.count(metered(), _restored(buffers, before, options), options, clock)
        endless = replace(clock, loan_s=math.inf)
        return _sanitized(dispatch, _restored(buffers, before, options), options, endless)


def _is_kept(buffer: Buffer, options: RunOptions) -> bool:
    """Say whether a second run needs what an output holds; a fresh one holds one byte alone."""
    return buffer.initialised or options.sanitize


def _restored(
    buffers: Sequence[Buffer], before: Sequence[Array | None], options: RunOptions
) -> Sequence[Buffer]:
    """Make outputs again what they were."""
    for buffer, was in zip(buffers, before, strict=True):
        if was is not None:
            np.copyto(buffer.data, was)
        elif buffer.writable:
            buffer.data.view(np.uint8)[...] = options.poison
    return buffers


@dataclass(frozen=True)
class _Clock:
    """What time a launch has left."""

    loan_s: float
    """Of the processors'."""
    deadline: float
    """On the wall."""


class _LoanSpentError(Exception):
    """A launch must be counted before it goes on."""


def _sanitized(
    dispatch: "_Dispatch", buffers: Sequence[Buffer], options: RunOptions, clock: _Clock
) -> Outcome:
    has_memory = bool(dispatch.arguments or dispatch.variables)
    if not options.sanitize or not (has_memory or dispatch.unset):
        return dispatch.run(buffers, options, clock)
    before = [_copy(b) for b in buffers]
    serial = replace(dispatch, workers=1)
    if dispatch.unset:
        # Its results are compared below.
        dispatch = serial
    outcome = dispatch.run(buffers, options, clock)
    limited = replace(clock, loan_s=outcome.work_s * _MOST_REPLAYED + _REPLAY_S)

    def replay(poison: int, unset: Unset) -> tuple[bytes, ...] | None:
        again = [_copy(b) for b in before]
        changed = options.model_copy(update={"poison": poison})
        try:
            serial.run(again, changed, limited, unset)
        except (LaunchError, _LoanSpentError):
            return None
        return _results(again)

    reports = outcome.reports
    if has_ignorable_reads(reports):
        is_serial = dispatch.workers == 1
        first = _results(buffers) if is_serial else replay(options.poison, NOTHING_UNSET)
        reports = without_ignored_reads(reports, first, replay)
    if dispatch.unset:
        poisoned = partial(replay, options.poison)
        reports += unset_reads(dispatch.unset, dispatch.grid, _results(buffers), poisoned)
    return replace(outcome, reports=reports)


def _results(buffers: Sequence[Buffer]) -> tuple[bytes, ...]:
    return tuple(b.data.tobytes() for b in buffers if b.writable)


def _vetted(
    dispatch: "_Dispatch", buffers: Sequence[Buffer], options: RunOptions, clock: _Clock
) -> "_Vetted":
    """Vet a launch, and again where its results may hang on what nothing has set."""
    if not dispatch.code.vet_reads_unset:
        return dispatch.vet(buffers, options, clock)
    again = [_copy(b) for b in buffers]
    unset = Unset(range(len(dispatch.unset)), range(prod(dispatch.grid)))
    second = dispatch.vet(again, options, clock, unset)
    if not second.is_clean:
        return second
    before = [_copy(b) for b in buffers]
    first = dispatch.vet(buffers, options, clock)
    pairs = zip(buffers, again, before, strict=True)
    if first.is_clean and any(b.data.tobytes() != a.data.tobytes() for b, a, _ in pairs):
        for buffer, was in zip(buffers, before, strict=True):
            if buffer.writable:
                np.copyto(buffer.data, was.data)
        first = replace(first, is_clean=False)
    return replace(
        first,
        elapsed_s=first.elapsed_s + second.elapsed_s,
        work_s=first.work_s + second.work_s,
    )


@dataclass(frozen=True)
class _Vetted:
    """How a vetted launch went."""

    is_clean: bool
    elapsed_s: float = 0.0
    work_s: float = 0.0


def _workers(grid: tuple[int, int, int], threadgroup: tuple[int, ...], options: RunOptions) -> int:
    """Return how many threads run a launch: one where it is small and its order is drawn.

    Threadgroups then follow each other in that order, so that one that waits for another, which
    Metal does not promise to run beside it, waits forever under some orders.
    """
    if options.order_seed and prod(grid) <= _SMALL_THREADS:
        return 1
    # A core runs whole threadgroups.
    return min(_core_count(), _threadgroups(grid, threadgroup))


@cache
def _core_count() -> int:
    """Return how many cores there are, for which Python reads a file each time."""
    return os.cpu_count() or 1


@dataclass(frozen=True)
class _Dispatch:
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

    def run(
        self,
        buffers: Sequence[Buffer],
        options: RunOptions,
        clock: _Clock,
        unset: Unset = NOTHING_UNSET,
    ) -> Outcome:
        """Launch once."""
        runtime = load_runtime()
        request = self._request(buffers, options, unset)
        raw = RawReports() if options.sanitize else None
        if raw is not None:
            request.reports = ctypes.pointer(raw)
        tally, blocks, sites = Tally(), (BlockTally * 0)(), (SiteTally * SITES)()
        if options.count:
            blocks = (BlockTally * native.count_blocks(runtime, request.code.entry))()
            request.tally = ctypes.pointer(tally)
            request.blocks, request.block_count = blocks, len(blocks)
            request.block_work = block_work(self.code.library, len(blocks))
            request.sites = sites
        performed = native.perform(runtime, request, loan_s=clock.loan_s, deadline=clock.deadline)
        if performed.is_spent:
            raise _LoanSpentError
        outcome = performed.outcome
        names = Names(self.code.library, buffers, self.arguments, self.variables, self.name_at)
        reports = read_reports(raw, names) if raw is not None else ()
        # A stray access that had to be stopped has a report, which says more than an exception.
        if outcome.failure not in (_INVALID_ADDRESS, _TRAP, _PROTECTION) or not reports:
            _raise_failure(self.kernel, performed, options, self.threadgroup_bytes)
        counters = (
            self._counters(buffers, tally, list(blocks), list(sites)) if options.count else None
        )
        return Outcome(
            elapsed_s=outcome.elapsed_s,
            work_s=performed.work_s,
            waits=outcome.waits,
            reports=reports,
            counters=counters,
        )

    def count(
        self, code: Code, buffers: Sequence[Buffer], options: RunOptions, clock: _Clock
    ) -> None:
        """Run the build that counts its own work, and refuse what does more than its budget.

        Raises:
            LaunchError: it does, or fails in another way.
            DeviceError: the machine gives it too little time.
        """
        budget = Budget.of(options)
        plain = options.model_copy(update={"sanitize": False, "count": False})
        request = replace(self, code=code, uncounted=code)._request(buffers, plain)
        request.work_limit, request.group_work_limit = budget.units, budget.group_units
        performed = native.perform(
            load_runtime(), request, loan_s=math.inf, deadline=clock.deadline
        )
        outcome = performed.outcome
        if outcome.failure == _WORK or (not outcome.failure and outcome.work > budget.units):
            raise LaunchError(
                f"{self.kernel}: it did not end within its budget, {budget.units:.1e} rounds of "
                f"loops in a launch and {budget.group_units:.1e} in a threadgroup; look for an "
                f"endless loop, or do less in one launch."
            )
        if outcome.failure == native.TIMEOUT:
            _raise_failure(self.kernel, performed, options, self.threadgroup_bytes)

    def vet(
        self,
        buffers: Sequence[Buffer],
        options: RunOptions,
        clock: _Clock,
        unset: Unset = NOTHING_UNSET,
    ) -> "_Vetted":
        """Run with each access vetted; the buffers change only when nothing is suspicious."""
        runtime = load_runtime()
        request = self._request(buffers, options.model_copy(update={"sanitize": False}), unset)
        request.vets = 1
        if not request.code.vet:
            return _Vetted(is_clean=False)
        performed = native.perform(
            runtime, request, loan_s=clock.loan_s / 2, deadline=clock.deadline
        )
        outcome = performed.outcome
        return _Vetted(outcome.failure == 0, outcome.elapsed_s, performed.work_s)

    def _request(
        self, buffers: Sequence[Buffer], options: RunOptions, unset: Unset = NOTHING_UNSET
    ) -> native.RawRequest:
        return native.RawRequest(
            code=native.load_code(self.code),
            uncounted=native.load_code(self.uncounted),
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
        )

    def _sample(self, options: RunOptions) -> int:
        """Return of how many threadgroups a counting launch counts one."""
        count = _threadgroups(self.grid, self.threadgroup)
        if options.counts_all or count <= EXACT_THREADGROUPS:
            return 1
        return count // SAMPLED_THREADGROUPS

    def _counters(
        self,
        buffers: Sequence[Buffer],
        tally: Tally,
        blocks: Sequence[BlockTally],
        sites: Sequence[SiteTally],
    ) -> Counters:
        return read_counters(
            self.kernel,
            self.code.library,
            self.grid,
            self.threadgroup,
            buffers,
            tally,
            blocks,
            sites,
        )


def _threadgroups(grid: Sequence[int], threadgroup: Sequence[int]) -> int:
    return prod(-(-g // t) for g, t in zip(grid, threadgroup, strict=True))


def _copy(buffer: Buffer) -> Buffer:
    return replace(buffer, data=buffer.data.copy()) if buffer.writable else buffer


def _check(dispatch: _Dispatch, buffers: Sequence[Buffer]) -> None:
    kernel, grid, threadgroup = dispatch.kernel, dispatch.grid, dispatch.threadgroup
    if min(*grid, *threadgroup) < 1 or max(*grid, *threadgroup) >= 1 << 32:
        raise LaunchError(
            f"{kernel}: a grid or threadgroup has sizes of 1 to 2^32 - 1, found {grid} and "
            f"{threadgroup}."
        )
    if (count := prod(threadgroup)) > THREADS_PER_THREADGROUP:
        raise LaunchError(
            f"{kernel}: a threadgroup has at most {THREADS_PER_THREADGROUP} threads, found {count}"
            f"; lower the threadgroup size."
        )
    if (needed := dispatch.code.threadgroup_bytes) > dispatch.threadgroup_bytes:
        cause = _FAILURES[_MEMORY].format(address=needed, limit=dispatch.threadgroup_bytes)
        raise LaunchError(f"{kernel}: {cause}.")
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


def _raw_buffers(buffers: Sequence[Buffer]) -> "ctypes.Array[native.RawBuffer]":
    return (native.RawBuffer * max(len(buffers), 1))(
        *(
            native.RawBuffer(
                b.data.ctypes.data, b.data.nbytes, b.data.itemsize, b.writable, b.initialised
            )
            for b in buffers
        )
    )


def _raw_arguments(
    arguments: Sequence[ThreadgroupArgument],
) -> "ctypes.Array[native.RawArgument]":
    return (native.RawArgument * max(len(arguments), 1))(
        *(native.RawArgument(a.size, a.itemsize) for a in arguments)
    )


_MEMORY = 5
_INVALID_ADDRESS, _TRAP, _NO_MEMORY, _PROTECTION, _WORK = 3, 4, 6, 7, 9
_FAILURES = {
    2: "a thread overflowed its stack of 64 KB; use smaller thread arrays",
    3: "a thread accessed memory of no buffer (address {address:#x}); sanitize it to see where",
    4: "a thread reached code that must not run (a trap); sanitize it to see why",
    7: "a thread used a misaligned vector or an impossible address; sanitize it to see where",
    5: "its threadgroup memory needs {address} bytes, this device has {limit}; use less",
}


def _raise_failure(
    kernel: str, performed: native.Performed, options: RunOptions, threadgroup_bytes: int
) -> None:
    outcome = performed.outcome
    if outcome.failure == 0:
        return
    if outcome.failure == native.TIMEOUT:
        raise DeviceError(
            f"{kernel}: it got {performed.work_s:.1f} s of processor time in "
            f"{Budget.of(options).patience_s:g} s, too little for a verdict; try again when the "
            f"machine is less busy."
        )
    if outcome.failure == _NO_MEMORY:
        raise DeviceError("the simulator has no memory or threads left for a launch.")
    thread = (outcome.thread.x, outcome.thread.y, outcome.thread.z)
    cause = _FAILURES[outcome.failure].format(address=outcome.address, limit=threadgroup_bytes)
    raise LaunchError(f"{kernel}: {cause} (thread {thread}).")
