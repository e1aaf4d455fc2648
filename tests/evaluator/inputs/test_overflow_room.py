"""Numbers come as close to a format's end as sound orders of a task's steps allow."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.far_rows import MOST_ROOM, move_to_ends
from kernelwright.evaluator.inputs.overflow_room import overflow_room
from kernelwright.evaluator.oracle.reference import Reference, judge, prepare
from kernelwright.evaluator.task import Task
from kernelwright.ir import Graph, canonicalize, capture
from kernelwright.ir.graph.dtype import Dtype

Floats = NDArray[np.float32]
F = np.float32


def graph_of(function: Callable[..., mx.array], inputs: int = 1) -> Graph:
    return canonicalize(capture(function, *[mx.zeros((64, 50))] * inputs))


def variance(x: mx.array) -> mx.array:
    away = x - x.mean(axis=-1, keepdims=True)
    return (away * away).mean(axis=-1)


@pytest.mark.parametrize(
    ("function", "inputs", "powers"),
    [
        (lambda x: x.sum(axis=-1), 1, 4),
        (lambda x: mx.softmax(x, axis=-1), 1, 4),
        (lambda x: x * 0.125, 1, 7),
        (lambda x, y: x * y, 2, 7),
        (lambda x: x.mean(axis=-1), 1, 4 + np.log2(50)),
        (variance, 1, 4 + 2 * np.log2(50) + 3),
        (lambda x: x.prod(axis=-1), 1, MOST_ROOM),
        (lambda x, y, z: x / y / z, 3, MOST_ROOM),
    ],
)
def test_room_follows_from_the_graph(
    function: Callable[..., mx.array], inputs: int, powers: float
) -> None:
    assert overflow_room(graph_of(function, inputs)) == pytest.approx(powers)


def test_halves_and_tasks_that_need_all_room_stay() -> None:
    values = np.array([2.0**103, 1.0], F)
    move_to_ends(values, Dtype.FLOAT16, 4.0)
    move_to_ends(values, Dtype.FLOAT32, MOST_ROOM)
    assert values[0] == F(2.0**103)
    move_to_ends(values, Dtype.FLOAT32, 4.0)
    assert values.tolist() == [2.0**123, 1.0]


def near_ends(function: Callable[..., mx.array], secret: str) -> Reference:
    graph = graph_of(function)
    task = Task(graph, "task")
    return prepare(Case(graph, Distribution.NEAR_ENDS), task.output_tolerances, secret)


def rows_of(one: Reference) -> Floats:
    return np.asarray(one.inputs[0], F)


def passes(one: Reference, found: Floats) -> bool:
    return judge(one, [np.asarray(found, F)])[0].is_acceptable


def scaled_mean(x: Floats, scale: float) -> Floats:
    with np.errstate(over="ignore"):
        total = np.cumsum(x * F(scale), axis=-1, dtype=F)[:, -1]
        return np.asarray(total * F(1 / 50 / scale))


def merged_mean(x: Floats) -> Floats:
    """Merge the means of two parts, the difference times how many there are."""
    one, other = x[:, :30].mean(axis=-1, dtype=F), x[:, 30:].mean(axis=-1, dtype=F)
    return np.asarray(one + (other - one) * F(20) / F(50))


def merged_variance(x: Floats) -> Floats:
    """Merge sums of squares of two parts by Chan's formula, all its factors before the divisor."""
    with np.errstate(over="ignore"):
        return _merged_variance(x)


def _merged_variance(x: Floats) -> Floats:
    parts = x[:, :30], x[:, 30:]
    means = [part.mean(axis=-1, dtype=F) for part in parts]
    squares = [
        np.square(p - m[:, None]).sum(axis=-1, dtype=F) for p, m in zip(parts, means, strict=True)
    ]
    apart = means[1] - means[0]
    between = apart * apart * F(30) * F(20) / F(50)
    return np.asarray((squares[0] + squares[1] + between) / F(50))


@pytest.mark.parametrize("secret", ["a", "b", "c"])
class TestAMean:
    def test_may_be_scaled_before_or_after_and_merged(self, secret: str) -> None:
        one = near_ends(lambda x: x.mean(axis=-1), secret)
        x = rows_of(one)
        assert passes(one, scaled_mean(x, 1.0))
        assert passes(one, scaled_mean(x, 1 / 50))
        assert passes(one, merged_mean(x))

    def test_may_not_overflow_by_a_factor_of_its_own(self, secret: str) -> None:
        one = near_ends(lambda x: x.mean(axis=-1), secret)
        assert not passes(one, scaled_mean(rows_of(one), 2.0**15))


@pytest.mark.parametrize("secret", ["a", "b", "c"])
def test_a_variance_may_be_merged(secret: str) -> None:
    one = near_ends(variance, secret)
    x = rows_of(one)
    assert passes(one, merged_variance(x))
    wide = x.astype(np.float64)
    with np.errstate(over="ignore"):
        scaled = np.square(wide - wide.mean(axis=-1, keepdims=True)).astype(F) * F(2.0**24)
        assert not passes(one, scaled.mean(axis=-1, dtype=F) * F(2.0**-24))
