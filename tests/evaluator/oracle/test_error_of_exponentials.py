"""Weights that underflow where their values are uncertain, and roundings before the division."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.oracle.reference import Reference, calibrate, judge
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture

AnyArray = NDArray[np.generic]
LARGE = 2.0**50


def case_of(function: Callable[..., mx.array], *inputs: AnyArray) -> Reference:
    zeros = [mx.zeros(x.shape, getattr(mx, x.dtype.name)) for x in inputs]
    graph = canonicalize(capture(function, *zeros))
    case = Case(graph, Distribution.NORMAL)
    return calibrate(case, inputs, Task(graph, "task").output_tolerances)


def passes(reference: Reference, found: AnyArray) -> bool:
    return judge(reference, [found])[0].is_acceptable


def biased_softmax(x: mx.array, bias: mx.array) -> mx.array:
    return mx.softmax(x + bias, axis=-1)


def biased_logsumexp(x: mx.array, bias: mx.array) -> mx.array:
    return mx.logsumexp(x + bias, axis=-1, keepdims=True)


def large_rows() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return rows of two numbers so large that float32 rounds the bias away."""
    random = np.random.default_rng(1)
    x = np.where(random.random((4, 64)) < 0.5, LARGE, -LARGE).astype(np.float32)
    return x, (300 * random.standard_normal((4, 64))).astype(np.float32)


def test_weights_that_underflow_may_all_be_equal_where_their_sums_are_rounded() -> None:
    x, bias = large_rows()
    case = case_of(biased_softmax, x, bias)
    powers = np.exp((x + bias) - (x + bias).max(axis=-1, keepdims=True))
    assert (case.expected_outputs[0].expected[powers == 1] == 0).any()
    assert passes(case, powers / powers.sum(axis=-1, keepdims=True))


def test_a_weight_that_underflows_stays_zero_where_its_value_is_certain() -> None:
    x, bias = large_rows()
    case = case_of(biased_softmax, x, np.zeros_like(bias))
    weights = case.expected_outputs[0].rounded.copy()
    place = np.unravel_index(np.argmin(x), x.shape)
    weights[place] = 0.01
    assert not passes(case, weights)


def test_a_sum_may_hold_weights_that_underflow_where_their_values_are_uncertain() -> None:
    x, bias = large_rows()
    case = case_of(biased_logsumexp, x, bias)
    assert passes(case, x.max(axis=-1, keepdims=True))
    assert not passes(case, 0.5 * x.max(axis=-1, keepdims=True))


def shares(scores: mx.array, values: mx.array) -> mx.array:
    return mx.softmax(scores, axis=-1) @ values


def attend(scores: mx.array, values: mx.array) -> mx.array:
    """Attend with queries whose only number is 1, so that keys are scores."""
    key = mx.pad(scores[0][:, None], [(0, 0), (0, 15)])
    query = mx.pad(mx.ones((1, 1), scores.dtype), [(0, 0), (0, 15)])
    four = [x[None, None] for x in (query, key, values)]
    return mx.fast.scaled_dot_product_attention(*four, scale=1.0)[0, 0]


@pytest.mark.parametrize("function", [shares, attend])
def test_weights_may_be_rounded_before_they_are_divided_by_their_sum(
    function: Callable[..., mx.array],
) -> None:
    """Equal ones are all rounded one way, by a larger share of them than their quotients are."""
    keys, width = 31, 16
    scores = np.full((1, keys), -0.67236328125, np.float16)
    scores[0, 3] = 0
    random = np.random.default_rng(2)
    values = (100 + random.standard_normal((keys, width))).astype(np.float16)
    case = case_of(function, scores, values)
    powers = np.exp(scores.astype(np.float32))
    rounded = powers.astype(np.float16).astype(np.float32)
    found = rounded @ values.astype(np.float32) / powers.sum(axis=-1, keepdims=True)
    assert passes(case, found.astype(np.float16))
    assert not passes(case, (1.001 * found).astype(np.float16))
