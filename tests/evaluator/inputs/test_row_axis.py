"""Rows of a kind lie along the axes that outputs join, be they the last ones or not."""

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.oracle.reference import judge, prepare
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("secret", ["a", "b", "c"])
def test_some_rows_are_masked_whole(axis: int, secret: str) -> None:
    graph = canonicalize(capture(lambda x: mx.softmax(x, axis=axis), mx.zeros((24, 24))))
    task = Task(graph, "task")
    one = prepare(Case(graph, Distribution.MASKED), task.output_tolerances, secret)
    x = one.inputs[0].astype(np.float32)
    is_masked = np.isneginf(x).all(axis=axis)
    assert is_masked.any()
    assert not is_masked.all()
    with np.errstate(invalid="ignore"):
        powers = np.exp(x - x.max(axis=axis, keepdims=True))
        right = powers / powers.sum(axis=axis, keepdims=True)
    assert judge(one, [right])[0].is_acceptable
    assert not judge(one, [np.where(np.isnan(right), np.float32(0), right)])[0].is_acceptable


def test_elements_that_meet_no_other_lie_in_rows_of_the_last_axis() -> None:
    graph = canonicalize(capture(lambda x: mx.exp(x), mx.zeros((24, 24))))
    x = Case(graph, Distribution.MASKED).inputs("a")[0].astype(np.float32)
    assert np.isneginf(x).all(axis=1).any()
