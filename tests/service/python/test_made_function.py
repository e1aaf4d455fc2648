"""Functions that one line makes differ by what they keep, and by nothing else."""

from collections.abc import Callable
from functools import partial

import mlx.core as mx
import pytest

from kernelwright.service.python.made_function import values_kept

Function = Callable[..., object]
Factor = float | mx.array


def _scaled(factor: Factor) -> Function:
    def scaled(x: mx.array) -> mx.array:
        return x * factor

    return scaled


def _defaulting(factor: Factor) -> Function:
    return lambda x, factor=factor: x * factor


def _holding(value: object) -> Function:
    return lambda: value


def _recursive(factor: Factor) -> Function:
    def again(x: mx.array, count: int = 3) -> object:
        return again(x * factor, count - 1) if count else x

    return again


@pytest.mark.parametrize(
    "make",
    [
        _scaled,
        _defaulting,
        _recursive,
        lambda factor: partial(mx.multiply, factor),
        lambda factor: mx.compile(_scaled(factor)),
        lambda factor: _holding({"factors": [factor]}),
        lambda factor: _holding(_scaled(factor)),
    ],
)
@pytest.mark.parametrize(
    ("one", "other"), [(2.0, 3.0), (mx.array([1.0, 2.0]), mx.array([1.0, 3.0]))]
)
def test_what_is_kept_tells_functions_apart(
    make: Callable[[Factor], Function], one: Factor, other: Factor
) -> None:
    assert values_kept(make(one)) == values_kept(make(one))
    assert values_kept(make(one)) != values_kept(make(other))
