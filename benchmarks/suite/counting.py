"""Counts on the simulator what candidates do that a GPU timed."""

import json
import sys
from collections.abc import Collection, Iterator, Sequence
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


def count(run: SuiteRun, cache: Path, only: Collection[Key] = ()) -> list[Candidate]:
    """Count candidates of a run on the simulator: those of `only`, or a choice of all.

    `cache` keeps what was counted, a line each. A region or a schedule that is no longer planned
    is left out.
    """
    known = dict(_read(cache))
    found = []
    for result in run.results:
        regions = sorted({s.region for s in result.schedules})
        for region in regions:
            tried = [s for s in result.schedules if s.region == region]
            rows = chosen(tried) if not only else [r for r in tried if _key(result, r) in only]
            keys = [_key(result, r) for r in rows]
            missing = [k for k in keys if k not in known]
            if missing:
                _count_region(result, region, missing, known, cache)
            found += [
                Candidate(k, r.operation, r.measured_us or 0.0, known[k])
                for k, r in zip(keys, rows, strict=True)
                if known.get(k)
            ]
    return found


def _key(result: WorkloadResult, row: ScheduleResult) -> Key:
    return result.name, str(result.dtype), row.region, row.schedule


def _count_region(
    result: WorkloadResult,
    region: int,
    keys: Sequence[Key],
    known: dict[Key, tuple[Counters, ...]],
    cache: Path,
) -> None:
    workload = next(w for w in WORKLOADS if w.name == result.name)
    regions = ir.partition(capture(workload, result.dtype))
    if region >= len(regions):
        print(f"{result.name}: there is no region {region} any more", file=sys.stderr)
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
