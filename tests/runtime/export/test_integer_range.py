"""Integers of examples: indices stay in range, others spread over what their use allows."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.ir import canonicalize, capture
from kernelwright.runtime.export.integer_range import integers_of


def _taken(function: Callable[..., object], *arrays: mx.array, place: int = -1) -> range | None:
    return integers_of(canonicalize(capture(function, *arrays)))[place]


def _zeros(dtype: mx.Dtype, *shape: int) -> mx.array:
    return mx.zeros(shape, dtype)


def test_indices_stay_within_their_table() -> None:
    taken = _taken(lambda t, i: t[i], mx.zeros((16, 4)), _zeros(mx.int32, 8))
    assert taken == range(16)


def test_an_index_into_one_row_is_zero() -> None:
    taken = _taken(lambda t, i: t[i], mx.zeros((1, 4)), _zeros(mx.uint32, 8))
    assert taken == range(1)


def test_a_float_that_becomes_an_index_is_one() -> None:
    taken = _taken(lambda t, i: t[i.astype(mx.int32)], mx.zeros((16, 4)), mx.zeros(8))
    assert taken == range(16)


def test_what_an_index_is_computed_of_stays_small() -> None:
    taken = _taken(lambda t, i: t[i * 3], mx.zeros((16, 4)), _zeros(mx.int32, 8))
    assert taken == range(2)


@pytest.mark.parametrize(
    ("dtype", "least", "greatest"),
    [
        (mx.int8, -100, 100),
        (mx.uint8, 5, 240),
        (mx.int16, -250, 250),
        (mx.int64, -250, 250),
        (mx.uint32, 5, 290),
    ],
)
def test_other_integers_reach_over_their_dtype(dtype: mx.Dtype, least: int, greatest: int) -> None:
    taken = _taken(lambda x, n: x * n.astype(mx.float32).sum(), mx.zeros(8), _zeros(dtype, 8))
    assert taken is not None
    assert taken[0] <= least
    assert taken[-1] >= greatest
    assert len(taken) > 35
    assert {n % 6 for n in taken} == set(range(6))


def test_integers_of_exact_functions_reach_to_the_ends_of_their_type() -> None:
    taken = _taken(lambda x: x * 3 + 1, _zeros(mx.int32, 8))
    assert taken is not None
    assert taken[0] == -(1 << 31)
    assert taken[-1] > 1 << 30


def test_divisors_are_positive() -> None:
    taken = _taken(lambda x, n: x // n, _zeros(mx.int32, 8), _zeros(mx.int32, 8))
    assert taken is not None
    assert taken[0] == 1
    assert taken[-1] > 250


def test_packed_words_have_all_their_bits() -> None:
    taken = _taken(
        lambda x, w, s: mx.quantized_matmul(x, w, s, s, bits=4, group_size=64),
        mx.zeros((2, 64)),
        _zeros(mx.uint32, 8, 8),
        mx.zeros((8, 1)),
        place=1,
    )
    assert taken is not None
    assert taken[-1] > 1 << 31


def test_flags_and_fractions_take_no_integers() -> None:
    assert _taken(lambda x, m: mx.where(m, x, 0), mx.zeros(8), _zeros(mx.bool_, 8)) is None
    assert _taken(mx.exp, mx.zeros(8)) is None
