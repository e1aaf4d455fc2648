"""Judges reads of what nothing has set by whether results depend on it.

Launches that differ in nothing else are compared. They run on one core, where threadgroups that
race or append by an atomic counter do so in the same order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from kernelwright.metal.device.simulator.record import OwnVariable
from kernelwright.metal.diagnostic import ReportKind, SanitizerReport

_OTHER_POISONS = (0x7B, 0xFB)
"""Large positive and negative numbers in each of float, half and bfloat."""
UNSET_WORDS = (0x7B7B7B7B, 0xFBFBFBFB, 0xFFFFFFFF)
"""What may stand in place of zeros: of either sign, and no number, in each of float, half and
bfloat; a least of values that are all below zero shows by the second alone."""
_MOST_NAMED_THREADS = 1 << 14
"""Of a larger launch no thread is named: finding one takes a launch for each halving."""


@dataclass(frozen=True)
class Unset:
    """Where what nothing has set holds a word in place of zeros."""

    variables: range
    """Numbers of variables."""
    threads: range
    """Threads of the grid, x first."""
    word: int = UNSET_WORDS[0]


NOTHING_UNSET = Unset(range(0), range(0))


Results = tuple[bytes, ...] | None
"""What a launch on one core leaves; None where it fails, or does far more than the first one."""


def has_ignorable_reads(reports: Sequence[SanitizerReport]) -> bool:
    """Say whether threadgroup memory that nobody wrote is read."""
    return any(r.kind is ReportKind.UNINITIALISED_THREADGROUP_READ for r in reports)


def without_ignored_reads(
    reports: tuple[SanitizerReport, ...], first: Results, replay: Callable[[int, Unset], Results]
) -> tuple[SanitizerReport, ...]:
    """Drop reads of threadgroup memory that nobody wrote where they change no result.

    MLX's scans load a whole simdgroup's worth of partial sums, of which only those that were
    written count; such a read is no mistake. `replay` launches again with another poison.
    """
    if any(first != replay(other, NOTHING_UNSET) for other in _OTHER_POISONS):
        return reports
    kind = ReportKind.UNINITIALISED_THREADGROUP_READ
    return tuple(r for r in reports if r.kind is not kind)


def unset_reads(
    variables: Sequence[OwnVariable],
    grid: tuple[int, int, int],
    first: Results,
    replay: Callable[[Unset], Results],
) -> tuple[SanitizerReport, ...]:
    """Report the variables of threads that change results by what they hold unset."""
    every = range(prod(grid))
    for word in UNSET_WORDS:

        def is_read(numbers: range, threads: range = every, word: int = word) -> bool:
            return first != replay(Unset(numbers, threads, word))

        found = [*_matching(range(len(variables)), is_read)]
        if found:
            return tuple(
                _report(variables[n], _reader(every, partial(is_read, range(n, n + 1)), grid))
                for n in found
            )
    return ()


def _matching(numbers: range, is_read: Callable[[range], bool]) -> Iterator[int]:
    """Yield each number that makes a difference alone; the first of some that do so together."""
    if not is_read(numbers):
        return
    if len(numbers) == 1:
        yield numbers.start
        return
    found = [n for half in _halves(numbers) for n in _matching(half, is_read)]
    yield from found or numbers[:1]


def _halves(numbers: range) -> tuple[range, range]:
    middle = len(numbers) // 2
    return numbers[:middle], numbers[middle:]


def _reader(
    threads: range, is_read: Callable[[range], bool], grid: tuple[int, int, int]
) -> tuple[int, int, int] | None:
    """Return the first thread that makes a difference, if one does so alone."""
    if len(threads) > _MOST_NAMED_THREADS:
        return None
    while len(threads) > 1:
        half = next((h for h in _halves(threads) if is_read(h)), None)
        if half is None:
            return None
        threads = half
    place = threads.start
    return place % grid[0], place // grid[0] % grid[1], place // (grid[0] * grid[1])


def _report(variable: OwnVariable, thread: tuple[int, int, int] | None) -> SanitizerReport:
    reader = "a thread" if thread is None else f"thread {thread}"
    return SanitizerReport(
        kind=ReportKind.UNINITIALISED_VARIABLE_READ,
        message=f"{reader} reads {variable.name}, which nothing has set, and results depend on it",
        file=variable.file,
        line=variable.line,
        column=variable.column,
        variable=variable.name,
        thread=thread,
    )
