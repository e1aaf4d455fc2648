"""Truncation shows over many elements where no single one gives it away."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.expected_output import ExpectedOutput, expected_output
from kernelwright.evaluator.oracle.rounding_direction import RoundingDirections, samples_of
from kernelwright.evaluator.oracle.tracked import Tracked
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture

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
        directions.add((round_(values),), (wanted(values),), (None,))
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
        directions.add((nearest(values),), (wanted(values),), (None,))
    assert not directions.problem


def test_large_outputs_are_sampled_all_over() -> None:
    directions, random = RoundingDirections(), np.random.default_rng(3)
    for _ in range(9):
        values = random.standard_normal((64, 4096))
        directions.add((towards_zero(values),), (wanted(values),), (None,))
    assert "towards zero in all elements" in directions.problem


def noisy(values: Reals, random: np.random.Generator) -> Reals:
    """Be off by up to half a spacing either way, as behind a node that rounds."""
    return values * (1 + random.uniform(-1, 1, values.shape) * 2.0**-12)


def leaning(factor: float, factor_of_mlx: float, *, parts: int = 16) -> str:
    """Return what is said of four cases whose noise hides a factor."""
    random, directions = np.random.default_rng(5), RoundingDirections()
    for _ in range(4):
        values = random.standard_normal((256, 64))
        found, of_mlx = (nearest(noisy(values * f, random)) for f in (factor, factor_of_mlx))
        directions.add((found,), (wanted(values),), (of_mlx,), parts)
    return directions.problem


def test_a_factor_behind_noise_leans() -> None:
    assert "towards zero as a rule in all elements" in leaning(1 - 2.0**-13, 1.0)
    assert "away from zero as a rule in all elements" in leaning(1 + 2.0**-13, 1.0)


def test_noise_does_not_lean() -> None:
    assert not leaning(1.0, 1.0)


def test_leaning_as_mlx_does_is_sound() -> None:
    assert not leaning(1 - 2.0**-13, 1 - 2.0**-13)


def test_what_underflows_on_the_way_does_not_lean() -> None:
    """A sigmoid of -90 is a denormal float, which becomes zero before a large factor meets it."""
    random, directions = np.random.default_rng(5), RoundingDirections()
    for _ in range(4):
        values = random.standard_normal((256, 64))
        is_lost = random.random(values.shape) < 0.05
        found = np.where(is_lost, np.float16(0), nearest(values))
        directions.add((found,), (wanted(values),), (nearest(noisy(values, random)),), 16)
    assert not directions.problem


def test_cases_that_share_a_factor_are_one_sample_each() -> None:
    assert not leaning(1 - 2.0**-13, 1.0, parts=1)


def scaled_by_root(x: mx.array, scale: mx.array) -> mx.array:
    return x * mx.sqrt(scale)


def scaled_plainly(x: mx.array, scale: mx.array) -> mx.array:
    return mx.tanh(x * scale)


@pytest.mark.parametrize(("function", "samples"), [(scaled_by_root, 1), (scaled_plainly, 16)])
def test_a_number_that_all_share_is_rounded_once(
    function: Callable[[mx.array, mx.array], mx.array], samples: int
) -> None:
    arrays = mx.zeros((64, 64), mx.float16), mx.zeros((1,), mx.float16)
    with mx.stream(mx.cpu):
        graph = canonicalize(capture(function, *arrays))
    assert samples_of(graph) == samples


def problem_of_term(factor: float) -> str:
    """Return what is said of sums one term of which has a factor."""
    random, directions = np.random.default_rng(5), RoundingDirections()
    for _ in range(4):
        x, y = random.standard_normal((2, 256, 64))
        x += 5 * np.sign(x)
        found = nearest(noisy(x + factor * y, random))
        of_mlx = nearest(noisy(x + y, random))
        inputs = (x.astype(np.float16), y.astype(np.float16))
        directions.add((found,), (wanted(x + y),), (of_mlx,), 16, inputs)
    return directions.problem


def test_a_term_with_a_factor_leans_with_its_sign() -> None:
    assert "with the sign of operand 1 of its shape" in problem_of_term(1 + 2.0**-9)
    assert "against the sign of operand 1 of its shape" in problem_of_term(1 - 2.0**-9)
    assert not problem_of_term(1.0)


def test_rows_of_mlx_that_lean_either_way_excuse_nobody() -> None:
    random, directions = np.random.default_rng(5), RoundingDirections()
    for _ in range(4):
        values = random.standard_normal((256, 64))
        of_rows = 1 + random.uniform(-1, 1, (256, 1)) * 2.0**-12
        found = nearest(values * (1 + 2.0**-13))
        directions.add((found,), (wanted(values),), (nearest(values * of_rows),), 16)
    assert "away from zero as a rule" in directions.problem
