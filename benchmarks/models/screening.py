"""What a region's schedules take, each checked against MLX once: what a search could reach."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import mlx.core as mx
import numpy as np

from benchmarks.models.check import Check
from benchmarks.suite.drawing import random_inputs
from benchmarks.suite.result import ScheduleResult
from kernelwright import ir
from kernelwright.errors import KernelwrightError
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.executable import Device
from kernelwright.metal.device.execution import MlxExecutable
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Schedule

_SCREEN_SAMPLES = 5
_SCREEN_LAUNCHES = 16
_ROTATION_BYTES, _MOST_COPIES = 256 << 20, 8
"""Inputs take turns over more bytes than any last-level cache holds."""


def choose_schedule(
    graph: Graph, number: int, device: Device, most_schedules: int
) -> tuple[MlxExecutable | None, list[ScheduleResult]]:
    """Return a region's fastest kernel that agrees with MLX, and what came of each schedule."""
    operation = ir.operation(graph)
    try:
        wanted = schedules(graph, device.info)[:most_schedules]
    except KernelwrightError as e:
        failed = ScheduleResult(region=number, operation=operation, schedule="", problem=str(e))
        return None, [failed]
    nbytes = max(sum(t.nbytes for t in graph.input_types), 1)
    rotating = [
        random_inputs(graph, 100 * copy)
        for copy in range(min(max(_ROTATION_BYTES // nbytes, 1), _MOST_COPIES))
    ]
    inputs = rotating[0]
    expected = ir.interpret(graph, *inputs)
    mx.eval(rotating, expected)
    with ThreadPoolExecutor() as pool:
        built = list(pool.map(lambda s: _build(graph, s, device), wanted))
    check = Check(graph, inputs, expected)
    results, best, best_us = [], None, float("inf")
    for schedule, executable in zip(wanted, built, strict=True):
        row = ScheduleResult(region=number, operation=operation, schedule=str(schedule))
        if isinstance(executable, str):
            results.append(row.model_copy(update={"problem": executable}))
            continue
        problem = _load(executable) or check.problem(executable)
        if problem:
            results.append(row.model_copy(update={"problem": problem}))
            continue
        measured_us = _screen(executable, rotating)
        results.append(row.model_copy(update={"measured_us": measured_us}))
        if measured_us < best_us:
            best, best_us = executable, measured_us
    return best, [
        r.model_copy(update={"is_chosen": r.measured_us == best_us}) if not r.problem else r
        for r in results
    ]


def _build(graph: Graph, schedule: Schedule, device: Device) -> MlxExecutable | str:
    try:
        executable = device.compile(lower(graph, schedule).bind(graph.input_types))
    except KernelwrightError as e:
        return str(e)[:500]
    assert isinstance(executable, MlxExecutable)
    return executable


def _load(executable: MlxExecutable) -> str:
    """Load a binary, which is then named in short, as a store's are; say why it does not run."""
    try:
        executable.load()
    except KernelwrightError as e:
        return str(e)[:500]
    return ""


def _screen(executable: MlxExecutable, rotating: Sequence[Sequence[mx.array]]) -> float:
    """Time a schedule alone: the best of a few samples of several launches, in microseconds."""
    times = []
    run = mx.compile(lambda *arrays: tuple(executable.graph(arrays)))
    for sample in range(_SCREEN_SAMPLES + 1):
        # As launches are timed later: those of one evaluation may run side by side, which flatters
        # kernels of few threads.
        turns = [[run(*i) for i in rotating] for _ in range(-(-_SCREEN_LAUNCHES // len(rotating)))]
        began = time.perf_counter()
        for turn in turns:
            mx.async_eval(turn)  # type: ignore[no-untyped-call]
        mx.synchronize()
        if sample:
            times.append((time.perf_counter() - began) / len(turns) / len(rotating) * 1e6)
    return float(np.min(times))
