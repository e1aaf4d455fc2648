"""Yardsticks: what an output may differ by, and what it may not."""

import numpy as np
import pytest

from kernelwright.evaluator.oracle.accuracy import (
    Yardstick,
    floor_of,
    measure,
    row_length,
    row_scale,
)
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.base import Array


def yardstick(expected: Array, dtype: Dtype = Dtype.FLOAT32, bound: float = 1e-5) -> Yardstick:
    return Yardstick(TensorType(expected.shape, dtype), Tolerance.of(dtype), expected, bound, 0.0)


ROWS = np.random.default_rng(0).standard_normal((4, 64))


def test_the_rounded_oracle_is_right() -> None:
    assert measure(ROWS.astype(np.float32), yardstick(ROWS)).is_acceptable


def test_an_output_without_dimensions_is_measured() -> None:
    whole = np.array(2.5)
    assert measure(whole.astype(np.float32), yardstick(whole)).is_acceptable
    assert not measure(np.array(2.6, np.float32), yardstick(whole)).is_acceptable


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (ROWS.astype(np.float32)[:3], "expected f32[4,64]"),
        (ROWS.astype(np.float16), "expected f32[4,64]"),
        (ROWS.astype(np.float32).reshape(64, 4), "expected f32[4,64]"),
    ],
)
def test_shape_and_dtype_come_before_values(found: Array, problem: str) -> None:
    assert problem in measure(found, yardstick(ROWS)).problem


@pytest.mark.parametrize(
    ("wanted", "given", "problem"),
    [
        (np.nan, 0.0, "is not NaN where it must be"),
        (0.0, np.nan, "is NaN where it must not be"),
        (np.inf, -np.inf, "Inf"),
        (np.inf, 3e38, "is not \\+Inf where it must be".replace("\\", "")),
        (-np.inf, np.nan, "NaN"),
    ],
)
def test_what_is_not_finite_must_agree_in_kind_and_sign(
    wanted: float, given: float, problem: str
) -> None:
    expected, found = ROWS.copy(), ROWS.astype(np.float32)
    expected[2, 5], found[2, 5] = wanted, given
    deviation = measure(found, yardstick(expected))
    assert problem in deviation.problem
    assert deviation.bad.sum() == 1


def test_a_value_beyond_the_format_must_be_infinite() -> None:
    expected = np.full((1, 64), 7e4)
    half = yardstick(expected, Dtype.FLOAT16)
    assert measure(np.full((1, 64), np.inf, np.float16), half).is_acceptable
    assert not measure(np.full((1, 64), 65504, np.float16), half).is_acceptable


def test_small_outputs_are_not_excused_by_the_absolute_tolerance() -> None:
    softmax_of_wide_rows = np.full((4, 4096), 1 / 4096) * 1e-3
    zeros = np.zeros((4, 4096), np.float32)
    deviation = measure(zeros, yardstick(softmax_of_wide_rows))
    assert "row-relative error of 1" in deviation.problem


def test_a_flushed_denormal_is_no_error() -> None:
    expected = np.full((2, 32), 1e-40)
    assert measure(np.zeros((2, 32), np.float32), yardstick(expected)).is_acceptable


def test_unstable_elements_count_for_nobody() -> None:
    expected = np.arange(8)
    strict = Yardstick(TensorType((8,), Dtype.INT32), Tolerance(0, 0), expected, 0, 0)
    found = expected.astype(np.int32)
    found[3] = 7
    assert measure(found, strict).bad.tolist() == [i == 3 for i in range(8)]
    unstable = np.arange(8) == 3
    lenient = Yardstick(TensorType((8,), Dtype.INT32), Tolerance(0, 0), expected, 0, 0, unstable)
    assert measure(found, lenient).is_acceptable


@pytest.mark.parametrize(("dtype", "beyond"), [(Dtype.FLOAT32, 1e300), (Dtype.FLOAT16, 1e5)])
def test_what_a_format_cannot_hold_gives_a_row_no_size(dtype: Dtype, beyond: float) -> None:
    rows = np.full((2, 64), 3.0)
    rows[1, ::2] = beyond
    plain, half_full = row_scale(rows, dtype)
    assert plain == pytest.approx(3.0)
    assert half_full == pytest.approx(3.0 / np.sqrt(2.0))


@pytest.mark.parametrize(
    ("shape", "length"), [((4, 64), 64), ((4, 8), 32), ((7, 1), 7), ((2, 3, 16), 48), ((), 1)]
)
def test_short_rows_are_joined(shape: tuple[int, ...], length: int) -> None:
    assert row_length(shape) == length


def test_the_floor_lies_between_sound_and_lower_precision() -> None:
    for dtype, lower in ((Dtype.FLOAT32, 2.0**-11), (Dtype.BFLOAT16, 2.0**-4)):
        assert dtype.epsilon <= floor_of(dtype, 1024, 10) < lower


@pytest.mark.parametrize(
    ("changes", "allowed", "passes"),
    [
        ({3: 1}, 0.0, False),
        ({3: 1, 7: -1}, 0.1, True),
        ({3: 2}, 0.1, False),
        (dict.fromkeys(range(9), 1), 0.1, False),
    ],
)
def test_integers_may_be_one_off_in_so_many_places_as_mlx_earns(
    changes: dict[int, int], allowed: float, passes: bool
) -> None:
    expected = np.arange(64, dtype=np.int8)
    exact = Yardstick(
        TensorType((64,), Dtype.INT8), Tolerance.of(Dtype.INT8), expected, 0.0, 0.0, steps=allowed
    )
    found = expected.copy()
    for place, change in changes.items():
        found[place] += change
    assert measure(found, exact).is_acceptable is passes
