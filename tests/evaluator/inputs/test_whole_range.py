"""Integers reach the ends of their type, powers of two, and large neighbours, in pairs."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.suite_plan import visible_cases
from kernelwright.evaluator.inputs.value_domain import domains_of
from kernelwright.ir.graph import Graph
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture

SECRETS = [f"secret {n}" for n in range(5)]
INTEGERS = [mx.int8, mx.int16, mx.int32, mx.int64, mx.uint8, mx.uint16, mx.uint32, mx.uint64]


def graph_of(fn: Callable[..., object], *arrays: mx.array) -> Graph:
    with mx.stream(mx.cpu):
        return canonicalize(capture(fn, *arrays))


def added(a: mx.array, b: mx.array) -> mx.array:
    return a + b


def divided(a: mx.array, b: mx.array) -> mx.array:
    return a // b


def cases_of(graph: Graph, secret: str) -> list[tuple[np.ndarray, ...]]:
    cases = visible_cases(graph, (), EvaluatorConfig(secret=secret))
    return [tuple(np.asarray(a) for a in case.inputs(secret)) for case in cases]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_both_ends_meet_each_other_and_their_neighbours(dtype: mx.Dtype, secret: str) -> None:
    graph = graph_of(added, mx.zeros((9, 100), dtype), mx.zeros((9, 100), dtype))
    drawn = cases_of(graph, secret)
    met = {pair for a, b in drawn for pair in zip(a.flat, b.flat, strict=True)}
    limits = np.iinfo(drawn[0][0].dtype)
    ends = (limits.min, limits.max, limits.min + 1, limits.max - 1)
    assert {(a, b) for a in ends for b in ends} <= met


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("dtype", [mx.int32, mx.uint32, mx.int64], ids=str)
def test_powers_of_two_and_their_neighbours_are_met(dtype: mx.Dtype, secret: str) -> None:
    graph = graph_of(added, mx.zeros((40, 100), dtype), mx.zeros((40, 100), dtype))
    drawn = cases_of(graph, secret)
    for place in range(2):
        met = {int(n) for arrays in drawn for n in np.unique(arrays[place])}
        highest = 8 * drawn[0][0].dtype.itemsize - 1
        assert {1 << bit for bit in range(highest)} <= met
        assert {(1 << bit) + 1 for bit in range(highest)} <= met


@pytest.mark.parametrize("secret", SECRETS)
def test_large_shapes_hold_the_ends_in_rows_and_pairs(secret: str) -> None:
    graph = graph_of(added, mx.zeros((300, 1024), mx.int32), mx.zeros((300, 1024), mx.int32))
    a, b = (np.asarray(x) for x in Case(graph, Distribution.MIXED).inputs(secret))
    least, greatest = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    assert ((a == least) & (b == least)).any()
    assert ((a == greatest) & (b == greatest)).any()
    assert np.isin(a, (least, greatest)).all(axis=1).any()
    floats = a.astype(np.float32)
    is_close = (np.abs(floats) > 1 << 24) & (floats == b.astype(np.float32)) & (a != b)
    assert is_close.any()


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(("dtype", "wide"), [(mx.int32, 24), (mx.int64, 53)])
def test_rows_hold_large_neighbours(dtype: mx.Dtype, wide: int, secret: str) -> None:
    graph = graph_of(lambda a: mx.argmax(a, axis=-1), mx.zeros((9, 100), dtype))
    (drawn,) = (np.asarray(a) for a in Case(graph, Distribution.OFFSET).inputs(secret))
    assert (np.abs(drawn) > 1 << wide).all()
    assert (np.diff(np.sort(drawn, axis=1), axis=1) == 1).any()
    if dtype == mx.int64:
        assert (np.diff(drawn.astype(np.int64), axis=1) == 1 << 33).any()


@pytest.mark.parametrize("secret", SECRETS)
def test_no_integer_is_divided_by_what_leaves_it_undefined(secret: str) -> None:
    graph = graph_of(divided, mx.zeros((9, 100), mx.int32), mx.zeros((9, 100), mx.int32))
    drawn = cases_of(graph, secret)
    least = np.iinfo(np.int32).min
    assert all((b != 0).all() for _, b in drawn)
    assert not any(((a == least) & (b == -1)).any() for a, b in drawn)
    assert any((b == least).any() for _, b in drawn)
    met = {pair for a, b in drawn for pair in zip(a.flat, b.flat, strict=True)}
    assert {(a, b) for a in range(-8, 9) for b in range(-8, 9) if b} <= met


def test_what_becomes_an_index_or_a_float_that_is_cut_stays_small() -> None:
    integers = mx.zeros((9, 100), mx.int32)
    halved = graph_of(lambda a: (a.astype(mx.float32) * 4.0).astype(mx.int32), integers)
    taken = graph_of(lambda a, t: mx.take(t, a + 1), integers, mx.zeros((50,)))
    assert not any(domains_of(g)[0].is_whole_range for g in (halved, taken))


@pytest.mark.parametrize("secret", SECRETS)
def test_all_of_what_is_counted_may_be_one(secret: str) -> None:
    def counted(k: mx.array) -> mx.array:
        return mx.sum((k[:, None] == mx.arange(10)[None]).astype(mx.int32), axis=0)

    graph = graph_of(counted, mx.zeros((300,), mx.int32))
    (drawn,) = Case(graph, Distribution.CONSTANT).inputs(secret)
    assert np.unique(drawn).size == 1
    assert 0 <= np.asarray(drawn)[0] < 10
