"""What integers name: some of it seldom, some of it not at all."""

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.suite import visible_suite
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture


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
