"""`mx.allclose` is called beside MLX's own answer, or the oracle's where MLX's is not close."""

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.oracle.expected_output import ExpectedOutput
from kernelwright.evaluator.oracle.mlx_answer import AllcloseAnswer, closeness, run_mlx
from kernelwright.evaluator.oracle.reference import Reference, calibrate
from kernelwright.evaluator.task import Task, Tolerance
from kernelwright.ir import canonicalize, capture
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype


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


LARGE = 3 << 17
"""More elements than are all put before `mx.allclose`."""


def literally(one: np.ndarray, other: np.ndarray, tolerance: Tolerance) -> bool:
    def as_mlx(array: np.ndarray) -> mx.array:
        if array.dtype.name == "bfloat16":
            return mx.array(array.view(np.uint16)).view(mx.bfloat16)
        return mx.array(array)

    close = mx.allclose(
        as_mlx(one), as_mlx(other), tolerance.relative, tolerance.absolute, equal_nan=True
    )
    return bool(close.item())


@pytest.mark.parametrize("dtype", [Dtype.FLOAT32, Dtype.FLOAT16, Dtype.BFLOAT16])
@pytest.mark.parametrize("share", [0.5, 0.97, 0.995, 1.0, 1.005, 1.03, 2.0])
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-4, 1.0, 3e4])
def test_large_outputs_are_compared_as_mlx_compares_them(
    dtype: Dtype, share: float, size: float
) -> None:
    tolerance = Tolerance.of(dtype)
    random = np.random.default_rng(1)
    answer = (size * random.uniform(-1, 1, LARGE)).astype(dtype.numpy)
    answer[:4] = np.nan, np.inf, -np.inf, 0
    found = answer.copy()
    moved = answer[9:10].astype(np.float64)
    found[9:10] = moved + share * (tolerance.absolute + tolerance.relative * np.abs(moved))
    wanted = ExpectedOutput(TensorType((LARGE,), dtype), tolerance, answer, answer)
    own = closeness([found], [AllcloseAnswer(answer, is_close=True)], [wanted])
    assert (own.failed is None) == literally(found, answer, tolerance)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 65504.0])
@pytest.mark.parametrize("other", [np.nan, np.inf, -np.inf, 1.0])
def test_one_special_value_of_many_is_compared_as_mlx_compares_it(
    value: float, other: float
) -> None:
    tolerance = Tolerance.of(Dtype.FLOAT16)
    answer = np.ones(LARGE, np.float16)
    found = answer.copy()
    answer[-1], found[-1] = value, other
    ideal = answer.astype(np.float64)
    wanted = ExpectedOutput(TensorType((LARGE,), Dtype.FLOAT16), tolerance, ideal, answer)
    own = closeness([found], [AllcloseAnswer(answer, is_close=True)], [wanted])
    assert (own.failed is None) == literally(found, answer, tolerance)


def test_a_large_graph_runs_block_by_block_as_it_does_at_once() -> None:
    graph = canonicalize(capture(lambda a: mx.softmax(a, axis=-1), mx.zeros((4100, 256))))
    x = np.random.default_rng(0).standard_normal((4100, 256)).astype(np.float32)
    (found,) = run_mlx(graph, [x])
    assert np.array_equal(found, np.array(mx.softmax(mx.array(x), axis=-1, stream=mx.cpu)))
