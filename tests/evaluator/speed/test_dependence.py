"""What must be read again, and how many functions must be computed, whatever the kernel."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.evaluator.speed.dependence import Group, largest_group
from kernelwright.evaluator.speed.least_functions import least_functions
from kernelwright.ir import capture

Function = Callable[[mx.array], mx.array]


def _normalized(x: mx.array, axes: tuple[int, ...]) -> mx.array:
    away = x - x.mean(axis=axes, keepdims=True)
    return away * mx.rsqrt((away**2).mean(axis=axes, keepdims=True) + 1e-5)


def _by_groups(x: mx.array) -> mx.array:
    grouped = x.reshape(2, 48, 4, 2)
    return _normalized(grouped, (1, 3)).reshape(x.shape)


def _by_rows_and_columns(x: mx.array) -> mx.array:
    return x / (x.sum(axis=1, keepdims=True) + x.sum(axis=2, keepdims=True))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x * 2 + 1, None),
        (lambda x: x.sum(axis=-1), None),
        (lambda x: x.sum(axis=-1) / x.sum(), None),
        (lambda x: mx.cumsum(x, axis=1), None),
        (lambda x: x / x.sum(), Group(4 * 768, 1, "sum")),
        (lambda x: _normalized(x, (-1,)), Group(4 * 8, 96, "sum")),
        (lambda x: _normalized(x, (1,)), Group(4 * 48, 16, "sum")),
        (lambda x: mx.softmax(x, axis=-1), Group(4 * 8, 96, "softmax")),
        (lambda x: _normalized(x.transpose(0, 2, 1), (2,)), Group(4 * 48, 16, "sum")),
        (_by_groups, Group(4 * 96, 8, "sum")),
        (_by_rows_and_columns, Group(4 * 55, 13, "sum")),
    ],
)
def test_a_map_waits_for_what_its_reductions_read(
    function: Function, expected: Group | None
) -> None:
    assert largest_group(capture(function, mx.zeros((2, 48, 8)))) == expected


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x**2 / x, 0),
        (lambda x: mx.exp(x), 768),
        (lambda x: mx.exp(x) + mx.exp(x), 768),
        (lambda x: mx.exp(mx.broadcast_to(x[:, :, :, None], (2, 48, 8, 5))), 768),
        (lambda x: mx.exp(mx.arange(8, dtype=mx.float32)) * x, 0),
        (lambda x: mx.exp(x[0, :, :1] - x[0, :1]), 384),
        (lambda x: mx.softmax(x, axis=-1), 768),
        (lambda x: x * mx.rsqrt(x.sum(axis=-1, keepdims=True)), 96),
        (lambda x: mx.tanh(x.reshape(96, 8).T), 768),
    ],
)
def test_functions_of_different_arguments_count_once(function: Function, expected: int) -> None:
    assert least_functions(capture(function, mx.zeros((2, 48, 8)))) == expected
