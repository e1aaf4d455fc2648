"""Small launches that wait often, on fibers and as they run once they have waited often enough."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulator import waiting_kernels
from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator import compiler
from kernelwright.metal.device.simulator.library import SimulatedKernel
from kernelwright.metal.device.simulator.record import Outcome

_ROUNDS, _ROUND_S = 25, 0.01
"""The best of so many rounds counts, each of as many launches as take so long."""
_GROUPS, _KEYS, _LENGTH, _ROWS = 16, 4096, 512, 64
_FAST_LIMITS = {"WIDE_THREADS": 1, "VETTED_THREADS": 1}
_FIBER_LIMITS = dict.fromkeys(
    ("WIDE_THREADS", "VETTED_THREADS", "WIDE_WAITS", "VETTED_WAITS"), sys.maxsize
)


@dataclass(frozen=True)
class Case:
    """A kernel with its launch; the array `output` must be close to `expected` afterwards."""

    name: str
    text: str
    buffers: tuple[NDArray[np.generic] | np.uint32, ...]
    output: int
    expected: NDArray[np.generic]
    threads: int
    threadgroup: int


def cases() -> list[Case]:
    """Return sorts, a scan and attention."""
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 2**32, (_GROUPS, _KEYS), dtype=np.uint32)
    x = rng.standard_normal((_GROUPS, 1024)).astype(np.float32)
    q, k, v = (rng.standard_normal((n, 64)).astype(np.float32) for n in (_ROWS, _LENGTH, _LENGTH))
    weights = np.exp(q.astype(np.float64) @ k.T / 8)
    attended = (weights / weights.sum(1, keepdims=True)) @ v
    ordered = np.sort(keys, axis=1)
    return [
        Case(
            "bitonic sort, 16 x 4096 keys", waiting_kernels.BITONIC_SORT,
            (keys, np.zeros_like(keys)), 1, ordered, _GROUPS * 1024, 1024,
        ),
        Case(
            "radix sort, 16 x 4096 keys", waiting_kernels.RADIX_SORT,
            (keys, np.zeros_like(keys)), 1, ordered, _GROUPS * 256, 256,
        ),
        Case(
            "scan, 16 x 256 threads", waiting_kernels.SCAN,
            (x, np.zeros_like(x)), 1, np.cumsum(x, 1), _GROUPS * 256, 256,
        ),
        Case(
            "flash attention, 64 rows x 512 keys", waiting_kernels.ATTENTION,
            (q, k, v, np.zeros_like(q), np.uint32(_LENGTH)), 3, attended, _ROWS * 32, 32,
        ),
    ]  # fmt: skip


def main() -> None:
    """Print processor time of each, side by side."""
    print("| kernel | plain, fibers | lanes in loops | | sanitized, fibers | vetted | |")
    print("|---|---|---|---|---|---|---|")
    for case in cases():
        fibers, lanes, sanitized, vetted = _measure(case)
        print(
            f"| {case.name} | {fibers * 1e3:.2f} ms | {lanes * 1e3:.2f} ms | {fibers / lanes:.1f}x "
            f"| {sanitized * 1e3:.2f} ms | {vetted * 1e3:.2f} ms | {sanitized / vetted:.1f}x |",
            flush=True,
        )


def _measure(case: Case) -> list[float]:
    """Return the best of each mode's rounds; these take turns, so that all are disturbed alike."""
    kernel = simulator.compile(case.text).kernel(next(iter(simulator.compile(case.text).kernels)))
    modes = [(s, limits) for s in (False, True) for limits in (_FIBER_LIMITS, _FAST_LIMITS)]
    rounds = [_rounds(case, kernel, sanitize, limits) for sanitize, limits in modes]
    return [min(seconds) for seconds in zip(*(zip(*rounds, strict=True)), strict=True)]


def _rounds(
    case: Case, kernel: SimulatedKernel, sanitize: bool, limits: dict[str, int]
) -> Iterator[float]:
    def launch() -> Outcome:
        return kernel.launch(
            list(case.buffers),
            grid=(case.threads, 1, 1),
            threadgroup=(case.threadgroup, 1, 1),
            sanitize=sanitize,
            timeout_s=300,
        )

    with _limits(limits):
        launch()
        count = math.ceil(_ROUND_S / _timed(launch, 1)[0])
    for _ in range(_ROUNDS):
        with _limits(limits):
            seconds, outcome = _timed(launch, count)
        if outcome.reports or outcome.vetted != (sanitize and limits is _FAST_LIMITS):
            raise AssertionError(f"{case.name}: {outcome}")
        found = np.asarray(case.buffers[case.output], np.float64)
        np.testing.assert_allclose(found, np.asarray(case.expected, np.float64), atol=1e-3)
        yield seconds


@contextmanager
def _limits(limits: dict[str, int]) -> Iterator[None]:
    """Choose the builds by hand for a while."""
    before = {name: getattr(compiler, name) for name in limits}
    try:
        for name, value in limits.items():
            setattr(compiler, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(compiler, name, value)


def _timed(work: Callable[[], Outcome], count: int) -> tuple[float, Outcome]:
    """Return the processor time of one of `count` runs, and what the last one returned."""
    start = time.process_time()
    for _ in range(count):
        outcome = work()
    return (time.process_time() - start) / count, outcome
