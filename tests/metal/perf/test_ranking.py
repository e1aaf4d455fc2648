"""The model ranks what an H200 measured: the recorded times beside the recorded counts."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from kernelwright.evaluator.speed.prediction import predict_program
from kernelwright.metal.device.base import Counters
from kernelwright.metal.perf import find_profile
from kernelwright.metal.perf.prediction import estimate_instructions
from kernelwright.metal.perf.residency import residency_of

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
Row = tuple[str, tuple[Counters, ...], dict[str, float]]


@cache
def rows() -> tuple[Row, ...]:
    lines = (RESULTS / "h200-f16-counters.jsonl").read_text().splitlines()
    counted = {tuple(line["key"]): line["counters"] for line in map(json.loads, lines)}
    found = []
    for kernel in json.loads((RESULTS / "h200-f16-kernels.json").read_text())["kernels"]:
        key = tuple(kernel[name] for name in ("workload", "dtype", "region", "schedule"))
        counters = tuple(Counters.model_validate(c) for c in counted[key])
        found.append((kernel["workload"], counters, kernel))
    return tuple(found)


def test_most_tasks_are_ranked_well() -> None:
    profile = find_profile("h200")
    tasks: dict[str, list[tuple[float, float]]] = {}
    for name, counters, kernel in rows():
        times = predict_program(counters, profile).microseconds, kernel["median_us"]
        tasks.setdefault(name, []).append(times)
    ranks = [float(spearmanr(*zip(*pairs, strict=True)).statistic) for pairs in tasks.values()]

    assert np.median(ranks) >= 0.85
    assert sum(rank >= 0.8 for rank in ranks) >= 0.6 * len(ranks)


def test_estimated_instructions_are_near_those_executed() -> None:
    profile = find_profile("h200")
    ratios = [
        sum(estimate_instructions(c, profile) for c in counters) / kernel["instructions"]
        for _, counters, kernel in rows()
    ]

    assert np.median(ratios) == pytest.approx(1.0, abs=0.05)
    assert np.percentile(ratios, 75) / np.percentile(ratios, 25) < 1.6


def test_arrays_and_reads_say_how_many_threads_the_registers_hold() -> None:
    profile = find_profile("h200")
    single = [(*counters, kernel) for _, counters, kernel in rows() if len(counters) == 1]
    near = 0
    for counters, kernel in single:
        found = residency_of(counters, profile)
        roomy = profile.core.model_copy(update={"registers": 1 << 20})
        most = residency_of(counters, profile.model_copy(update={"core": roomy})).groups
        registers = -(-kernel["registers"] // 8) * 8
        real = profile.core.registers // int(registers * 32 * found.simdgroups)
        near += abs(np.log(found.groups / min(max(real, 1), most))) < 0.3

    assert near >= 0.9 * len(single)
