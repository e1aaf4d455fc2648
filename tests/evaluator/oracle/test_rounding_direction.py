"""Truncation shows over many elements where no single one gives it away."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.expected_output import ExpectedOutput, expected_output
from kernelwright.evaluator.oracle.rounding_direction import RoundingDirections
from kernelwright.evaluator.oracle.tracked import Tracked
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype

Reals = NDArray[np.float64]
Halves = NDArray[np.float16]


def nearest(values: Reals) -> Halves:
    return values.astype(np.float16)


def stepped(values: Reals, is_wrong: NDArray[np.bool_], target: float) -> Halves:
    rounded = nearest(values)
    return np.where(is_wrong, np.nextafter(rounded, np.float16(target)), rounded)


def towards_zero(values: Reals) -> Halves:
    rounded = nearest(values)
    return stepped(values, np.abs(rounded.astype(np.float64)) > np.abs(values), 0.0)


def down(values: Reals) -> Halves:
    return stepped(values, nearest(values).astype(np.float64) > values, -np.inf)


def up(values: Reals) -> Halves:
    return stepped(values, nearest(values).astype(np.float64) < values, np.inf)


def even_columns_towards_zero(values: Reals) -> Halves:
    found = nearest(values)
    found[:, ::2] = towards_zero(values)[:, ::2]
    return found


def second_half_towards_zero(values: Reals) -> Halves:
    found = nearest(values)
    found[:, 32:] = towards_zero(values)[:, 32:]
    return found


def rounded_twice(values: Reals) -> Halves:
    """Round to bfloat16's seven bits before a product that takes the result back."""
    scale = np.float16(np.abs(values).max(axis=1, keepdims=True) * 0.37)
    return np.asarray(nearest(values / scale) * scale)


def scaled(values: Reals) -> Halves:
    """Take a factor of each row in halves, off by up to half a unit."""
    factor = np.abs(values).sum(axis=1, keepdims=True)
    return nearest(values / factor * factor.astype(np.float16))


def scaled_as_one(values: Reals) -> Halves:
    """Take one factor of the whole case in halves."""
    factor = np.abs(values).sum()
    return nearest(values / factor * 1000.0 * np.float16(factor / 1000.0))


def larger(values: Reals) -> Halves:
    return nearest(values * 1.0025)


def wanted(values: Reals) -> ExpectedOutput:
    error = np.full(values.shape, 0.01)
    tracked = Tracked(values, error, Dtype.FLOAT16, is_stored=False)
    type_ = TensorType(values.shape, Dtype.FLOAT16)
    return expected_output(tracked, type_, Tolerance.of(Dtype.FLOAT16))


def problem(round_: Callable[[Reals], Halves], cases: int, rows: int = 32) -> str:
    random, directions = np.random.default_rng(7), RoundingDirections()
    for _ in range(cases):
        values = random.standard_normal((rows, 64))
        directions.add((round_(values),), (wanted(values),))
    return directions.problem


@pytest.mark.parametrize(
    ("round_", "words"),
    [
        (towards_zero, "towards zero in all elements"),
        (down, "down in all elements"),
        (up, "up in all elements"),
        (even_columns_towards_zero, "towards zero in even columns"),
        (second_half_towards_zero, "towards zero in the second half of each row"),
    ],
)
def test_one_sided_roundings_are_named(round_: Callable[[Reals], Halves], words: str) -> None:
    assert f"output 0 is rounded {words}" in problem(round_, 12)


@pytest.mark.parametrize("round_", [nearest, rounded_twice, scaled, scaled_as_one])
def test_sound_roundings_pass(round_: Callable[[Reals], Halves]) -> None:
    assert not problem(round_, 40)


def test_a_factor_shows_beyond_the_next_number() -> None:
    assert "in size above what they should be in all elements" in problem(larger, 18)
    assert not problem(larger, 15)


def test_few_samples_say_nothing() -> None:
    assert not problem(towards_zero, 7)


def test_small_cases_are_put_together() -> None:
    assert problem(towards_zero, 60, rows=1)


def test_constant_outputs_say_nothing() -> None:
    directions, values = RoundingDirections(), np.full((64, 64), 1.0003)
    for _ in range(40):
        directions.add((nearest(values),), (wanted(values),))
    assert not directions.problem


def test_large_outputs_are_sampled_all_over() -> None:
    directions, random = RoundingDirections(), np.random.default_rng(3)
    for _ in range(9):
        values = random.standard_normal((64, 4096))
        directions.add((towards_zero(values),), (wanted(values),))
    assert "towards zero in all elements" in directions.problem
