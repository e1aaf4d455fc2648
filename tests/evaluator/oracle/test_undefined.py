"""Floats beyond the integers that they become: nobody is blamed for what has no answer."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.evaluator.evaluation import Status
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
