"""Counts on the simulator what candidates do that a GPU timed."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.suite.result import ScheduleResult, SuiteRun, WorkloadResult
from benchmarks.suite.search import capture, random_input
from benchmarks.suite.workloads import WORKLOADS
from kernelwright import ir
from kernelwright.errors import KernelwrightError
from kernelwright.metal.device.array import to_numpy
from kernelwright.metal.device.base import Array, Counters, RunOptions
from kernelwright.metal.device.simulator.device import SimulatorDevice
from kernelwright.metal.kernel import BoundProgram
from kernelwright.metal.lower import lower, schedules

CANDIDATES = 8
"""Candidates of a region that are counted: the fastest, the slowest and some between."""
_TIMEOUT_S = 60.0
Key = tuple[str, str, int, str]
"""Workload, dtype, region and schedule."""


@dataclass(frozen=True)
class Candidate:
    """One timed candidate with what it was counted to do."""

    key: Key
    operation: str
    measured_us: float
    counters: tuple[Counters, ...]


def chosen(rows: Sequence[ScheduleResult], most: int = CANDIDATES) -> list[ScheduleResult]:
    """Return up to `most` timed candidates of one region, spread over the measured times."""
    timed = sorted((r for r in rows if r.measured_us), key=lambda r: r.measured_us or 0.0)
    places = np.unique(np.linspace(0, len(timed) - 1, min(most, len(timed))).round().astype(int))
    return [timed[i] for i in places] if timed else []


def count(run: SuiteRun, cache: Path) -> list[Candidate]:
    """Count candidates of a run on the simulator; `cache` keeps what was counted, a line each."""
    known = dict(_read(cache))
    found = []
    for result in run.results:
        regions = sorted({s.region for s in result.schedules})
        for region in regions:
            rows = chosen([s for s in result.schedules if s.region == region])
            keys = [(result.name, str(result.dtype), region, r.schedule) for r in rows]
            missing = [k for k in keys if k not in known]
            if missing:
                _count_region(result, region, missing, known, cache)
            found += [
                Candidate(k, r.operation, r.measured_us or 0.0, known[k])
                for k, r in zip(keys, rows, strict=True)
                if known.get(k)
            ]
    return found


def _count_region(
    result: WorkloadResult,
    region: int,
    keys: Sequence[Key],
    known: dict[Key, tuple[Counters, ...]],
    cache: Path,
) -> None:
    workload = next(w for w in WORKLOADS if w.name == result.name)
    graph = ir.partition(capture(workload, result.dtype))[region].extract()
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
