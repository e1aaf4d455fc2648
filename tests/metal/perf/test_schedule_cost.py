"""What schedules are expected to take, beside what an H200 took and what is predicted of counts."""

import json
import statistics
from functools import cache
from pathlib import Path

import pytest
from scipy.stats import spearmanr

from benchmarks.search import landscape
from benchmarks.suite.search import capture, is_named
from benchmarks.suite.sets import find
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower import schedules
from kernelwright.metal.perf import find_profile
from kernelwright.metal.perf.schedule_cost import expected_us
from kernelwright.metal.schedule import Attention, parse
from kernelwright.plan import partition

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
INFO = DeviceInfo(name="cuda", chip="NVIDIA H200", runtime="recorded", measures_time=True)
TIMED = (
    *("bias_gelu_tanh", "rms_norm_quantize", "layer_norm", "masked_softmax", "mean_and_variance"),
    *("sum_columns", "head_norm_rope", "decay_weights", "relu_squared", "layer_norm_grad"),
)
"""Every family that is modelled, pointwise and over rows, columns and scans."""


@cache
def timed(name: str) -> tuple[list[float], list[float]]:
    """Return what the schedules of a workload were expected to take, and what they took."""
    found = json.loads((RESULTS / "h200-f16-kernels.json").read_text())["kernels"]
    kernels = [k for k in found if k["workload"] == name and k["region"] == 0]
    graph = partition(capture(find(name), Dtype.FLOAT16))[0].extract()
    space = schedules(graph, INFO)
    measured = {
        schedule: k["median_us"]
        for k in kernels
        for schedule in space
        if is_named(schedule, k["schedule"])
    }
    expected = expected_us(graph, measured, find_profile("h200"))
    return [expected[s] for s in measured], list(measured.values())


def test_schedules_are_ranked_as_an_h200_timed_them() -> None:
    ranks = [float(spearmanr(*timed(name)).statistic) for name in TIMED]
    assert statistics.median(ranks) > 0.85


def test_the_schedule_expected_to_be_fastest_is_nearly_that() -> None:
    lost = []
    for name in TIMED:
        expected, measured = timed(name)
        lost.append(measured[expected.index(min(expected))] / min(measured))
    assert statistics.median(lost) < 1.02
    assert max(lost) < 1.25


@pytest.mark.parametrize("name", ["sum_columns", "softmax_columns", "mean_middle", "sum_all"])
def test_estimated_counts_say_what_counted_ones_do(name: str) -> None:
    recorded = next(found for found in landscape.read() if found.task == name)
    times = {parse(text): us for text, us in recorded.microseconds.items()}
    expected = expected_us(Graph.from_json(recorded.graph), times, find_profile("m4-pro"))
    assert float(spearmanr(list(expected.values()), list(times.values())).statistic) > 0.9


def test_a_family_that_is_not_modelled_has_no_expectation() -> None:
    graph = Graph.from_json(landscape.read()[0].graph)
    assert expected_us(graph, [Attention()], find_profile("m4-pro")) == {}
