"""Rows of few small exact numbers: what is computed of them meets constants, and zero."""

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.ir.graph import Graph
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture

SECRETS = [f"secret {n}" for n in range(5)]


def difference() -> Graph:
    zeros = mx.zeros((9, 100))
    with mx.stream(mx.cpu):
        return canonicalize(capture(lambda a, b: mx.abs(a - b), zeros, zeros))


@pytest.mark.parametrize("secret", SECRETS)
def test_sums_differences_and_products_meet_small_numbers(secret: str) -> None:
    a, b = (
        np.asarray(x, np.float32) for x in Case(difference(), Distribution.LATTICE).inputs(secret)
    )
    for number in (0.25, 0.5, 1.0, 2.0):
        assert (a + b == number).any()
        assert (np.abs(a - b) == number).any()
        assert (a * b == number).any()
    assert (a * a == 4.0).any()


@pytest.mark.parametrize("secret", SECRETS)
def test_some_rows_of_all_inputs_are_zero_at_once(secret: str) -> None:
    a, b = (
        np.asarray(x, np.float32) for x in Case(difference(), Distribution.LATTICE).inputs(secret)
    )
    assert ((a == 0) & (b == 0)).all(axis=1).any()


@pytest.mark.parametrize("secret", SECRETS)
def test_sums_differences_and_squares_meet_the_constants_of_a_task(secret: str) -> None:
    zeros = mx.zeros((9, 100))
    with mx.stream(mx.cpu):
        graph = canonicalize(capture(lambda a, b: mx.clip(a + b, -30.0, 36.0), zeros, zeros))
    case = Case(graph, Distribution.LATTICE)
    a, b = (np.asarray(x, np.float32) for x in case.inputs(secret))
    for number in (30.0, 36.0):
        assert (a + b == number).any()
        assert (a == -number).any()
    assert (a * a == 36.0).any()
