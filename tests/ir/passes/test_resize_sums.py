"""Sizes that are sums: what is concatenated, padded, cut and repeated, at any size."""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernelwright import ir
from kernelwright.errors import InputError, UnsupportedError
from kernelwright.ir import FreeDimension, canonicalize, capture, free_dimensions, resize
from kernelwright.ir.trace.array import to_numpy

Step = Callable[[mx.array, mx.array], mx.array]
WINDOW = mx.array([[[1.0], [-2.0], [0.5]]])
"""One filter of three taps and one channel."""


def _windows(x: mx.array) -> mx.array:
    padded = mx.pad(x, [(0, 0), (2, 0)])
    return sum((k + 0.5) * padded[:, k : k + x.shape[1]] for k in range(3))  # type: ignore[return-value]


def _windows_and_state(x: mx.array) -> mx.array:
    """Slide over an axis, and keep its end for the next call, as Mamba's convolutions do."""
    padded = mx.pad(x, [(0, 0), (2, 0)])
    mixed = sum(padded[:, k : k + x.shape[1]] for k in range(3))
    return mx.concatenate([mixed, padded[:, -2:]], axis=1)  # type: ignore[list-item]


_STEPS: tuple[Step, ...] = (
    lambda x, y: mx.concatenate([x, y], axis=1),
    lambda x, y: mx.concatenate([y, x, y], axis=1),
    lambda x, y: mx.concatenate([x, mx.ones((x.shape[0], 3))], axis=1),
    lambda x, y: mx.pad(x, [(0, 0), (2, 1)]),
    lambda x, y: mx.pad(x, [(0, 0), (0, 3)], constant_values=1.5),
    lambda x, y: x[:, 1:],
    lambda x, y: x[:, :-2],
    lambda x, y: x[:, 1:-1],
    lambda x, y: x[:, 1:] - x[:, :-1],
    lambda x, y: _windows(x),
    lambda x, y: _windows_and_state(x),
    lambda x, y: x[:, ::-1],
    lambda x, y: mx.repeat(x, 3, axis=1),
    lambda x, y: mx.tile(x, (1, 2)),
    lambda x, y: x * mx.arange(x.shape[1]),
    lambda x, y: x + mx.arange(1, x.shape[1] + 1),
    lambda x, y: mx.conv1d(x[..., None], WINDOW)[..., 0],
    lambda x, y: mx.conv1d(x[..., None], WINDOW, padding=2)[..., 0],
    lambda x, y: mx.tanh(x).at[:, 1:-1].add(1),
    lambda x, y: mx.softmax(x, axis=1),
    lambda x, y: mx.cumsum(x, axis=1),
    lambda x, y: mx.tanh(x) + x.mean(axis=1, keepdims=True),
)


@dataclass(frozen=True)
class Chain:
    """Steps, each of which changes one of several arrays of as many rows."""

    steps: tuple[tuple[int, int, int], ...]

    def __call__(self, *inputs: mx.array) -> list[mx.array]:
        pool = list(inputs)
        for choice, first, second in self.steps:
            at = first % len(pool)
            pool[at] = _STEPS[choice](pool[at], pool[second % len(pool)])
        return pool


_NUMBER = st.integers(0, 5)
_CHAINS = st.builds(
    lambda steps: Chain(tuple(steps)),
    st.lists(st.tuples(st.integers(0, len(_STEPS) - 1), _NUMBER, _NUMBER), min_size=1, max_size=5),
)


def _inputs(rows: int, *columns: int) -> list[mx.array]:
    keys = mx.random.split(mx.random.key(0), len(columns))
    return [mx.random.normal((rows, n), key=k) for n, k in zip(columns, keys, strict=True)]


@settings(max_examples=150, deadline=None)
@example(chain=Chain(((14, 0, 0), (14, 1, 0))), rows=2, past=30, new=30)
@example(chain=Chain(((0, 0, 1), (12, 0, 0), (8, 0, 0))), rows=2, past=30, new=30)
@given(_CHAINS, st.integers(2, 9), st.integers(30, 70), st.integers(30, 70))
def test_a_resized_graph_is_the_function_captured_anew(
    chain: Chain, rows: int, past: int, new: int
) -> None:
    graph = canonicalize(capture(chain, *_inputs(5, 47, 61)))
    resized = resize(graph, {(0, 0): rows, (0, 1): past, (1, 0): rows, (1, 1): new})
    ir.verify(resized)
    inputs = _inputs(rows, past, new)
    again = canonicalize(capture(chain, *inputs))
    anew = canonicalize(resized)
    assert [t.shape for t in anew.types] == [t.shape for t in again.types]
    assert anew.fingerprint == again.fingerprint
    wide = 16 * sum(x.size for x in inputs)
    if max(t.size for t in resized.types) < 4 * wide:
        given_ = [to_numpy(x) for x in inputs]
        for found, wanted in zip(ir.interpret(resized, *inputs), chain(*inputs), strict=True):
            assert mx.array_equal(found, wanted, equal_nan=True)
        for ideal, wanted in zip(ir.reference(resized, given_), chain(*inputs), strict=True):
            scale = 1 + np.abs(ideal).max()
            np.testing.assert_allclose(ideal / scale, to_numpy(wanted) / scale, atol=1e-4)


def _cache(past: mx.array, new: mx.array, mask: mx.array) -> mx.array:
    return mx.softmax(mx.concatenate([past, new], axis=1) + mask, axis=-1)


def _captured(function: Callable[..., object], *shapes: tuple[int, ...]) -> ir.Graph:
    return canonicalize(capture(function, *(mx.zeros(shape) for shape in shapes)))


def test_a_sum_of_dimensions_follows_its_parts() -> None:
    graph = _captured(_cache, (2, 30, 8), (2, 20, 8), (50, 8))
    found = {d.axes: d for d in free_dimensions(graph)}
    assert found[((0, 1),)] == FreeDimension(((0, 1),), (1,), (0,), ((2, 0),), 30, is_reduced=False)
    assert found[((1, 1),)].sums == ((2, 0),)
    assert found[((0, 0), (1, 0))].is_alone
    assert not found[((0, 1),)].is_alone
    resized = resize(graph, {(0, 1): 100})
    assert [t.shape for t in resized.input_types] == [(2, 100, 8), (2, 20, 8), (120, 8)]
    assert resize(graph, {(2, 0): 107, (0, 1): 100}).input_types[1].shape == (2, 7, 8)
    assert resize(graph, {(2, 0): 50, (0, 1): 40}).input_types[1].shape == (2, 10, 8)


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ({(2, 0): 90}, UnsupportedError, "follows from past axis 1 and new axis 1; give"),
        ({(0, 1): 100, (1, 1): 7, (2, 0): 90}, InputError, "it has to be 107 beside it"),
        ({(2, 0): 50, (0, 1): 50}, UnsupportedError, "it has to be more than 50"),
        ({(2, 0): 90, (0, 1): 100}, UnsupportedError, "it has to be more than 100"),
    ],
)
def test_a_sum_that_its_parts_do_not_make_is_refused(
    sizes: dict[tuple[int, int], int], error: type[Exception], message: str
) -> None:
    graph = _captured(_cache, (2, 30, 8), (2, 20, 8), (50, 8))
    with pytest.raises(error, match=message):
        resize(graph, sizes)


def test_what_a_stride_leaves_over_is_kept() -> None:
    graph = _captured(lambda x, w: mx.conv1d(x, w, stride=2), (2, 12, 4), (6, 3, 4))
    (steps,) = [d for d in free_dimensions(graph) if (0, 1) in d.axes]
    assert (steps.multiples, steps.offsets, steps.size) == ((2,), (2,), 5)
    assert steps.axis_sizes(9) == {(0, 1): 20}
    assert resize(graph, steps.axis_sizes(9)).output_types[0].shape == (2, 9, 6)
    with pytest.raises(UnsupportedError, match="it has to be a multiple of 2, plus 2"):
        resize(graph, {(0, 1): 21})


def test_sums_that_have_to_agree_agree_part_by_part() -> None:
    graph = _captured(
        lambda q, k, v, key, value: q @ mx.concatenate([k, key]).T @ mx.concatenate([v, value]),
        *((2, 16), (6, 16), (6, 16), (3, 16), (3, 16)),
    )
    resized = resize(graph, {(1, 0): 40, (3, 0): 1})
    assert [t.shape[0] for t in resized.input_types] == [2, 40, 40, 1, 1]
    with pytest.raises(InputError, match="tied to another axis"):
        resize(graph, {(1, 0): 40, (2, 0): 41})


def test_sums_of_other_parts_stay_as_they_are() -> None:
    graph = _captured(
        lambda k, key, v, value: mx.concatenate([k, key]) * mx.concatenate([v, value]),
        *((6, 16), (3, 16), (5, 16), (4, 16)),
    )
    with pytest.raises(UnsupportedError, match="multiply fixes it"):
        resize(graph, {(0, 0): 7})


def test_a_size_at_which_nothing_is_left_is_refused() -> None:
    graph = _captured(lambda x: x[:, :-2] * 2, (3, 40))
    assert resize(graph, {(0, 1): 3}).output_types[0].shape == (3, 1)
    with pytest.raises(UnsupportedError, match="the result of slice would have the shape"):
        resize(graph, {(0, 1): 2})


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, -3:] * 2,
        lambda x: x[:, :5] * 2,
        lambda x: x[:, 12:] * 2,
        lambda x: x[:, 30:10:-1] * 2,
        lambda x: x * mx.arange(7, 47),
        lambda x: mx.as_strided(x, (3, 38, 3), (40, 1, 1)),
    ],
)
def test_what_may_be_a_fixed_number_of_elements_fixes_its_axis(
    function: Callable[[mx.array], mx.array],
) -> None:
    graph = _captured(function, (3, 40))
    with pytest.raises(UnsupportedError, match=r"x axis 1 is 40 and 41 was asked for, but it can"):
        resize(graph, {(0, 1): 41})
