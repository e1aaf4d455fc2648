"""Rows of a NaN and a far number: no secret leaves out an order of the two."""

import numpy as np
import pytest

from kernelwright.evaluator.inputs.far_rows import place_beside_nan
from kernelwright.ir.graph.dtype import Dtype


def orders(seed: int) -> set[tuple[bool, float]]:
    """Return which infinities ten rows hold, each with whether the NaN stands before it."""
    values = np.zeros((10, 90), np.float32)
    place_beside_nan(values, Dtype.FLOAT16, np.random.default_rng(seed))
    found = set[tuple[bool, float]]()
    for row in values:
        (nan,) = np.flatnonzero(np.isnan(row))
        far = np.flatnonzero(np.isinf(row))
        found.update((bool(nan < place), float(row[place])) for place in far)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_ten_rows_hold_each_infinity_before_and_behind_a_nan(seed: int) -> None:
    wanted = {(is_first, sign * np.inf) for is_first in (True, False) for sign in (1, -1)}
    assert orders(seed) == wanted
