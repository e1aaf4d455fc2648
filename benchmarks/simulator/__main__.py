"""Print the simulator's figures: `python -m benchmarks.simulator`."""

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulator import compiling, waiting
from benchmarks.simulator.kernels import TEXTS, one_by_one
from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator import compiler
from kernelwright.metal.device.simulator.unit import Prelude
from kernelwright.metal.perf import find_profile, predict

_ROUNDS = 7
_ROWS, _COLUMNS = 4096, 1024
_SIDE = 1024


@dataclass(frozen=True)
class Case:
    """A kernel with its launch, and NumPy's way to the same result."""

    name: str
    buffers: tuple[NDArray[np.float32 | np.float16] | np.uint32, ...]
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    reference: Callable[[], NDArray[np.generic]]
    tolerance: float
    rounds: int = _ROUNDS

    @property
    def threads(self) -> int:
        """Threads of the launch."""
        return int(np.prod(self.grid))


def _cases() -> list[Case]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((_ROWS, _COLUMNS), dtype=np.float32)
    y, sums, n = np.zeros_like(x), np.zeros(_ROWS, np.float32), np.uint32(_COLUMNS)
    a, b = (rng.standard_normal((_SIDE, _SIDE)).astype(np.float16) for _ in range(2))
    c, tiles = np.zeros_like(a), _SIDE // 32

    def softmax() -> NDArray[np.float32]:
        e: NDArray[np.float32] = np.exp(x - x.max(1, keepdims=True))
        e /= e.sum(1, keepdims=True)
        return e

    def gemm() -> NDArray[np.float32]:
        return a.astype(np.float32) @ b.astype(np.float32)

    rows, row = (_ROWS * 256, 1, 1), (256, 1, 1)
    return [
        Case("multiply_add", (x, y), (x.size, 1, 1), row, lambda: x * 3 + 1, 1e-5),
        Case("silu", (x, y), (x.size, 1, 1), row, lambda: x / (1 + np.exp(-x)), 1e-5),
        Case("softmax", (x, y, n), rows, row, softmax, 1e-5),
        Case("row_sum", (x, sums, n), rows, row, lambda: x.sum(1), 1e-3),
        Case("gemm", (a, b, c, np.uint32(_SIDE)), (tiles * 32, tiles, 1), (32, 1, 1), gemm, 0.2, 2),
    ]


@dataclass(frozen=True)
class Cost:
    """The best of several rounds; processor time is what a busy machine does not change."""

    elapsed_s: float
    processor_s: float


def _measure(case: Case) -> dict[str, Cost]:
    """Return the cost of each mode and of NumPy, interleaved."""
    kernel = simulator.compile(TEXTS[case.name]).kernel(case.name)
    scalar = simulator.compile(one_by_one(TEXTS[case.name])).kernel(case.name)
    made = np.asarray(case.buffers[2 if case.name == "gemm" else 1])
    modes = ("plain", "scalar", "sanitize", "fibers", "count")
    costs: dict[str, list[Cost]] = {mode: [] for mode in (*modes, "numpy")}

    def launch(mode: str) -> NDArray[np.generic]:
        # Neither vectors over threads nor over lanes, as in instrumented builds.
        with _never("WIDE", mode == "scalar"), _never("VETTED", mode == "fibers"):
            outcome = (scalar if mode == "scalar" else kernel).launch(
                list(case.buffers),
                grid=case.grid,
                threadgroup=case.threadgroup,
                sanitize=mode in ("sanitize", "fibers"),
                count=mode == "count",
                timeout_s=300,
            )
        if outcome.vetted != (mode == "sanitize"):
            raise AssertionError(f"{case.name}, {mode}: vetted is {outcome.vetted}")
        return made

    for _ in range(case.rounds + 1):
        expected, cost = _timed(case.reference)
        costs["numpy"].append(cost)
        for mode in modes:
            found, cost = _timed(lambda mode=mode: launch(mode))  # type: ignore[misc]
            costs[mode].append(cost)
            np.testing.assert_allclose(
                np.asarray(found, np.float64), np.asarray(expected, np.float64), atol=case.tolerance
            )
    # The first round compiles, touches memory and fills caches.
    return {
        mode: Cost(min(c.elapsed_s for c in some[1:]), min(c.processor_s for c in some[1:]))
        for mode, some in costs.items()
    }


@contextmanager
def _never(build: str, is_asked: bool) -> Iterator[None]:
    """Put the compiler's thresholds of one build out of reach for a while."""
    before = {name: getattr(compiler, name) for name in (f"{build}_THREADS", f"{build}_WAITS")}
    for name, threshold in before.items():
        setattr(compiler, name, sys.maxsize if is_asked else threshold)
    try:
        yield
    finally:
        for name, threshold in before.items():
            setattr(compiler, name, threshold)


def _timed(work: Callable[[], NDArray[np.generic]]) -> tuple[NDArray[np.generic], Cost]:
    start, processor = time.perf_counter(), time.process_time()
    made = work()
    return made, Cost(time.perf_counter() - start, time.process_time() - processor)


def main() -> None:
    """Measure and print one table."""
    print(f"{platform.machine()}, {os.cpu_count()} cores, best of {_ROUNDS} rounds (gemm: 2)\n")
    print(
        "| kernel | threads | ms | CPU ns a thread | one by one | NumPy ms | wall: NumPy "
        "| CPU: NumPy "
        "| sanitize | suspicious | of one by one | count |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for case in _cases():
        cost = _measure(case)
        plain, scalar, numpy = cost["plain"], cost["scalar"], cost["numpy"]
        sanitize, count = cost["sanitize"].processor_s, cost["count"].processor_s
        # What a suspicion costs: the vetting, then fibers.
        suspicious = sanitize + cost["fibers"].processor_s
        print(
            f"| {case.name} | {case.threads} | {plain.elapsed_s * 1e3:.1f} "
            f"| {plain.processor_s / case.threads * 1e9:.1f} "
            f"| {scalar.processor_s / case.threads * 1e9:.1f} | {numpy.elapsed_s * 1e3:.1f} "
            f"| {plain.elapsed_s / numpy.elapsed_s:.1f} "
            f"| {plain.processor_s / numpy.processor_s:.1f} "
            f"| {sanitize / plain.processor_s:.1f}x | {suspicious / plain.processor_s:.1f}x "
            f"| {suspicious / scalar.processor_s:.1f}x | {count / plain.processor_s:.1f}x |",
            flush=True,
        )
    print()
    waiting.main()
    print(f"\n{_prediction()}\n{_compilation()}")


def _prediction() -> str:
    """Predict the kernel whose time on an H200 is known: 75.7 us through MLX 0.32.4."""
    x, bias = np.zeros((8192, 4096), np.float32), np.zeros(4096, np.float32)
    outcome = (
        simulator.compile(TEXTS["bias_gelu"])
        .kernel("bias_gelu")
        .launch(
            [x, bias, np.zeros_like(x), np.uint32(4096)],
            grid=(x.size, 1, 1),
            threadgroup=(256, 1, 1),
            count=True,
        )
    )
    if outcome.counters is None:
        return "not counted"
    return str(predict(outcome.counters, find_profile("h200")))


def _compilation() -> str:
    """Time texts that no cache knows, from the text to a library."""
    preludes: tuple[Prelude, ...] = ("metal", "mlx")
    costs = [
        f"{name} behind {prelude}'s headers {cost.elapsed_s * 1e3:.0f} ms, "
        f"{(cost.own_s + cost.compilers_s) * 1e3:.0f} of processor time"
        for prelude in preludes
        for name in ("multiply_add", "softmax")
        for cost in (compiling.compile_cost(name, prelude, "plain"),)
    ]
    return f"compile and link, the best: {'; '.join(costs)}"


def _load(words: list[str]) -> int:
    """Compare verdicts under load: `load [programs [busy processes]]`."""
    # The evaluator is much to import for the other figures.
    from benchmarks.simulator import load

    return load.main(*map(int, words))


if __name__ == "__main__":
    if sys.argv[1:2] == ["load"]:
        sys.exit(_load(sys.argv[2:]) > 0)
    if sys.argv[1:2] == ["waiting"]:
        waiting.main()
    elif sys.argv[1:2] == ["compile"]:
        compiling.main()
    else:
        main()
