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


def online(x: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return each row's maximum and sum of exponentials, of one number after the other."""
    peak, total = x[:, 0].copy(), np.ones(len(x), np.float32)
    for column in x.T[1:]:
        higher = np.maximum(peak, column)
        total = total * np.exp(peak - higher) + np.exp(column - higher)
        peak = higher
    return peak[:, None], total[:, None]


def composed_softmax(x: mx.array) -> mx.array:
    powers = mx.exp(x - mx.max(x, axis=-1, keepdims=True))
    return powers / mx.sum(powers, axis=-1, keepdims=True)


def composed_logsumexp(x: mx.array) -> mx.array:
    peak = mx.max(x, axis=-1, keepdims=True)
    return peak + mx.log(mx.sum(mx.exp(x - peak), axis=-1, keepdims=True))


def rows_for_online_kernels() -> NDArray[np.float32]:
    """Return a ramp, each of whose numbers is the largest so far, and a large one before others."""
    random = np.random.default_rng(7)
    others = random.uniform(-16.8, -16.5, 1023)
    return np.stack([np.linspace(0, 1, 1024), np.append(0.25, others)]).astype(np.float32)


@pytest.mark.parametrize(
    "function", [composed_logsumexp, lambda x: mx.logsumexp(x, axis=-1, keepdims=True)]
)
def test_an_online_logsumexp_may_lose_what_it_rescales_and_what_is_next_to_nothing(
    function: Callable[[mx.array], mx.array],
) -> None:
    x = rows_for_online_kernels()
    case = case_of(function, x)
    peak, total = online(x)
    assert passes(case, peak + np.log(total))
    assert not passes(case, peak + np.log(total * np.float32(1 + 1e-3)))


@pytest.mark.parametrize("function", [composed_softmax, lambda x: mx.softmax(x, axis=-1)])
def test_an_online_softmax_may_lose_what_it_rescales_and_what_is_next_to_nothing(
    function: Callable[[mx.array], mx.array],
) -> None:
    x = rows_for_online_kernels()
    case = case_of(function, x)
    peak, total = online(x)
    assert passes(case, np.exp(x - peak) / total)
    assert not passes(case, np.exp(x - peak) / (total * np.float32(1 + 1e-3)))


def test_what_a_sum_of_weights_loses_moves_their_products_all_one_way() -> None:
    x = rows_for_online_kernels()[1:]
    values = np.linspace(0, 1, 1024, dtype=np.float32)[:, None]
    case = case_of(shares, x, values)
    peak, total = online(x)
    found = np.cumsum(np.exp(x - peak) * values[:, 0], axis=-1)[:, -1:] / total
    assert passes(case, found)
    assert not passes(case, found * np.float32(1 + 1e-3))


def test_rows_in_no_order_allow_nothing_for_rescaling() -> None:
    x = np.random.default_rng(8).standard_normal((4, 1024)).astype(np.float32)
    limits = [
        case_of(lambda x: mx.logsumexp(x, axis=-1), rows).expected_outputs[0].element_tolerance
        for rows in (x, np.sort(x))
    ]
    assert limits[0] is not None
    assert limits[1] is not None
    assert (limits[0] < 2e-5).all()
    assert (limits[1] > 1.5 * limits[0]).all()


def test_weights_next_to_one_are_all_rounded_alike() -> None:
    x = (1e-5 * np.random.default_rng(9).standard_normal((2, 2048))).astype(np.float32)
    case = case_of(lambda x: mx.softmax(x, axis=-1), x)
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    total = np.cumsum(powers, axis=-1)[:, -1:]
    assert np.abs(total / powers.sum(axis=-1, keepdims=True, dtype=np.float64) - 1).max() > 1.4e-5
    assert passes(case, powers / total)
    assert not passes(case, powers / (total * np.float32(1 + 5e-4)))
