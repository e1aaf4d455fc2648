"""What outputs hang on: inputs, roundings on the way, flags alone."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.evaluator.oracle.dependence import constant_outputs, discrete_outputs, precisions
from kernelwright.ir import Dtype, Graph, canonicalize, capture

X = mx.ones((4, 8))
FLAGS = mx.array([True, False, True, True])


def graph_of(function: Callable[..., object], *arrays: mx.array) -> Graph:
    return canonicalize(capture(function, *arrays))


@pytest.mark.parametrize(
    ("function", "fixed"),
    [
        (lambda x: (mx.arange(8) * 2.0, x + 1), {0}),
        (lambda x: mx.where(mx.arange(8) >= 8, mx.exp(x), 0.0), {0}),
        (lambda x: mx.where(mx.arange(8) >= 7, mx.exp(x), 0.0), set()),
        (lambda x: (x * 0.0, x * 2.0), {0}),
        (lambda x: x * 0.0 + x, set()),
    ],
)
def test_an_output_that_no_input_can_change_is_seen(
    function: Callable[..., object], fixed: set[int]
) -> None:
    assert constant_outputs(graph_of(function, X)) == fixed


@pytest.mark.parametrize(
    ("function", "arrays", "dtypes"),
    [
        (lambda x: mx.exp(x).astype(mx.bfloat16).astype(mx.float32), [X], [Dtype.BFLOAT16]),
        (lambda x: mx.exp(x.astype(mx.float32)), [X.astype(mx.float16)], [Dtype.FLOAT32]),
        (lambda x: mx.exp(x).astype(mx.float32), [X.astype(mx.float16)], [Dtype.FLOAT16]),
        (lambda x: (x > 0, mx.exp(x)), [X], [Dtype.BOOL, Dtype.FLOAT32]),
    ],
)
def test_an_output_is_as_exact_as_the_coarsest_rounding_before_it(
    function: Callable[..., object], arrays: list[mx.array], dtypes: list[Dtype]
) -> None:
    assert list(precisions(graph_of(function, *arrays))) == dtypes


def test_a_mask_made_of_flags_has_no_digits_to_lose() -> None:
    def masks(flags: mx.array, x: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        mask = mx.where(flags, 0.0, -mx.inf)
        return mask, mx.exp(flags.astype(mx.float32)), x + mask[:, None]

    assert discrete_outputs(graph_of(masks, FLAGS, X)) == {0}


def test_whole_numbers_have_no_digits_to_lose_until_they_are_scaled() -> None:
    def levels(x: mx.array) -> tuple[mx.array, mx.array]:
        level = mx.clip(mx.round(x * 3.7), -128, 127)
        return level, level * 0.1

    assert discrete_outputs(graph_of(levels, X)) == {0}
