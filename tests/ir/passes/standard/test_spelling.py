"""What is equal by algebra has one standard form, and what differs at NaN has its own."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import canonicalize, capture, interpret, standardize

X, W = mx.zeros((4, 8)), mx.zeros((8,))
Function = Callable[[mx.array, mx.array], mx.array]
EQUAL: dict[str, list[Function]] = {
    "square": [
        lambda x, w: mx.square(x),
        lambda x, w: x * x,
        lambda x, w: x**2,
        lambda x, w: mx.square(-x),
        lambda x, w: (-x) * (-x),
        lambda x, w: mx.abs(x) * mx.abs(x),
    ],
    "opposite": [
        lambda x, w: -x,
        lambda x, w: 0 - x,
        lambda x, w: x * -1,
        lambda x, w: x / -1,
    ],
    "difference": [
        lambda x, w: x - w,
        lambda x, w: x + (-w),
        lambda x, w: -w + x,
        lambda x, w: -(w - x),
        lambda x, w: x + w * -1,
    ],
    "sum": [lambda x, w: x + w, lambda x, w: x - (-w)],
    "double": [lambda x, w: x + x, lambda x, w: 2 * x, lambda x, w: x / 0.5],
    "rectifier": [
        lambda x, w: mx.maximum(x, 0),
        lambda x, w: mx.where(x <= 0, 0, x),
        lambda x, w: mx.where(x < 0, 0, x),
        lambda x, w: mx.where(mx.logical_not(x < 0), x, 0),
    ],
    "rectifier of no NaN": [
        lambda x, w: mx.where(x > 0, x, 0),
        lambda x, w: mx.where(x >= 0, x, 0),
        lambda x, w: mx.where(mx.logical_not(x > 0), 0, x),
    ],
    "size": [
        lambda x, w: mx.abs(x),
        lambda x, w: mx.maximum(x, -x),
        lambda x, w: mx.maximum(-x, x),
        lambda x, w: mx.where(x > 0, x, -x),
        lambda x, w: mx.where(x < 0, -x, x),
    ],
    "clip": [
        lambda x, w: mx.clip(x, -1, 2),
        lambda x, w: mx.minimum(mx.maximum(x, -1), 2),
        lambda x, w: mx.maximum(mx.minimum(x, 2), -1),
    ],
    "greater of two": [
        lambda x, w: mx.maximum(mx.exp(x), w),
        lambda x, w: mx.maximum(w, mx.exp(x)),
    ],
}
NUMBERS = np.array([0.0, -0.0, 1.5, -1.5, 3.0, np.inf, -np.inf, np.nan], np.float32)


def form(function: Function) -> str:
    return standardize(canonicalize(capture(function, X, W))).fingerprint


@pytest.mark.parametrize("name", EQUAL)
def test_equal_functions_are_one_task(name: str) -> None:
    assert len({form(function) for function in EQUAL[name]}) == 1


@pytest.mark.parametrize("name", EQUAL)
def test_the_one_form_gives_what_each_text_gives(name: str) -> None:
    x, w = mx.array(np.stack([NUMBERS] * 4)), mx.array(NUMBERS[::-1].copy())
    for function in EQUAL[name]:
        (made,) = interpret(standardize(canonicalize(capture(function, X, W))), x, w)
        assert mx.array_equal(made, function(x, w), equal_nan=True)


def test_what_differs_at_nan_or_where_numbers_cross_is_another_task() -> None:
    assert form(EQUAL["rectifier"][0]) != form(EQUAL["rectifier of no NaN"][0])
    crossed = form(lambda x, w: mx.maximum(mx.minimum(x, -1), 2))
    assert crossed != form(lambda x, w: mx.minimum(mx.maximum(x, 2), -1))
