"""Runs a compiled kernel: vetted, sanitized or counted, on the time that it is lent."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from kernelwright.metal.device.base import RunOptions
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.budget import Budget
from kernelwright.metal.device.simulator.dispatch import (
    Clock,
    Dispatch,
    LoanSpentError,
    PartedError,
    Vetted,
)
from kernelwright.metal.device.simulator.launch_limit import refuse_buffers
from kernelwright.metal.device.simulator.record import Buffer, Code, Outcome
from kernelwright.metal.device.simulator.uninitialised import (
    NOTHING_UNSET,
    UNSET_WORDS,
    Unset,
    has_ignorable_reads,
    unset_reads,
    without_ignored_reads,
)
from kernelwright.metal.diagnostic import LaunchError

_MOST_REPLAYED, _REPLAY_S = 10, 0.1
"""What a repeated launch may do of the first one's work, and seconds of processor time more: with
another number in a variable a loop may not end."""


def launch(
    dispatch: Dispatch, buffers: Sequence[Buffer], *, metered: Callable[[], Code]
) -> Outcome:
    """Run an entry of a compiled library.

    The entry's i-th argument is `buffers[i]`; the threadgroup arguments follow. `metered` gives the
    build that counts its own work, which a launch that takes long is judged by.

    Raises:
        LaunchError: a buffer cannot be used, or the launch does more than its budget allows,
            overflows a stack or touches memory that is not its own.
        DeviceError: the runtime cannot be built, the library not loaded, or the machine gives the
            launch too little time.
    """
    refuse_buffers(dispatch.kernel, buffers)
    budget = Budget.of(dispatch.options)
    clock = Clock(budget.loan_s, time.monotonic() + budget.patience_s)
    if dispatch.options.sanitize and dispatch.code.vet is not None:
        vetted = _vetted(dispatch, buffers, clock)
        if vetted.is_clean:
            return Outcome(elapsed_s=vetted.elapsed_s, work_s=vetted.work_s, vetted=True)
        outcome = _counted_if_long(dispatch, buffers, clock, metered)
        return replace(
            outcome,
            elapsed_s=outcome.elapsed_s + vetted.elapsed_s,
            work_s=outcome.work_s + vetted.work_s,
        )
    return _counted_if_long(dispatch, buffers, clock, metered)


def _counted_if_long(
    dispatch: Dispatch,
    buffers: Sequence[Buffer],
    clock: Clock,
    metered: Callable[[], Code],
) -> Outcome:
    """Run on the loan; count what does not end within it, then let it run to its end."""
    options = dispatch.options
    if options.forced:
        # The build that counts forces nothing, and a loop whose end is forced away has none.
        try:
            return _sanitized(dispatch, buffers, replace(clock, loan_s=options.timeout_s))
        except LoanSpentError:
            raise LaunchError(
                f"{dispatch.kernel}: with a condition forced it did not end in "
                f"{options.timeout_s:g} s of processor time."
            ) from None
    is_fenced = dispatch.is_fenced
    kept = (b.writable and _is_kept(b, options) and not is_fenced for b in buffers)
    before = [b.data.copy() if k else None for b, k in zip(buffers, kept, strict=True)]

    def restored() -> Sequence[Buffer]:
        # What fails behind fences has changed nothing.
        return buffers if is_fenced else _restored(buffers, before, options)

    try:
        return _sanitized(dispatch, buffers, clock)
    except PartedError:
        fibers = dispatch.on_fibers
        return replace(_counted_if_long(fibers, restored(), clock, metered), parted=True)
    except LoanSpentError:
        dispatch.count(metered(), restored(), clock)
    try:
        return _sanitized(dispatch, restored(), clock.endless)
    except PartedError:
        return replace(_sanitized(dispatch.on_fibers, restored(), clock.endless), parted=True)


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


def _sanitized(dispatch: Dispatch, buffers: Sequence[Buffer], clock: Clock) -> Outcome:
    options = dispatch.options
    has_memory = bool(dispatch.arguments or dispatch.variables)
    if not options.sanitize or not (has_memory or dispatch.unset):
        return dispatch.run(buffers, clock)
    before = [_copy(b) for b in buffers]
    serial = replace(dispatch, workers=1)
    if dispatch.unset:
        # Its results are compared below.
        dispatch = serial
    outcome = dispatch.run(buffers, clock)
    limited = replace(clock, loan_s=outcome.work_s * _MOST_REPLAYED + _REPLAY_S)

    def replay(poison: int, unset: Unset) -> tuple[bytes, ...] | None:
        again = [_copy(b) for b in before]
        changed = options.model_copy(update={"poison": poison})
        try:
            replace(serial, options=changed).run(again, limited, unset)
        except (LaunchError, LoanSpentError):
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
    return tuple(b.members for b in buffers if b.writable)


def _vetted(dispatch: Dispatch, buffers: Sequence[Buffer], clock: Clock) -> Vetted:
    """Vet a launch, and again where its results may hang on what nothing has set."""
    if not dispatch.code.vet_reads_unset:
        return dispatch.vet(buffers, clock)
    variables, threads = range(len(dispatch.unset)), range(prod(dispatch.grid))
    before, others = [_copy(b) for b in buffers], list[tuple[bytes, ...]]()
    elapsed_s = work_s = 0.0
    for word in UNSET_WORDS:
        again = [_copy(b) for b in buffers]
        other = dispatch.vet(again, clock, Unset(variables, threads, word))
        elapsed_s, work_s = elapsed_s + other.elapsed_s, work_s + other.work_s
        if not other.is_clean:
            return replace(other, elapsed_s=elapsed_s, work_s=work_s)
        others.append(_results(again))
    first = dispatch.vet(buffers, clock)
    if first.is_clean and any(other != _results(buffers) for other in others):
        for buffer, was in zip(buffers, before, strict=True):
            if buffer.writable:
                np.copyto(buffer.data, was.data)
        first = replace(first, is_clean=False)
    return replace(first, elapsed_s=first.elapsed_s + elapsed_s, work_s=first.work_s + work_s)


def _copy(buffer: Buffer) -> Buffer:
    return replace(buffer, data=buffer.data.copy()) if buffer.writable else buffer
