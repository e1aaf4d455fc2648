"""The offline search for one workload on one GPU: plan, lower, compile, check, choose."""

import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields

import mlx.core as mx
import numpy as np

from benchmarks.suite.check import Check
from benchmarks.suite.result import ScheduleResult
from benchmarks.suite.workload import Function, Workload
from kernelwright import ir
from kernelwright.errors import DeviceError, KernelwrightError
from kernelwright.evaluator.inputs.value_domain import domains_of
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.trace.stitch import stitch
from kernelwright.metal.device.base import Device
from kernelwright.metal.device.execution import MlxExecutable
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Schedule
from kernelwright.plan import partition
from kernelwright.plan.mlx.quantized_product import unpack_products

SCHEDULES = 24
"""Schedules tried per region unless told, in the order in which the coder would try them."""
_SCREEN_SAMPLES = 5
_SCREEN_LAUNCHES = 16
_ROTATION_BYTES, _MOST_COPIES = 256 << 20, 8
"""Inputs take turns over more bytes than any last-level cache holds."""


@dataclass(frozen=True)
class Found:
    """A workload's planned graph with the chosen kernels in place."""

    graph: Graph
    regions: tuple[ir.Region, ...]
    function: Function
    schedules: tuple[ScheduleResult, ...]

    @property
    def nodes_left(self) -> int:
        """Nodes that no region covers."""
        return len(self.graph.nodes) - sum(len(r.indices) for r in self.regions)


def search(
    workload: Workload, dtype: Dtype, device: Device, most_schedules: int = SCHEDULES
) -> Found:
    """Find the fastest stitched function that the offline planner and coder give."""
    graph = unpack_products(capture(workload, dtype), device.info.name)
    regions = tuple(partition(graph))
    chosen: dict[ir.Region, MlxExecutable] = {}
    results: list[ScheduleResult] = []
    for number, region in enumerate(regions):
        best, tried = choose_schedule(region.extract(), number, device, most_schedules)
        results.extend(tried)
        if best is not None:
            chosen[region] = best
    return _found(graph, chosen, results)


def rebuild(
    workload: Workload, dtype: Dtype, device: Device, results: Sequence[ScheduleResult]
) -> Found:
    """Build what an earlier search chose, without searching."""
    graph = unpack_products(capture(workload, dtype), device.info.name)
    names = {r.region: r.schedule for r in results if r.is_chosen}
    chosen: dict[ir.Region, MlxExecutable] = {}
    for number, region in enumerate(partition(graph)):
        extracted = region.extract()
        for schedule in schedules(extracted, device.info) if number in names else ():
            if is_named(schedule, names[number]):
                built = _build(extracted, schedule, device)
                if isinstance(built, str):
                    raise DeviceError(built)
                chosen[region] = built
    return _found(graph, chosen, results)


def is_named(schedule: Schedule, text: str) -> bool:
    """Say whether results hold a schedule so; decisions that came later have their defaults."""
    given = dict(re.findall(r"(\w+)=(\w+)", text))
    return text.startswith(f"{type(schedule).__name__}(") and all(
        str(getattr(schedule, field.name)) == given.get(field.name, str(field.default))
        for field in fields(schedule)
    )


def _found(
    graph: Graph, chosen: Mapping[ir.Region, MlxExecutable], results: Sequence[ScheduleResult]
) -> Found:
    stitched = stitch(graph, {r: e.graph for r, e in chosen.items()})

    def run(*arrays: mx.array) -> tuple[mx.array, ...]:
        return tuple(stitched(*arrays))

    # As people use it: the launches are recorded once, and what is left to MLX is fused.
    function: Function = mx.compile(run)
    return Found(graph, tuple(chosen), function, tuple(results))


def capture(workload: Workload, dtype: Dtype) -> Graph:
    """Trace a workload; its inputs are never materialised."""
    zeros = [mx.broadcast_to(mx.array(0, dtype=_mlx(t)), t.shape) for t in workload.types(dtype)]
    return ir.gather_attention(ir.canonicalize(ir.capture(workload.function, *zeros)))


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
        problem = check.problem(executable)
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


def random_inputs(graph: Graph, seed: int) -> list[mx.array]:
    """Draw inputs of a region; what it takes a root or a logarithm of is positive."""
    drawn = zip(graph.input_types, domains_of(graph), strict=True)
    return [
        mx.abs(array) + 0.01 if domain.is_positive and type_.dtype.is_float else array
        for place, (type_, domain) in enumerate(drawn)
        for array in [random_input(type_, seed + place)]
    ]


def random_input(type_: TensorType, seed: int) -> mx.array:
    """Draw one input of a region."""
    key = mx.random.key(seed)
    if type_.dtype.is_float:
        return mx.random.normal(type_.shape, scale=0.5, key=key).astype(_mlx(type_))
    # Small integers are valid indices, digits and flags alike.
    return mx.random.randint(0, 2, type_.shape, key=key).astype(_mlx(type_))


def _mlx(type_: TensorType) -> mx.Dtype:
    found: mx.Dtype = getattr(mx, "bool_" if type_.dtype is Dtype.BOOL else type_.dtype.value)
    return found
