"""`mx.allclose` is called beside MLX's own answer, or the oracle's where MLX's is not close."""

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.oracle.reference import Reference, calibrate
from kernelwright.evaluator.task import Task, Tolerance
from kernelwright.ir import canonicalize, capture


def softmax_of(x: np.ndarray, tolerance: Tolerance | None = None) -> Reference:
    dtype = getattr(mx, x.dtype.name)
    graph = canonicalize(capture(lambda a: mx.softmax(a, axis=-1), mx.zeros(x.shape, dtype)))
    task = Task(graph, "softmax", () if tolerance is None else (tolerance,))
    return calibrate(Case(graph, Distribution.NORMAL), (x,), task.output_tolerances)


def test_mlx_stands_where_it_is_close() -> None:
    one = softmax_of(np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32))
    right = one.expected_outputs[0].rounded
    assert one.allclose_answers()[0].own is not None
    found = one.closeness([right])
    assert (found.failed, found.is_beside_mlx) == (None, True)


def test_the_oracle_stands_in_for_sums_of_halves_in_halves() -> None:
    one = softmax_of(np.zeros((8, 4096), np.float32).astype("bfloat16"))
    right = one.expected_outputs[0].rounded
    assert one.allclose_answers()[0].own is None
    found = one.closeness([right])
    assert (found.failed, found.is_beside_mlx) == (None, False)


@pytest.mark.parametrize("factor", [1.02, 2.0])
def test_what_is_not_close_is_named(factor: float) -> None:
    one = softmax_of(np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32))
    found = one.closeness([(one.expected_outputs[0].expected * factor).astype(np.float32)])
    assert (found.failed, found.is_beside_mlx) == (0, True)


def test_a_tolerance_that_was_asked_for_is_held_to_everywhere() -> None:
    x = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    one = softmax_of(x, Tolerance(1e-9, 0.0))
    right = one.expected_outputs[0].rounded
    assert one.closeness([np.nextafter(right, np.float32(1))]).failed == 0
    assert one.closeness([right]).failed is None
