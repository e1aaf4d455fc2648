"""A kernel may round where MLX rounds, however its roundings add up."""

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.oracle.reference import calibrate, judge
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture


def distances(a: mx.array, b: mx.array) -> mx.array:
    return mx.sum(mx.square(a[:, None] - b), axis=-1)


def products(a: mx.array, b: mx.array) -> mx.array:
    return (a - b) @ mx.ones((256, 8), mx.float16)


def halves(seed: int) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """Return rows of three numbers and rows of many, whose differences are all different."""
    random = np.random.default_rng(seed)
    few = random.choice(np.array([0.30004883, 1.90039062, -1.09960938]), (16, 256))
    return few.astype(np.float16), (14 + random.standard_normal((16, 256))).astype(np.float16)


@pytest.mark.parametrize("seed", range(4))
def test_roundings_of_differences_from_few_numbers_add_up(seed: int) -> None:
    a, b = halves(seed)
    graph = canonicalize(capture(distances, mx.array(a), mx.array(b)))
    case = Case(graph, Distribution.NORMAL)
    one = calibrate(case, (a, b), Task(graph, "task").output_tolerances)
    squares = np.square(a[:, None] - b)
    found = squares.astype(np.float32).sum(axis=-1)
    assert judge(one, [found.astype(np.float16)])[0].is_acceptable
    assert not judge(one, [(1.002 * found).astype(np.float16)])[0].is_acceptable


@pytest.mark.parametrize("seed", range(2))
def test_roundings_of_what_is_multiplied_add_up(seed: int) -> None:
    a, b = halves(seed)
    graph = canonicalize(capture(products, mx.array(a), mx.array(b)))
    case = Case(graph, Distribution.NORMAL)
    one = calibrate(case, (a, b), Task(graph, "task").output_tolerances)
    found = (a - b).astype(np.float32) @ np.ones((256, 8), np.float32)
    assert judge(one, [found.astype(np.float16)])[0].is_acceptable
    assert not judge(one, [(1.002 * found).astype(np.float16)])[0].is_acceptable
