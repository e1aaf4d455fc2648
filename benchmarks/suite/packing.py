"""Packs candidates as CUDA texts, for `stopwatch.py` on a machine that need not have MLX."""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.suite.counting import chosen
from benchmarks.suite.result import ScheduleResult, SuiteRun, WorkloadResult
from benchmarks.suite.search import capture
from benchmarks.suite.workloads import WORKLOADS
from kernelwright import ir
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.cuda.translate import headers, translate
from kernelwright.metal.kernel import BoundProgram
from kernelwright.metal.lower import lower, schedules

Packed = dict[str, object]


def pack(run: SuiteRun, info: DeviceInfo, path: Path) -> int:
    """Write a choice of a run's candidates, and return how many there are."""
    candidates = [one for result in run.results for one in _candidates(result, info)]
    text = json.dumps({"headers": headers(), "candidates": candidates})
    path.write_bytes(gzip.compress(text.encode()))
    return len(candidates)


def _candidates(result: WorkloadResult, info: DeviceInfo) -> Iterator[Packed]:
    workload = next(w for w in WORKLOADS if w.name == result.name)
    regions = ir.partition(capture(workload, result.dtype))
    for number, region in enumerate(regions):
        rows = chosen([row for row in result.schedules if row.region == number])
        yield from _of_region(result, number, region.extract(), rows, info)


def _of_region(
    result: WorkloadResult,
    number: int,
    graph: Graph,
    rows: Sequence[ScheduleResult],
    info: DeviceInfo,
) -> Iterator[Packed]:
    legal = {str(schedule): schedule for schedule in schedules(graph, info)} if rows else {}
    for row in rows:
        if row.schedule in legal:
            bound = lower(graph, legal[row.schedule]).bind(graph.input_types)
            key = {"workload": result.name, "dtype": str(result.dtype), "region": number}
            yield {**key, "schedule": row.schedule, **_launches(bound)}


def _launches(bound: BoundProgram) -> Packed:
    """Return each launch's text and shape, and its arrays by their places in one list."""
    program = bound.program
    tensors = (*program.inputs, *program.outputs, *program.temporaries)
    types = (*bound.inputs, *bound.outputs, *bound.temporaries)
    names = [tensor.name for tensor in tensors]
    launches = []
    for launch in bound.launches:
        translation = translate(bound, launch)
        parameters = (*launch.kernel.inputs, *launch.kernel.outputs)
        launches.append(
            {
                "text": translation.text,
                "symbol": translation.symbol,
                "blocks": translation.blocks,
                "threads": translation.threads,
                "arrays": [names.index(name) for name in parameters],
            }
        )
    arrays = [[type_.dtype.value, type_.size] for type_ in types]
    return {"arrays": arrays, "inputs": len(bound.inputs), "launches": launches}
