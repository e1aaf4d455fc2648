"""How large the numbers of the kinds are that go to the ends of a format."""

import numpy as np
import pytest

from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.draw import draw
from kernelwright.evaluator.inputs.far_rows import limits_of
from kernelwright.ir.graph.dtype import Dtype

WIDE = [Dtype.FLOAT32, Dtype.BFLOAT16]


def squares(kind: Distribution, dtype: Dtype) -> np.ndarray:
    x = draw(kind, (64, 50), dtype, np.random.default_rng(5)).astype(np.float64)
    return np.asarray(np.sum(x**2, axis=1))


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_sums_of_small_squares_lie_on_both_sides_of_any_epsilon(dtype: Dtype) -> None:
    sums = squares(Distribution.SMALL, dtype)
    for epsilon in (1e-5, 1e-8, 1e-12):
        assert ((sums > epsilon / 100) & (sums < 100 * epsilon)).any()


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_products_of_sums_of_huge_squares_overflow(dtype: Dtype) -> None:
    sums = squares(Distribution.HUGE, dtype)
    largest = float(np.finfo(np.float32).max)
    assert (sums < largest).all()
    assert (sums**2 > largest).any()


def test_some_rows_lie_below_what_a_maximum_is_often_started_with() -> None:
    rows = draw(Distribution.EXTREME, (60, 50), Dtype.FLOAT32, np.random.default_rng(6))
    assert (rows.max(axis=1) < -1e30).sum() > 5


def test_some_rows_have_two_nan_in_one_lane() -> None:
    rows = draw(Distribution.NAN, (60, 300), Dtype.FLOAT32, np.random.default_rng(6))
    places = [np.flatnonzero(np.isnan(row)) for row in rows]
    apart = {int(np.ptp(p)) for p in places if len(p) == 2}
    assert {32, 64} <= apart
    assert all(distance % 32 == 0 for distance in apart)
    assert sum(len(p) == 1 for p in places) >= 40


@pytest.mark.parametrize("length", [1, 2, 31, 33])
def test_short_rows_hold_what_they_can_of_two_nan(length: int) -> None:
    rows = draw(Distribution.NAN, (8, length), Dtype.FLOAT32, np.random.default_rng(6))
    assert np.isnan(rows).any(axis=1).all()


@pytest.mark.parametrize("kind", [Distribution.MASKED, Distribution.SENTINEL], ids=str)
@pytest.mark.parametrize("count", [2, 3, 24])
def test_masks_leave_ends_starts_or_a_few_of_a_row(kind: Distribution, count: int) -> None:
    left: list[int] = []
    for seed in range(24 // count * 4):
        rows = draw(kind, (count, 4096), Dtype.FLOAT32, np.random.default_rng(seed))
        left += [int(n) for n in (rows > -1e8).sum(axis=1)]
    assert {1, 2} & set(left)
    assert any(2700 < n < 3000 for n in left)
    assert any(2 < n < 2600 or 3100 < n < 4096 for n in left)


def test_a_row_is_infinite_throughout() -> None:
    rows = draw(Distribution.INFINITE, (6, 40), Dtype.FLOAT32, np.random.default_rng(6))
    assert (rows == np.inf).all(axis=1).sum() == 1


@pytest.mark.parametrize("dtype", [*WIDE, Dtype.FLOAT16], ids=str)
def test_a_nan_stands_before_and_behind_each_kind_of_far_number_in_its_lane(dtype: Dtype) -> None:
    rows = draw(Distribution.BESIDE_NAN, (240, 300), dtype, np.random.default_rng(6))
    end = limits_of(dtype)[0]
    seen = set[tuple[bool, str]]()
    for row in rows:
        (nan,) = np.flatnonzero(np.isnan(row))
        far = np.flatnonzero(np.abs(row) > 100)
        nearest = far[np.argmin(np.abs(far - nan))]
        assert abs(nearest - nan) in {1, 32, 64, 128, 256, 288}
        value = row[nearest]
        size = "hundreds" if abs(value) < 2000 else "large" if abs(value) <= end else str(value)
        seen.add((bool(nearest < nan), size))
    kinds = ("hundreds", "large", "inf", "-inf")
    assert seen >= {(is_first, kind) for is_first in (True, False) for kind in kinds}


def test_a_nan_stands_below_and_above_a_far_number() -> None:
    rows = draw(Distribution.BESIDE_NAN, (40, 300), Dtype.FLOAT32, np.random.default_rng(6))
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert abs(first[np.isnan(second)]) > 100
        assert abs(second[np.isnan(first)]) > 100


@pytest.mark.parametrize("length", [1, 2, 31, 33])
@pytest.mark.parametrize("kind", [Distribution.BESIDE_NAN, Distribution.NEAR_ENDS], ids=str)
def test_short_rows_hold_what_they_can_of_far_numbers(kind: Distribution, length: int) -> None:
    rows = draw(kind, (9, length), Dtype.FLOAT32, np.random.default_rng(6))
    assert np.isnan(rows).any(axis=1).all() == (kind is Distribution.BESIDE_NAN)


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_sums_near_the_end_have_room_where_large_multiples_overflow(dtype: Dtype) -> None:
    rows = draw(Distribution.NEAR_ENDS, (64, 50), dtype, np.random.default_rng(6))
    largest = float(np.finfo(np.float32).max)
    sizes = np.abs(rows.astype(np.float64))
    assert np.isfinite(rows).all()
    assert (2.0**24 * sizes.sum(axis=1) < largest).all()
    for power in (28, 60):
        assert (sizes.sum(axis=1) * 2.0**power > largest).sum() > 12
    squares = (sizes**2).sum(axis=1)
    assert ((squares < largest) & (squares > largest / 2**28)).sum() > 8


def test_rows_near_the_least_number_lose_bits_where_they_are_scaled_down() -> None:
    rows = draw(Distribution.NEAR_ENDS, (64, 50), Dtype.FLOAT32, np.random.default_rng(6))
    low = rows[np.abs(rows).max(axis=1) < 1e-30]
    assert len(low) == 16
    assert (np.abs(low) >= 2.0**-126).all()
    scaled = (low * np.float32(2.0**-12)) * np.float32(2.0**12)
    assert (scaled != low).mean() > 0.5
