"""Times a searched workload against its baselines, by the evaluator's own protocol."""

from collections.abc import Iterator
from importlib.metadata import version

import mlx.core as mx
import numpy as np

from benchmarks.suite.baseline import mlx_ways, plain
from benchmarks.suite.result import SuiteRun, WorkloadResult
from benchmarks.suite.search import SCHEDULES, Found, build, rebuild, search
from benchmarks.suite.sets import find
from benchmarks.suite.workload import Workload, minimal_bytes
from kernelwright.errors import DeviceError, KernelwrightError
from kernelwright.evaluator.config import TimingPlan
from kernelwright.evaluator.evaluation import Speedup
from kernelwright.evaluator.speed.mlx_benchmark import Function as ListFunction
from kernelwright.evaluator.speed.mlx_benchmark import MlxLaboratory, own_kernel
from kernelwright.evaluator.speed.promotion import interval_of, speedup_of
from kernelwright.evaluator.speed.timing import Order
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.executable import Device

_WORD_BYTES = 4
PLAN = TimingPlan(pairs=16, warmups=3, verified_share=0.0, canary_tolerance=0.15)


def run_suite(
    workloads: list[tuple[Workload, Dtype]],
    device: Device,
    *,
    seed: int,
    most_schedules: int = SCHEDULES,
    plan: TimingPlan = PLAN,
) -> Iterator[SuiteRun]:
    """Search and time every workload, and yield the run as it stands after each.

    A failure is a row, not the end of the run.
    """
    first = _laboratory(
        workloads[0][0], workloads[0][1], plain(workloads[0][0].function), device, plan
    )
    copy_bytes_per_s = first.copy_bytes_per_s()
    floor_ns = first.measure(Order(blocks=6)).floor_ns
    results = []
    for workload, dtype in workloads:
        result = measure(
            workload, dtype, device, seed=seed, most_schedules=most_schedules, plan=plan
        )
        results.append(result)
        print(line(result, copy_bytes_per_s), flush=True)
        mx.clear_cache()
        yield SuiteRun(
            device=device.info,
            mlx=version("mlx"),
            copy_bytes_per_s=copy_bytes_per_s,
            launch_us=floor_ns / 1e3,
            seed=seed,
            results=tuple(results),
        )


def measure(
    workload: Workload,
    dtype: Dtype,
    device: Device,
    *,
    seed: int,
    most_schedules: int = SCHEDULES,
    plan: TimingPlan = PLAN,
) -> WorkloadResult:
    """Search one workload by the engine, and time its champions in place."""
    row = WorkloadResult(
        name=workload.name,
        group=workload.group,
        model=workload.model,
        dtype=dtype,
        is_memory_bound=workload.is_memory_bound,
        bytes_moved=0,
        regions=0,
        nodes_left=0,
    )
    try:
        searched = search(workload, dtype, device.info, most_schedules)
        found = build(searched, device)
        filled = row.model_copy(
            update={
                "bytes_moved": minimal_bytes(found.graph.input_types, found.graph.output_types),
                "regions": len(found.regions),
                "nodes_left": found.nodes_left,
                "schedules": found.schedules,
            }
        )
        if not found.regions:
            return filled.model_copy(update={"problem": "no kernel was confirmed to be faster"})
        try:
            return _timed(filled, workload, found, device, plan, seed)
        except DeviceError:
            # A restless moment passes; a restless machine fails again.
            return _timed(filled, workload, found, device, plan, seed)
    except (KernelwrightError, RuntimeError, ValueError) as e:
        return row.model_copy(update={"problem": f"{type(e).__name__}: {e}"[:500]})


def confirm_suite(run: SuiteRun, device: Device, *, plan: TimingPlan = PLAN) -> Iterator[SuiteRun]:
    """Time every gain again: fresh inputs, reversed order, and a fresh process by being called."""
    results = list(run.results)
    for place, result in enumerate(run.results):
        if result.speedup is None or result.speedup.lower <= 1:
            continue
        confirmed = _confirmed(result, device, plan, run.seed + 1)
        results[place] = result.model_copy(update={"confirmed": confirmed})
        print(
            f"{result.name:26s} {result.dtype.short:5s} {result.speedup.ratio:5.2f}x, again "
            f"{confirmed.ratio:5.2f}x",
            flush=True,
        )
        mx.clear_cache()
        yield run.model_copy(update={"results": tuple(results)})


def copy_suite(run: SuiteRun, device: Device, *, plan: TimingPlan = PLAN) -> Iterator[SuiteRun]:
    """Time a copy beside every row that has none, by the bytes that the row moves."""
    results = list(run.results)
    known: dict[int, float] = {}
    for place, result in enumerate(run.results):
        size = result.bytes_moved
        if result.speedup is None or result.copy_us is not None:
            continue
        known[size] = known[size] if size in known else copy_us(size, device, plan)
        results[place] = result.model_copy(update={"copy_us": known[size]})
        print(f"{result.name:26s} {known[size]:9.1f} us", flush=True)
        mx.clear_cache()
        yield run.model_copy(update={"results": tuple(results)})


def _confirmed(result: WorkloadResult, device: Device, plan: TimingPlan, seed: int) -> Speedup:
    assert result.speedup is not None
    workload = find(result.name)
    found = rebuild(workload, result.dtype, device, result.schedules)
    name = result.speedup.baseline
    laboratory = _laboratory(workload, result.dtype, plain(found.function), device, plan, seed)
    measured = laboratory.measure(Order(plan.pairs, (name,), reverse=True))
    interval = interval_of(measured.comparisons[name], plan, np.random.default_rng(seed))
    return speedup_of(name, interval)


def _timed(
    row: WorkloadResult,
    workload: Workload,
    found: Found,
    device: Device,
    plan: TimingPlan,
    seed: int,
) -> WorkloadResult:
    laboratory = _laboratory(workload, row.dtype, plain(found.function), device, plan, seed)
    measured = laboratory.measure(Order(plan.pairs))
    random = np.random.default_rng(seed)
    speedups: list[Speedup] = []
    baselines: dict[str, float] = {}
    candidate_ns: list[float] = []
    for name, comparison in measured.comparisons.items():
        speedups.append(speedup_of(name, interval_of(comparison, plan, random)))
        baselines[name] = float(np.median(comparison.baseline_ns)) / 1e3
        candidate_ns.extend(comparison.candidate_ns)
    return row.model_copy(
        update={
            "candidate_us": float(np.median(candidate_ns)) / 1e3,
            "baselines_us": baselines,
            "speedups": tuple(speedups),
            "fastest_baseline": min(baselines, key=baselines.__getitem__),
            "copy_us": copy_us(row.bytes_moved, device, plan),
        }
    )


def copy_us(bytes_moved: int, device: Device, plan: TimingPlan) -> float:
    """Time a copy that moves so many bytes, reads and writes counted, as a candidate is timed."""
    elements = max(bytes_moved // (2 * _WORD_BYTES * 4), 1) * 4
    copied = own_kernel(device, "copy", elements)
    laboratory = MlxLaboratory(
        device=device,
        candidate=copied,
        baselines={"copy": copied},
        make_inputs=lambda slot: [mx.full((elements,), float(slot))],
        plan=plan,
        input_bytes=elements * _WORD_BYTES,
        output_bytes=elements * _WORD_BYTES,
    )
    (compared,) = laboratory.measure(Order(plan.pairs)).comparisons.values()
    return float(np.median([*compared.candidate_ns, *compared.baseline_ns])) / 1e3


def _laboratory(
    workload: Workload,
    dtype: Dtype,
    candidate: ListFunction,
    device: Device,
    plan: TimingPlan,
    seed: int = 0,
) -> MlxLaboratory:
    """Time a candidate beside every way in which MLX computes the workload."""
    types = workload.types(dtype)
    outputs = candidate(*workload.make_inputs(dtype, seed))
    return MlxLaboratory(
        device=device,
        candidate=candidate,
        baselines=mlx_ways(workload, dtype),
        make_inputs=lambda slot: workload.make_inputs(dtype, 1000 * seed + slot),
        plan=plan,
        input_bytes=sum(t.nbytes for t in types),
        output_bytes=sum(o.nbytes for o in outputs),
        seed=seed,
    )


def line(result: WorkloadResult, copy_bytes_per_s: float) -> str:
    """Render one row for the terminal."""
    head = f"{result.name:26s} {result.dtype.short:5s}"
    best, share = result.speedup, result.share_of_copy(copy_bytes_per_s)
    if best is None or share is None:
        return f"{head} {result.problem}"
    gain = f"{best.ratio:5.2f}x [{best.lower:.2f}, {best.upper:.2f}] vs {best.baseline:8s}"
    tail = f"{100 * share:3.0f} % of copy  {result.nodes_left} nodes left"
    return f"{head} {result.candidate_us:9.1f} us  {gain} {tail}"
