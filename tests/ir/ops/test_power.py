"""Powers of special numbers are those of IEEE 754, whatever NumPy takes a shortcut for."""

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import canonicalize, capture, reference

SPECIAL = np.array([-np.inf, -0.0, 0.0, 4.0, -4.0, np.inf, np.nan], np.float32)


@pytest.mark.parametrize("exponent", [0.5, -0.5, 2.0, 3.0, 1.5])
@pytest.mark.parametrize("length", [1, 7])
def test_a_power_is_that_of_mlx(exponent: float, length: int) -> None:
    x = SPECIAL[:length]
    graph = canonicalize(capture(lambda x: mx.power(x, exponent), mx.array(x)))

    (found,) = reference(graph, [x])

    expected = np.array(mx.power(mx.array(x), exponent))
    assert np.array_equal(found, expected, equal_nan=True)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()
