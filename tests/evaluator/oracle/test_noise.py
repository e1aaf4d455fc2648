"""Bounds are as wide as float32 arithmetic makes them, and no wider."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.oracle.accuracy import measure
from kernelwright.evaluator.oracle.noise import rounded_alike, rounded_by_chance
from kernelwright.evaluator.oracle.reference import calibrate, judge, prepare
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture


def spread(function: Callable[[mx.array], mx.array]) -> tuple[float, float]:
    """Return the strict and the forgiving bound of a function's only output."""
    task = Task(canonicalize(capture(function, mx.zeros((2, 64)))), "task")
    prepared = prepare(Case(task.graph, Distribution.OFFSET), task.output_tolerances, "tests")
    return prepared.yardsticks[0].bound, prepared.forgiving[0].bound


def test_rounding_by_chance_takes_either_neighbour_and_keeps_what_fits() -> None:
    values = np.array([1.0, 0.1, -3.0, 3.4028235e38 * 1.5, np.inf])
    random = np.random.default_rng(0)
    draws = np.array([rounded_by_chance(values, random) for _ in range(32)])
    assert (draws[:, [0, 2, 3, 4]] == values[[0, 2, 3, 4]]).all()
    assert len(set(draws[:, 1])) == 2
    assert np.abs(draws[:, 1] - 0.1).max() < 2.0**-26


def test_equal_values_are_rounded_alike_and_others_by_chance() -> None:
    values = np.array([0.1, 1.0, 0.1, np.inf, 0.3])
    draws = np.array([rounded_alike(values, seed) for seed in range(32)])
    assert (draws[:, [1, 3]] == values[[1, 3]]).all()
    assert (draws[:, 0] == draws[:, 2]).all()
    assert len(set(draws[:, 0])) == 2
    assert len({(draw[0] > 0.1, draw[4] > 0.3) for draw in draws}) == 4


def test_an_order_that_hangs_on_the_rounding_of_what_is_compared_counts_for_nobody() -> None:
    def best(x: mx.array) -> mx.array:
        return mx.argmax(mx.sigmoid(x), axis=-1)

    graph = canonicalize(capture(best, mx.zeros((2, 3))))
    # In float64 the third of the first row is largest; in float32 all are 1 or next to it.
    x = np.array([[17.0, 17.1, 17.2], [1.0, 2.0, 3.0]], np.float32)
    prepared = calibrate(
        Case(graph, Distribution.NORMAL), (x,), Task(graph, "task").output_tolerances
    )
    accepted = [
        [judge(prepared, [np.array(answer, np.uint32)])[0].is_acceptable for answer in answers]
        for answers in ([[2, 2], [0, 2]], [[2, 0], [2, 1]])
    ]
    assert accepted == [[True, True], [False, False]]


def test_a_jump_behind_a_sum_hangs_on_the_order_of_adding_up() -> None:
    def whole(x: mx.array) -> mx.array:
        return mx.floor(mx.sum(x, axis=-1))

    graph = canonicalize(capture(whole, mx.zeros((3, 300))))
    # Of 300 times 1.1 nobody knows whether it is 330 or a rounding less; zeros have no roundings.
    x = np.stack([np.full(300, value, np.float32) for value in (1.1, 0.0, 1.101)])
    prepared = calibrate(
        Case(graph, Distribution.TIED), (x,), Task(graph, "task").output_tolerances
    )
    accepted = [
        judge(prepared, [np.array(answer, np.float32)])[0].is_acceptable
        for answer in ([330, 0, 330], [329, 0, 330], [330, -1, 330], [330, 0, 329])
    ]
    assert accepted == [True, True, False, False]


def test_cancellation_widens_a_bound_and_sound_arithmetic_does_not() -> None:
    strict, forgiving = spread(lambda x: 1 - mx.sigmoid(x))
    assert forgiving > strict
    strict, forgiving = spread(lambda x: mx.exp(-x) * x)
    assert forgiving < 3 * strict


@pytest.mark.parametrize(("error", "passes"), [(2.0**-24, True), (2.0**-12, False)])
def test_lower_precision_is_not_forgiven(error: float, passes: bool) -> None:
    task = Task(canonicalize(capture(lambda x: 1 - mx.sigmoid(x), mx.zeros((2, 64)))), "task")
    prepared = prepare(Case(task.graph, Distribution.OFFSET), task.output_tolerances, "tests")
    sigmoid = 1 / (1 + np.exp(-prepared.inputs[0].astype(np.float64)))
    found = (1 - sigmoid * (1 + error)).astype(np.float32)
    assert judge(prepared, [found])[0].is_acceptable is passes


def test_a_constant_row_is_normalised_as_well_as_float32_adds_it_up() -> None:
    def normalise(x: mx.array) -> mx.array:
        centred = x - mx.mean(x, axis=-1, keepdims=True)
        variance = mx.mean(mx.square(centred), axis=-1, keepdims=True)
        return centred * mx.rsqrt(variance + 1e-5) + 1

    task = Task(canonicalize(capture(normalise, mx.zeros((6, 200)))), "task")
    prepared = prepare(Case(task.graph, Distribution.CONSTANT), task.output_tolerances, "tests")
    for roundings, passes in ((4, True), (4000, False)):
        mean_error = roundings * 2.0**-24 * np.abs(prepared.inputs[0]).max()
        found = np.full((6, 200), 1 - mean_error * 1e5**0.5, np.float32)
        assert judge(prepared, [found])[0].is_acceptable is passes


def standardised(x: mx.array) -> mx.array:
    return (x - mx.mean(x, axis=-1, keepdims=True)) / mx.std(x, axis=-1, keepdims=True)


def rescaled(x: mx.array) -> mx.array:
    return x / mx.sqrt(mx.sum(mx.square(x), axis=-1, keepdims=True))


@pytest.mark.parametrize(
    ("function", "value", "passes"),
    [(standardised, 0.1, True), (standardised, 0.0, False), (rescaled, 0.0, False)],
)
def test_nan_is_held_to_unless_roundings_decide_on_it(
    function: Callable[[mx.array], mx.array], value: float, passes: bool
) -> None:
    graph = canonicalize(capture(function, mx.zeros((2, 200))))
    x = np.stack([np.full(200, np.float32(value)), np.arange(200, dtype=np.float32)])
    prepared = calibrate(
        Case(graph, Distribution.CONSTANT), (x,), Task(graph, "task").output_tolerances
    )
    right = prepared.yardsticks[0].expected.astype(np.float32)
    assert np.isnan(right[0]).all()
    found = np.where(np.isnan(right), np.float32(1), right)
    assert judge(prepared, [right])[0].is_acceptable
    assert judge(prepared, [found])[0].is_acceptable is passes
    # The other row is held to its numbers.
    assert not judge(prepared, [found * np.float32(1.001)])[0].is_acceptable
    assert not judge(prepared, [np.full_like(found, np.nan)])[0].is_acceptable


def test_a_small_probability_is_as_uncertain_as_its_exponential() -> None:
    def first(x: mx.array) -> mx.array:
        return mx.softmax(x * 20, axis=-1)[:, 0]

    task = Task(canonicalize(capture(first, mx.zeros((1, 6)))), "task")
    prepared = prepare(Case(task.graph, Distribution.NORMAL), task.output_tolerances, "tests")
    assert prepared.forgiving[0].bound > 1.5 * prepared.yardsticks[0].bound


@pytest.mark.parametrize(("roundings", "passes"), [(4, True), (4000, False)])
def test_a_row_that_should_vanish_is_held_to_what_rounding_leaves(
    roundings: int, passes: bool
) -> None:
    def normalise(x: mx.array) -> mx.array:
        return mx.fast.layer_norm(x, None, None, 1e-5)

    graph = canonicalize(capture(normalise, mx.zeros((4, 200))))
    # Of these two rows only the second has a size; the mean of the first is no float32.
    rows = np.stack([np.full(200, np.float32(0.1)), np.arange(200, dtype=np.float32)])
    prepared = calibrate(
        Case(graph, Distribution.CONSTANT),
        (np.concatenate([rows, rows]),),
        Task(graph, "task").output_tolerances,
    )
    forgiving = prepared.forgiving[0]
    missed = roundings * 2.0**-24 * 0.1 * 1e5**0.5
    found = prepared.yardsticks[0].expected.astype(np.float32)
    found[::2] = missed
    assert measure(found, forgiving).is_acceptable is passes
    # And the other rows are not forgiven what that one is.
    found[::2], found[1::2] = 0, found[1::2] * 1.001
    assert not measure(found, prepared.yardsticks[0]).is_acceptable
    assert not measure(found, forgiving).is_acceptable
