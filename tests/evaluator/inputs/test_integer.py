"""What integers name: some of it seldom, some of it not at all."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.suite import visible_suite
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture


def test_masks_of_a_large_task_hold_rows_of_all_of_none_and_of_all_but_one() -> None:
    arrays = mx.zeros((8, 300, 128)), mx.zeros((8, 300, 1), mx.bool_)
    graph = canonicalize(capture(lambda x, keep: mx.sum(mx.where(keep, x, 0), axis=1), *arrays))
    flags = Case(graph, Distribution.MIXED).inputs("secret")[1]
    assert {0, 299, 300} <= set(flags.sum(axis=(1, 2)).tolist())


def segment_sums(x: mx.array, ids: mx.array) -> mx.array:
    return mx.zeros((16,)).at[ids].add(x)


@pytest.mark.parametrize("size", [2_000, 300_000])
def test_some_case_leaves_segments_out_and_fills_one_with_half_of_all(size: int) -> None:
    arrays = mx.zeros((size,)), mx.zeros((size,), mx.int32)
    task = Task(canonicalize(capture(segment_sums, *arrays)), "task")
    suite = visible_suite(task, (), EvaluatorConfig(secret="segments"))
    counts = [np.bincount(r.inputs[1].astype(int), minlength=16) for r in suite.references]
    assert any(not c[0] and not c[15] and c.max() > 0.4 * size for c in counts)
    assert any(c[0] and c[15] for c in counts)


def bounded_below(x: mx.array, label: mx.array) -> mx.array:
    picked = mx.take_along_axis(x, mx.maximum(label, 0)[:, None], axis=-1)[:, 0]
    return mx.where(label == -100, 0, picked)


def bounded_above(x: mx.array, label: mx.array) -> mx.array:
    return mx.take(x.reshape(-1), mx.minimum(label, 15))


def bounded_too_late(x: mx.array, label: mx.array) -> mx.array:
    return mx.take(x.reshape(-1), mx.minimum(mx.maximum(label, -2), 1 << 20))


@pytest.mark.parametrize(
    ("function", "is_below", "is_above"),
    [(bounded_below, True, False), (bounded_above, False, True), (bounded_too_late, False, False)],
)
def test_indices_lie_beyond_what_the_task_itself_bounds(
    function: Callable[[mx.array, mx.array], mx.array], is_below: bool, is_above: bool
) -> None:
    graph = canonicalize(capture(function, mx.zeros((64, 16)), mx.zeros((64,), mx.int32)))
    label = Case(graph, Distribution.NORMAL).inputs("secret")[1].astype(np.int64)
    within = 16 if function is bounded_below else 64 * 16
    assert (label < 0).any() == is_below
    assert (label >= within).any() == is_above
