"""Steps of a stencil share a kernel while what they compute again costs less than a pass."""

from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.ir import Graph, canonicalize, capture
from kernelwright.plan import partition
from kernelwright.plan.repeated_work import MOST_REPEATED, repeated_operations

_FIELD = mx.zeros((512, 512), mx.float16)


def _heat(u: mx.array, steps: int) -> mx.array:
    for _ in range(steps):
        around = mx.roll(u, 1, 0) + mx.roll(u, -1, 0) + mx.roll(u, 1, 1) + mx.roll(u, -1, 1)
        u = u + 0.1 * (around - 4 * u)
    return u


def _blurred(x: mx.array) -> mx.array:
    weights = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
    rows = mx.pad(x, [(2, 2), (0, 0)])
    x = sum((w * rows[i : i + 512] for i, w in enumerate(weights)), start=mx.array(0.0))
    columns = mx.pad(x, [(0, 0), (2, 2)])
    return sum((w * columns[:, i : i + 512] for i, w in enumerate(weights)), start=mx.array(0.0))


def _turned(x: mx.array) -> mx.array:
    x = x * mx.rsqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)
    left, right = mx.split(x, 2, axis=-1)
    return mx.concatenate([left * 0.6 - right * 0.8, right * 0.6 + left * 0.8], axis=-1)


def _graph(function: Callable[[mx.array], mx.array]) -> Graph:
    return canonicalize(capture(function, _FIELD))


def test_one_step_repeats_nothing_and_each_further_one_many_times_more() -> None:
    assert repeated_operations(_graph(lambda u: _heat(u, 1))) == 0
    assert repeated_operations(_graph(lambda u: _heat(u, 2))) > MOST_REPEATED


@pytest.mark.parametrize("function", [_blurred, _turned])
def test_what_repeats_little_stays_one_kernel(function: Callable[[mx.array], mx.array]) -> None:
    assert repeated_operations(_graph(function)) <= MOST_REPEATED
    assert len(list(partition(_graph(function)))) == 1


def test_four_steps_are_cut_where_they_would_repeat_too_much() -> None:
    regions = list(partition(_graph(lambda u: _heat(u, 4))))
    assert 1 < len(regions) <= 4
    assert all(repeated_operations(r.extract()) <= MOST_REPEATED for r in regions)


def test_a_place_that_several_slices_show_is_one_place() -> None:
    def contrast(x: mx.array) -> mx.array:
        padded = mx.pad(x, [(2, 2), (2, 2)])
        taps = [padded[i : i + 512, j : j + 512] for i in range(5) for j in range(5)]
        mean = sum(taps[1:], start=taps[0]) / 25
        square = sum((t * t for t in taps[1:]), start=taps[0] * taps[0]) / 25
        return (x - mean) * mx.rsqrt(mx.maximum(square - mean * mean, 0) + 1e-3)

    graph = _graph(contrast)
    assert repeated_operations(graph) < MOST_REPEATED
    (region,) = partition(graph)
    assert len(region.indices) == len(graph.nodes)
