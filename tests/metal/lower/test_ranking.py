"""Few ranks of a row, with what stands around them, in kernels that the evaluator passes."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.task import Task
from kernelwright.ir import Graph, canonicalize, capture, reference
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Array
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Rowwise, parse
from kernelwright.plan import partition
from tests.metal.lower.conftest import Judge

Run = Callable[[Program, Graph, Sequence[Array]], tuple[Array, ...]]
Function = Callable[..., mx.array | tuple[mx.array, ...]]
DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)


def softmax_gate(logits: mx.array) -> tuple[mx.array, mx.array]:
    p = mx.softmax(logits, axis=-1, precise=True)
    chosen = mx.argpartition(-p, kth=7, axis=-1)[..., :8]
    weights = mx.take_along_axis(p, chosen, axis=-1)
    return chosen, weights / mx.sum(weights, axis=-1, keepdims=True)


def sigmoid_gate(logits: mx.array, bias: mx.array) -> tuple[mx.array, mx.array]:
    scores = mx.sigmoid(logits.astype(mx.float32))
    chosen = mx.argpartition(-(scores + bias), kth=3, axis=-1)[..., :4]
    weights = mx.take_along_axis(scores, chosen, axis=-1)
    return chosen, weights / (weights.sum(axis=-1, keepdims=True) + 1e-20) * 2.5


def logits_gate(logits: mx.array) -> tuple[mx.array, mx.array]:
    chosen = mx.argpartition(logits, kth=-2, axis=-1)[..., -2:]
    return chosen, mx.softmax(mx.take_along_axis(logits, chosen, axis=-1), axis=-1)


def extremes(x: mx.array) -> tuple[mx.array, mx.array]:
    return mx.topk(x, 3) - mx.max(x, axis=-1, keepdims=True), mx.argsort(x, axis=-1)[..., :2]


CASES: dict[str, tuple[Function, tuple[mx.array, ...], str]] = {
    "softmax, eight experts": (
        softmax_gate,
        (mx.zeros((2, 3, 128), mx.float16),),
        "rowwise(lanes=32, rows=4, vector=4, cached=1)",
    ),
    "sigmoid with a bias, read again": (
        sigmoid_gate,
        (mx.zeros((5, 50), mx.float16), mx.zeros((50,))),
        "rowwise(lanes=32, rows=4, vector=1, cached=0)",
    ),
    "softmax of the chosen, a thread a row": (
        logits_gate,
        (mx.zeros((40, 8), mx.float16),),
        "rowwise(lanes=1, rows=64, cached=0)",
    ),
    "both ends": (extremes, (mx.zeros((6, 37)),), "rowwise(lanes=32, rows=1, cached=1)"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(1)
def test_the_evaluator_passes_it(name: str, judge: Judge) -> None:
    function, inputs, schedule = CASES[name]
    (region,) = partition(canonicalize(capture(function, *inputs)))
    graph = region.extract()
    evaluation = judge(Task(graph, name), lower(graph, parse(schedule)))
    assert evaluation.is_correct, evaluation.summary


@pytest.mark.parametrize("text", ["rowwise(lanes=32, cached=1)", "rowwise(lanes=1, rows=64)"])
def test_equals_keep_their_order_and_nan_is_the_largest(text: str, run: Run) -> None:
    def both(x: mx.array) -> tuple[mx.array, mx.array]:
        return mx.argsort(x, axis=-1)[..., :8], mx.argsort(x, axis=-1)[..., -8:]

    rows = np.zeros((5, 40), np.float32)
    rows[1] = np.nan
    rows[2, 5:9] = [np.inf, -np.inf, np.nan, -np.inf]
    rows[3] = -np.inf
    rows[4, ::2] = np.nan
    graph = canonicalize(capture(both, mx.array(rows)))
    found = run(lower(graph, parse(text)), graph, [rows])
    for output, exact in zip(found, reference(graph, [rows]), strict=True):
        assert np.array_equal(output, exact)


def test_simdgroups_never_share_a_ranked_row() -> None:
    function, inputs, _ = CASES["softmax, eight experts"]
    found = schedules(canonicalize(capture(function, *inputs)), DEVICE)
    assert found
    assert all(isinstance(s, Rowwise) and s.lanes <= 32 for s in found)
