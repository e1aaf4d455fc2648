"""Zeros keep their sign where a result is one of several values, unless both signs meet."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.oracle.accuracy import accepts
from kernelwright.evaluator.oracle.block_analysis import analyse_in_blocks
from kernelwright.evaluator.oracle.expected_output import ExpectedOutput
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture

ALL_NEGATIVE = [[-0.0, -0.0, -0.0]]
NEGATIVE_AMONG = [[-1.0, -0.0, 2.0]]
BOTH = [[0.0, -0.0, -3.0]]
DENORMAL = [[-1e-40, 0.0, -3.0]]


def wanted(fn: Callable[..., mx.array], *rows: list[list[float]]) -> ExpectedOutput:
    arrays = [np.array(row, np.float32) for row in rows]
    with mx.stream(mx.cpu):
        graph = canonicalize(capture(fn, *map(mx.array, arrays)))
    (one,) = analyse_in_blocks(graph, arrays, [Tolerance.of(graph.output_types[0].dtype)])
    return one


def largest(a: mx.array) -> mx.array:
    return mx.max(a, axis=-1)


def sorted_(a: mx.array) -> mx.array:
    return mx.sort(a, axis=-1)


def two_last(a: mx.array) -> mx.array:
    return mx.sort(a, axis=-1)[:, -2:]


def chosen(a: mx.array) -> mx.array:
    return mx.where(a < 1, a, 5.0)


@pytest.mark.parametrize(
    ("fn", "row"),
    [
        (largest, ALL_NEGATIVE),
        (sorted_, ALL_NEGATIVE),
        (sorted_, NEGATIVE_AMONG),
        (two_last, NEGATIVE_AMONG),
        (chosen, NEGATIVE_AMONG),
        (lambda a: mx.transpose(mx.sort(a, axis=-1)), NEGATIVE_AMONG),
    ],
)
def test_a_lost_sign_is_wrong(fn: Callable[..., mx.array], row: list[list[float]]) -> None:
    one = wanted(fn, row)
    assert accepts(one, one.rounded)
    assert not accepts(one, np.add(one.rounded, 0))


@pytest.mark.parametrize(
    ("fn", "row"),
    [
        (largest, BOTH),
        (sorted_, BOTH),
        (largest, DENORMAL),
        (lambda a: mx.maximum(a, 0.0), NEGATIVE_AMONG),
        (lambda a: mx.where(a > 0, a, 0.0), NEGATIVE_AMONG),
        (lambda a: mx.sum(a, axis=-1), ALL_NEGATIVE),
    ],
)
def test_where_both_signs_meet_either_is_right(
    fn: Callable[..., mx.array], row: list[list[float]]
) -> None:
    one = wanted(fn, row)
    turned = np.where(one.rounded == 0, np.negative(one.rounded), one.rounded)
    assert accepts(one, turned)
