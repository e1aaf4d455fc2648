"""Counts on the simulator what candidates do that a GPU timed."""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from benchmarks.suite.drawing import random_input
from benchmarks.suite.search import capture
from benchmarks.suite.workloads import WORKLOADS
from kernelwright.errors import KernelwrightError
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.array import to_numpy
from kernelwright.metal.device.base import Counters, RunOptions
from kernelwright.metal.device.executable import Array
from kernelwright.metal.device.simulator.device import SimulatorDevice
from kernelwright.metal.kernel import BoundProgram
from kernelwright.metal.lower import lower, schedules
from kernelwright.plan import partition

_TIMEOUT_S = 60.0
TaskKey = tuple[str, str, int]
"""Workload, dtype and region."""
Key = tuple[str, str, int, str]
"""The same, and a schedule."""


def count(keys: Sequence[Key], cache: Path) -> dict[Key, tuple[Counters, ...]]:
    """Count candidates on the simulator.

    `cache` keeps what was counted, a line each. A region or a schedule that is no longer planned
    is left out.
    """
    known = dict(_read(cache))
    missing = sorted(key for key in keys if key not in known)
    for task, candidates in groupby(missing, key=lambda key: key[:3]):
        _count_task(task, list(candidates), known, cache)
    return {key: known[key] for key in keys if known.get(key)}


def _count_task(
    task: TaskKey, keys: Sequence[Key], known: dict[Key, tuple[Counters, ...]], cache: Path
) -> None:
    name, dtype, region = task
    workload = next(w for w in WORKLOADS if w.name == name)
    regions = partition(capture(workload, Dtype.parse(dtype)))
    if region >= len(regions):
        print(f"{name}: there is no region {region} any more", file=sys.stderr)
        return
    graph = regions[region].extract()
    device = SimulatorDevice()
    wanted = {str(s): s for s in schedules(graph, device.info)}
    inputs = [to_numpy(random_input(t, seed)) for seed, t in enumerate(graph.input_types)]
    for key in keys:
        counters: tuple[Counters, ...] = ()
        if key[3] in wanted:
            bound = lower(graph, wanted[key[3]]).bind(graph.input_types)
            try:
                counters = _counters(device, bound, inputs)
            except KernelwrightError as e:
                print(f"{key}: {e}", file=sys.stderr)
        known[key] = counters
        line = {"key": key, "counters": [c.model_dump(mode="json") for c in counters]}
        with cache.open("a") as file:
            file.write(json.dumps(line) + "\n")


def _counters(
    device: SimulatorDevice, bound: BoundProgram, inputs: Sequence[Array]
) -> tuple[Counters, ...]:
    result = device.compile(bound).run(inputs, RunOptions(count=True, timeout_s=_TIMEOUT_S))
    return tuple(result.counters)


def _read(cache: Path) -> Iterator[tuple[Key, tuple[Counters, ...]]]:
    if not cache.exists():
        return
    for text in cache.read_text().splitlines():
        line = json.loads(text)
        name, dtype, region, schedule = line["key"]
        yield (
            (name, dtype, region, schedule),
            tuple(Counters.model_validate(c) for c in line["counters"]),
        )
