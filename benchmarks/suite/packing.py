"""Packs candidates as CUDA texts, for `stopwatch.py` on a machine that need not have MLX."""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from benchmarks.suite.search import capture
from benchmarks.suite.workload import Workload
from kernelwright.evaluator.inputs.value_domain import domains_of
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.cuda.translate import headers, translate
from kernelwright.metal.kernel import BoundProgram
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Schedule
from kernelwright.plan import partition

Packed = dict[str, object]


def pack(
    workloads: Sequence[Workload], dtype: Dtype, info: DeviceInfo, path: Path, drawn: int
) -> int:
    """Write candidates of workloads' regions, and return how many there are.

    Args:
        workloads: Whose regions.
        dtype: Of their inputs.
        info: The device for which schedules are legal.
        path: The file to write.
        drawn: So many of each region, at random from all legal schedules.
    """
    candidates = [one for w in workloads for one in _candidates(w, dtype, info, drawn)]
    write_pack(candidates, path)
    return len(candidates)


def write_pack(candidates: Sequence[Packed], path: Path) -> None:
    """Write what `stopwatch.py` reads."""
    text = json.dumps({"headers": headers(), "candidates": candidates})
    path.write_bytes(gzip.compress(text.encode()))


def _candidates(workload: Workload, dtype: Dtype, info: DeviceInfo, drawn: int) -> Iterator[Packed]:
    for number, region in enumerate(partition(capture(workload, dtype))):
        graph = region.extract()
        legal = schedules(graph, info)
        random = Random(f"{workload.name} {dtype} {number}")
        key: Packed = {"workload": workload.name, "dtype": str(dtype), "region": number}
        yield from packed_schedules(graph, random.sample(legal, min(drawn, len(legal))), key)


def packed_schedules(graph: Graph, chosen: Sequence[Schedule], key: Packed) -> Iterator[Packed]:
    """Yield schedules of a task, packed, with `key` to know them by."""
    limits = [domain.index_limit or 0 for domain in domains_of(graph)]
    for schedule in chosen:
        bound = lower(graph, schedule).bind(graph.input_types)
        yield {**key, "schedule": str(schedule), **_launches(bound, limits)}


def _launches(bound: BoundProgram, limits: Sequence[int]) -> Packed:
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
    # What says where another is read stays within it.
    arrays = [
        [type_.dtype.value, type_.size, limit]
        for type_, limit in zip(types, (*limits, *[0] * (len(types) - len(limits))), strict=True)
    ]
    return {"arrays": arrays, "inputs": len(bound.inputs), "launches": launches}
