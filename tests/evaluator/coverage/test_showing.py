"""Numbers are ranked the same by a table of 16 bits as by an order of all of them."""

import ml_dtypes
import numpy as np
import pytest

from kernelwright.evaluator.coverage.showing import Showing, _Ranks
from kernelwright.evaluator.stages.trial import Trial
from kernelwright.metal.device.executable import Array


def _drawn(dtype: object, shape: tuple[int, ...], seed: int) -> Array:
    drawn = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    flat = drawn.reshape(-1)
    flat[:6] = (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0)
    return drawn.astype(np.dtype(dtype))  # type: ignore[call-overload]


@pytest.mark.parametrize("dtypes", [("float16", "float16"), ("float16", "float32")])
@pytest.mark.parametrize("first", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_ranks_are_the_order_of_all_floats(first: object, dtypes: tuple[str, str]) -> None:
    indices = np.arange(4, dtype=np.int32)
    floats = [_drawn(first, (3, 40), 0), *(_drawn(d, (50,), 1 + i) for i, d in enumerate(dtypes))]
    ranks = _Ranks.of((floats[0], indices, *floats[1:]))
    assert ranks is not None
    every = np.concatenate([a.astype(np.float32).reshape(-1) for a in floats])
    values, places = np.unique(every, return_inverse=True)
    np.testing.assert_array_equal(ranks.values, values[:-1])
    assert ranks.places[1] is None
    found = [p for p in ranks.places if p is not None]
    assert [p.shape for p in found] == [a.shape for a in floats]
    np.testing.assert_array_equal(np.concatenate([p.reshape(-1) for p in found]), places)


def test_no_floats_have_no_ranks() -> None:
    assert _Ranks.of((np.arange(3, dtype=np.int32),)) is None


@pytest.mark.parametrize("number", [np.nan, -np.inf, 0.0, 1.5])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize("shapes", [((),), ((4, 8), ()), ((), ())])
def test_inputs_without_an_axis_are_given_other_values_too(
    shapes: tuple[tuple[int, ...], ...], dtype: object, number: float
) -> None:
    inputs = tuple(np.full(s, number, np.dtype(dtype)) for s in shapes)  # type: ignore[call-overload]
    showing = Showing(Trial.__new__(Trial), (), np.random.default_rng(0))
    made = showing._relabelled(inputs, _Ranks.of(inputs), keeps_zero=False)
    assert [(a.shape, a.dtype) for a in made] == [(a.shape, a.dtype) for a in inputs]
    assert all(isinstance(a, np.ndarray) for a in made)
