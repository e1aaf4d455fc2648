"""Products with chosen matrices: what they say, and that no other matrix is made."""

from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.ir.ops.gathered_product import gathered_product, stacked
from kernelwright.ir.ops.op import Array


def _exact(integers: NDArray[np.int64]) -> Array:
    return cast("Array", integers)


@pytest.mark.parametrize("lead", [(5,), (2, 3), (1, 1, 4), (0,)])
@pytest.mark.parametrize("height", [1, 3])
def test_equals_one_product_for_each_place(lead: tuple[int, ...], height: int) -> None:
    numbers = np.random.default_rng(7)
    x = numbers.normal(size=(2, 3, height, 8))
    y = numbers.normal(size=(4, 8, 6))
    left, right = numbers.integers(0, 6, lead), numbers.integers(0, 4, lead)
    made = gathered_product(x, _exact(left), _exact(right), lambda chosen: y[chosen], 6)
    assert made.shape == (*lead, height, 6)
    np.testing.assert_allclose(made, stacked(x)[left] @ y[right], rtol=1e-12)


def test_makes_each_chosen_matrix_once_and_no_other() -> None:
    asked = []

    def matrix(chosen: int) -> NDArray[np.float64]:
        asked.append(chosen)
        return np.ones((8, 6))

    x = np.ones((1, 1, 8))
    right = np.array([[3, 1], [3, 3]])
    gathered_product(x, _exact(np.zeros_like(right)), _exact(right), matrix, 6)
    assert asked == [1, 3]
