"""How large the numbers of the kinds are that go to the ends of a format."""

import numpy as np
import pytest

from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.draw import draw
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
