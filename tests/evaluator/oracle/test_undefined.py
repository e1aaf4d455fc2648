"""Floats beyond the integers that they become: nobody is blamed for what has no answer."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.oracle.reference import calibrate, judge
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from tests.evaluator.one_line import judge_line


def to_bytes(x: mx.array) -> mx.array:
    return x.astype(mx.uint8)


def quantized(x: mx.array) -> mx.array:
    return mx.clip(mx.round(x * 20), -127, 127).astype(mx.int8)


def scaled(x: mx.array) -> mx.array:
    return (x * 1e6).astype(mx.int32) // 2


@pytest.mark.parametrize(
    ("fn", "value"),
    [
        (to_bytes, "uchar(x[i])"),
        (to_bytes, "uchar(metal::clamp(x[i], 0.0f, 255.0f))"),
        (quantized, "char(metal::clamp(metal::rint(x[i] * 20), -127.0f, 127.0f))"),
        (scaled, "int(x[i] * 1e6f) >> 1"),
    ],
)
def test_what_a_conversion_leaves_open_is_nobodys_fault(
    fn: Callable[[mx.array], mx.array], value: str
) -> None:
    evaluation = judge_line(fn, value)
    assert evaluation.is_correct, evaluation.summary


@pytest.mark.parametrize(
    ("fn", "value"),
    [
        (to_bytes, "uchar(metal::rint(x[i]))"),
        (to_bytes, "uchar(metal::clamp(x[i], 0.0f, 127.0f))"),
        (quantized, "char(metal::clamp(metal::rint(x[i] * 20), -128.0f, 127.0f))"),
        (scaled, "int(x[i] * 1e6f) / 2"),
    ],
)
def test_what_it_defines_is_held_to(fn: Callable[[mx.array], mx.array], value: str) -> None:
    assert judge_line(fn, value).status is Status.WRONG


def compressed(x: mx.array) -> mx.array:
    return (mx.log1p(x * 255) / 5.5451774 * 255 + 0.5).astype(mx.uint8)


@pytest.mark.parametrize(("last", "found"), [(1.010975, 0), (1.010975, 255), (1.0, 255)])
def test_a_rounding_may_carry_a_float_beyond_the_integers(last: float, found: int) -> None:
    """Next to 256 float32 arithmetic may end at 256, which is no uint8."""
    x = np.array([0.0, 0.25, 0.5, last], np.float32)
    graph = canonicalize(capture(compressed, mx.zeros(4)))
    reference = calibrate(
        Case(graph, Distribution.NORMAL), (x,), Task(graph, "task").output_tolerances
    )
    right = reference.expected_outputs[0].expected.astype(np.uint8)
    right[-1] = found
    assert judge(reference, [right])[0].is_acceptable
    for wrong in (right + np.array([1, 0, 0, 0]), right - np.array([0, 1, 0, 0])):
        assert not judge(reference, [wrong.astype(np.uint8)])[0].is_acceptable
    if last == 1.0:
        right[-1] = 0
        assert not judge(reference, [right])[0].is_acceptable
