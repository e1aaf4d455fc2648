"""Outputs are held to the rounded oracle, and to each element's tolerance where they differ."""

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.accuracy import (
    accepts,
    measure,
    row_length,
    same_but_for_nan,
)
from kernelwright.evaluator.oracle.expected_output import ExpectedOutput, expected_output
from kernelwright.evaluator.oracle.tracked import Tracked
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype

Reals = NDArray[np.float64]
ROWS = np.random.default_rng(0).standard_normal((4, 64))


def wanted(
    values: NDArray[np.generic],
    dtype: Dtype = Dtype.FLOAT32,
    error: float | Reals | None = None,
    *,
    is_stored: bool = False,
) -> ExpectedOutput:
    wide = None if error is None else np.broadcast_to(np.asarray(error, float), values.shape)
    tracked = Tracked(values, wide, dtype, is_stored)  # type: ignore[arg-type]
    return expected_output(tracked, TensorType(values.shape, dtype), Tolerance.of(dtype))


def passes(found: NDArray[np.generic], one: ExpectedOutput) -> bool:
    """Ask both judges, which must agree."""
    assert measure(found, one).is_acceptable is accepts(one, found)
    return accepts(one, found)


@pytest.mark.parametrize("dtype", [Dtype.FLOAT32, Dtype.FLOAT16, Dtype.BFLOAT16], ids=str)
def test_without_error_nothing_but_the_rounded_oracle_is_right(dtype: Dtype) -> None:
    right = ROWS.astype(dtype.numpy)
    assert passes(right, wanted(ROWS, dtype))
    bits = right.view(f"u{dtype.itemsize}").copy()
    bits[2, 5] += 1
    assert not passes(bits.view(dtype.numpy), wanted(ROWS, dtype))


@pytest.mark.parametrize("dtype", [Dtype.FLOAT16, Dtype.BFLOAT16], ids=str)
def test_truncation_is_no_rounding(dtype: Dtype) -> None:
    spare = np.uint32({Dtype.FLOAT16: 13, Dtype.BFLOAT16: 16}[dtype])
    bits = ROWS.astype(np.float32).view(np.uint32)
    cut = (bits >> spare << spare).view(np.float32).astype(dtype.numpy)
    noise = 4 * 2.0**-24 * np.abs(ROWS)
    assert passes(ROWS.astype(dtype.numpy), wanted(ROWS, dtype, noise))
    assert not passes(cut, wanted(ROWS, dtype, noise))


def test_a_value_near_a_tie_may_be_rounded_either_way() -> None:
    step, noise = 2.0**-10, 2.0**-22
    ideal = np.array([1 + step / 2 + noise / 2, 1 + step / 2 + 8 * noise])
    one = wanted(ideal, Dtype.FLOAT16, noise)
    assert passes(np.array([1 + step, 1 + step], np.float16), one)
    assert passes(np.array([1, 1 + step], np.float16), one)
    assert not passes(np.array([1 + step, 1], np.float16), one)


def test_an_output_without_dimensions_is_measured() -> None:
    whole = np.array(2.5)
    assert passes(whole.astype(np.float32), wanted(whole))
    assert not passes(np.array(2.6, np.float32), wanted(whole))


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (ROWS.astype(np.float32)[:3], "expected f32[4,64]"),
        (ROWS.astype(np.float16), "expected f32[4,64]"),
        (ROWS.astype(np.float32).reshape(64, 4), "expected f32[4,64]"),
    ],
)
def test_shape_and_dtype_come_before_values(found: NDArray[np.generic], problem: str) -> None:
    assert problem in measure(found, wanted(ROWS)).problem


@pytest.mark.parametrize(
    ("right", "given", "problem"),
    [
        (np.nan, 0.0, "is not NaN where it must be"),
        (0.0, np.nan, "is NaN where it must not be"),
        (np.inf, -np.inf, "Inf"),
        (np.inf, 3e38, "is not +Inf where it must be"),
        (-np.inf, np.nan, "NaN"),
    ],
)
def test_what_is_not_finite_must_agree_in_kind_and_sign(
    right: float, given: float, problem: str
) -> None:
    expected, found = ROWS.copy(), ROWS.astype(np.float32)
    expected[2, 5], found[2, 5] = right, given
    deviation = measure(found, wanted(expected, error=1e-3))
    assert problem in deviation.problem
    assert deviation.bad.sum() == 1


def test_a_value_beyond_the_format_must_be_infinite() -> None:
    half = wanted(np.full((1, 64), 7e4), Dtype.FLOAT16, 1.0)
    assert passes(np.full((1, 64), np.inf, np.float16), half)
    assert not passes(np.full((1, 64), 65504, np.float16), half)


def test_who_overflows_by_a_rounding_is_not_judged() -> None:
    edge = wanted(np.array([65519.9, 100.0]), Dtype.FLOAT16, np.array([1.0, 1e-3]))
    assert edge.ignored_elements == 1
    assert passes(np.array([np.inf, 100], np.float16), edge)
    assert passes(np.array([65504, 100], np.float16), edge)
    assert not passes(np.array([65504, 101], np.float16), edge)


def test_nan_has_any_sign_and_moved_zeros_keep_theirs() -> None:
    values = np.array([0.0, -0.0, np.nan, 2.0])
    found = np.array([0.0, -0.0, np.nan, 2.0], np.float32)
    found[2] = -found[2]
    moved, computed = wanted(values, is_stored=True), wanted(values)
    assert passes(found, moved)
    turned = found.copy()
    turned[:2] = -turned[:2]
    assert passes(turned, computed)
    assert "zeros of the other sign" in measure(turned, moved).problem


def test_small_outputs_are_not_excused_by_an_absolute_tolerance() -> None:
    small = np.full((4, 4096), 1e-3 / 4096)
    zeros = np.zeros((4, 4096), np.float32)
    assert not passes(zeros, wanted(small, error=small * 1e-6))


def test_a_flushed_denormal_is_no_error_unless_it_was_only_moved() -> None:
    small, zeros = np.full((2, 32), 2.0**-130), np.zeros((2, 32), np.float32)
    assert passes(zeros, wanted(small))
    assert not passes(zeros, wanted(small, is_stored=True))


def test_integers_may_differ_only_where_a_rounding_decides() -> None:
    expected = np.arange(8, dtype=np.int64)
    one = wanted(expected, Dtype.INT8, (expected == 3).astype(float))
    found = expected.astype(np.int8)
    found[3] += 1
    assert passes(found, one)
    found[3] += 1
    assert not passes(found, one)
    found[3], found[4] = 3, 5
    assert not passes(found, one)


def test_what_a_rounding_changes_wholly_is_counted_and_not_judged() -> None:
    expected = np.arange(8, dtype=np.int64)
    one = wanted(expected, Dtype.INT32, np.where(expected == 3, np.nan, 0.0))
    assert (one.ignored_elements, one.judged_elements) == (1, 7)
    found = expected.astype(np.int32)
    found[3] = 700
    assert passes(found, one)


@pytest.mark.parametrize(
    ("shape", "length"), [((4, 64), 64), ((4, 8), 32), ((7, 1), 7), ((2, 3, 16), 48), ((), 1)]
)
def test_short_rows_are_joined(shape: tuple[int, ...], length: int) -> None:
    assert row_length(shape) == length


def test_a_signalling_nan_is_refused_without_a_warning() -> None:
    found = ROWS.astype(np.float32)
    found.view(np.uint32)[1, 3] = 0x7F800001
    judgement = measure(found, wanted(ROWS))
    assert not judgement.is_acceptable


@pytest.mark.parametrize("size", [5, 200_000])
@pytest.mark.parametrize(("place", "is_same"), [(None, True), (0, False), (-1, False)])
def test_nan_of_any_payload_are_alike_and_nothing_else_is(
    size: int, place: int | None, is_same: bool
) -> None:
    one = np.arange(size, dtype=np.float32)
    one[2] = np.nan
    other = one.copy()
    other.view(np.uint32)[2] |= 1
    if place is not None:
        other[place] = np.nextafter(other[place], np.float32(np.inf))

    assert same_but_for_nan(one, other) is is_same


def test_zeros_of_two_signs_are_not_alike() -> None:
    assert not same_but_for_nan(np.zeros(3, np.float16), -np.zeros(3, np.float16))
