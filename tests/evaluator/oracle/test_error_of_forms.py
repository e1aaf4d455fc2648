"""A formula written in its other usual form is right, and no wider a mistake than that."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.evaluator.oracle.test_running_error import case_of, passes


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_one_plus_tanh_may_be_a_logistic(factor: float) -> None:
    x = (np.random.default_rng(0).standard_normal(4000) * 1e-3).astype(np.float32)
    one = case_of(lambda x: x * (factor + factor * mx.tanh(x)), x)
    step = np.float32(1) / (np.float32(1) + np.exp(np.float32(-2) * x))
    assert passes(one, x * (np.float32(2 * factor) * step))
    assert not passes(one, x * (np.float32(2 * factor) * step) * np.float32(1.000005))


def test_a_sum_of_something_else_and_tanh_is_rounded_once() -> None:
    x = np.linspace(1, 1.9, 50, dtype=np.float32)
    one = case_of(lambda x: x + mx.tanh(x * 1e-3), x)
    right = one.expected_outputs[0].rounded.astype(np.float32)
    assert passes(one, right)
    assert not passes(one, right + np.float32(8 * 2.0**-23))


def log_weights(x: mx.array) -> mx.array:
    return x - mx.logsumexp(x, axis=-1, keepdims=True)


def written_out(x: mx.array) -> mx.array:
    peak = mx.max(x, axis=-1, keepdims=True)
    return x - (peak + mx.log(mx.sum(mx.exp(x - peak), axis=-1, keepdims=True)))


@pytest.mark.parametrize("function", [log_weights, written_out])
def test_a_maximum_may_be_subtracted_before_a_logarithm(
    function: Callable[[mx.array], mx.array],
) -> None:
    normal = np.random.default_rng(0).standard_normal((200, 65))
    x: NDArray[np.float32] = (normal * 600).astype(np.float32)
    one = case_of(function, x)
    peak = x.max(axis=-1, keepdims=True)
    lower = x - peak
    found = lower - np.log(np.exp(lower).sum(axis=-1, keepdims=True))
    assert passes(one, found)
    assert not passes(one, found * np.float32(1 + 2.0**-20))


@pytest.mark.parametrize("scale", [1.0, 1.02])
def test_weights_of_an_attention_may_be_rounded_to_the_type_of_its_values(scale: float) -> None:
    def attend(x: mx.array) -> mx.array:
        return mx.fast.scaled_dot_product_attention(x[0], x[1], x[2], scale=0.25)

    x = np.random.default_rng(0).standard_normal((3, 1, 2, 40, 16)).astype(np.float16)
    one = case_of(attend, x)
    queries, keys, values = x.astype(np.float32)
    scores = queries @ keys.swapaxes(-1, -2) * np.float32(0.25)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    halves = powers.astype(np.float16).astype(np.float32)
    found = halves @ values / powers.sum(axis=-1, keepdims=True)
    assert passes(one, (found * np.float32(scale)).astype(np.float16)) is (scale == 1)
