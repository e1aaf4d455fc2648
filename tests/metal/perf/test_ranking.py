"""The model ranks what an H200 measured: the recorded times beside the recorded counts."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from kernelwright.metal.device.base import Counters
from kernelwright.metal.perf import find_profile, predict
from kernelwright.metal.perf.prediction import estimate_instructions
from kernelwright.metal.perf.residency import residency_of

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
Row = tuple[str, Counters, dict[str, float]]


@cache
def rows() -> tuple[Row, ...]:
    lines = (RESULTS / "h200-f16-quiet-counters.jsonl").read_text().splitlines()
    counted = {tuple(line["key"]): line["counters"] for line in map(json.loads, lines)}
    found = []
    for kernel in json.loads((RESULTS / "h200-f16-quiet-kernels.json").read_text())["kernels"]:
        key = tuple(kernel[name] for name in ("workload", "dtype", "region", "schedule"))
        (counters,) = counted[key]
        found.append((kernel["workload"], Counters.model_validate(counters), kernel))
    return tuple(found)


def test_most_tasks_are_ranked_well() -> None:
    profile = find_profile("h200")
    tasks: dict[str, list[tuple[float, float]]] = {}
    for name, counters, kernel in rows():
        times = predict(counters, profile).time_us, kernel["median_us"]
        tasks.setdefault(name, []).append(times)
    ranks = [float(spearmanr(*zip(*pairs, strict=True)).statistic) for pairs in tasks.values()]

    assert np.median(ranks) >= 0.85
    assert sum(rank >= 0.8 for rank in ranks) >= 0.65 * len(ranks)


def test_estimated_instructions_are_near_those_executed() -> None:
    profile = find_profile("h200")
    ratios = [estimate_instructions(c, profile) / k["instructions"] for _, c, k in rows()]

    assert np.median(ratios) == pytest.approx(1.0, abs=0.05)
    assert np.percentile(ratios, 90) / np.percentile(ratios, 10) < 2.2


def test_arrays_say_how_many_threads_the_registers_hold() -> None:
    profile = find_profile("h200")
    near = 0
    for _, counters, kernel in rows():
        place = residency_of(counters, profile)
        plain = residency_of(counters.model_copy(update={"thread_array_bytes": 0}), profile)
        registers = -(-kernel["registers"] // 8) * 8
        real = profile.core.registers // int(registers * 32 * place.simdgroups)
        near += abs(np.log(place.groups / min(max(real, 1), plain.groups))) < 0.3

    assert near >= 0.9 * len(rows())
