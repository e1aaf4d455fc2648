"""Replaying a graph gives MLX's bits, and its float64 meaning gives MLX's values."""

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.ir.trace.array import to_numpy
from tests.ir.functions import (
    CASES,
    EITHER_ANSWER_IS_RIGHT,
    SINGLE_PRECISION_ONLY,
    Case,
    arrays,
    flat,
)

CAPTURED = {case.name: ir.capture(case.function, *arrays(case.kinds, 0)) for case in CASES}


def _same_bits(found: mx.array, expected: mx.array) -> bool:
    return found.dtype == expected.dtype and bool(
        mx.array_equal(found, expected, equal_nan=not mx.issubdtype(found.dtype, mx.integer))
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_replay_is_exact_before_and_after_canonicalisation(case: Case) -> None:
    for graph in (CAPTURED[case.name], ir.canonicalize(CAPTURED[case.name])):
        ir.verify(graph)
        for seed in (0, 1):
            inputs = arrays(case.kinds, seed)
            expected = flat(case.function(*inputs))
            found = ir.interpret(graph, *inputs)
            assert all(map(_same_bits, found, expected)), ir.describe(graph)
            assert len(found) == len(expected)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=["f16", "bf16"])
def test_replay_is_exact_in_half_precision(dtype: mx.Dtype) -> None:
    for case in CASES:
        if case.name in SINGLE_PRECISION_ONLY or not set(case.kinds) & set("fpuq"):
            continue
        inputs = arrays(case.kinds, 3, dtype)
        expected = flat(case.function(*inputs))
        graph = ir.canonicalize(ir.capture(case.function, *inputs))
        assert all(map(_same_bits, ir.interpret(graph, *inputs), expected)), case.name


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_float64_meaning_agrees_with_mlx(case: Case) -> None:
    if case.name in EITHER_ANSWER_IS_RIGHT:
        pytest.skip("MLX leaves the order open")
    inputs = arrays(case.kinds, 2)
    graph = ir.canonicalize(CAPTURED[case.name])
    found = ir.reference(graph, [to_numpy(x) for x in inputs])
    for ideal, actual in zip(found, flat(case.function(*inputs)), strict=True):
        assert ideal.shape == tuple(actual.shape)
        if ideal.dtype == np.float64:
            found64 = to_numpy(actual).astype(np.float64)
            np.testing.assert_allclose(found64, ideal, rtol=2e-4, atol=2e-5)
        else:
            np.testing.assert_array_equal(to_numpy(actual), ideal)


def test_the_cases_cover_the_op_table() -> None:
    seen = {node.op for graph in CAPTURED.values() for node in graph.nodes}
    assert len(seen) >= 60
    assert seen <= set(ir.OPS)
    factorisations = {"qr", "svd", "eig", "eigh", "cholesky", "inverse", "hadamard"}
    quantized = {
        "quantize",
        "dequantize",
        "quantized_matmul",
        "gather_qmm",
        "gather_mm",
        "block_masked_mm",
    }
    only_by_rewriting = {
        "mean",
        "attention",
        "copy",
        "contiguous",
        "sorted_slice",
        "argsorted_slice",
    }
    not_exported = {"bitwise_invert", "logcumsumexp", "number_of_elements", "custom_kernel"}
    rare = {"search_sorted", "depends", "stop_gradient", "expand_dims"}
    unseen = set(ir.OPS) - seen
    assert unseen <= factorisations | quantized | only_by_rewriting | not_exported | rare


QUANTIZED = mx.quantize(mx.random.normal((8, 64), key=mx.random.key(1)), 32, 4)
SQUARE = mx.random.normal((4, 4), key=mx.random.key(2))


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda w: mx.quantize(w, 32, 4), [mx.ones((4, 64))]),
        (lambda w, s, b: mx.dequantize(w, s, b, 32, 4), QUANTIZED),
        (
            lambda x, w, s, b: mx.quantized_matmul(x, w, s, b, True, 32, 4),
            [mx.ones((2, 64)), *QUANTIZED],
        ),
        (
            lambda x, w, s, b: mx.quantized_matmul(x, w, s, b, False, 32, 4),
            [mx.ones((2, 8)), *QUANTIZED],
        ),
        (
            lambda x, n: mx.gather_mm(x, x, lhs_indices=n, rhs_indices=n),
            [mx.random.normal((3, 4, 4), key=mx.random.key(3)), mx.array([2, 0])],
        ),
        (lambda a: mx.linalg.inv(a), [SQUARE]),
        (lambda a: mx.linalg.cholesky(a @ a.T + mx.eye(4)), [SQUARE]),
        (lambda a: mx.linalg.qr(a), [SQUARE]),
        (lambda a: mx.linalg.eigh(a + a.T), [SQUARE]),
        (lambda a: mx.hadamard_transform(a), [SQUARE]),
        (lambda a, b: mx.depends([a], [b]), [SQUARE, SQUARE * 2]),
        (lambda a: mx.searchsorted(mx.array([0.0, 1.0]), a), [SQUARE]),
    ],
)
def test_rare_ops_replay_exactly(function: object, inputs: list[mx.array]) -> None:
    assert callable(function)
    expected = flat(function(*inputs))
    found = ir.interpret(ir.canonicalize(ir.capture(function, *inputs)), *inputs)
    assert all(map(_same_bits, found, expected))


def test_quantized_weights_have_a_meaning() -> None:
    def multiply(x: mx.array, w: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
        return mx.quantized_matmul(x, w, scales, biases, True, 32, 4)

    x = mx.random.normal((2, 64), key=mx.random.key(4))
    graph = ir.capture(multiply, x, *QUANTIZED)
    ideal = ir.reference(graph, [to_numpy(a) for a in (x, *QUANTIZED)])[0]
    found = to_numpy(multiply(x, *QUANTIZED)).astype(np.float64)
    np.testing.assert_allclose(found, ideal, rtol=1e-4, atol=1e-4)


def test_the_oracle_rounds_no_intermediate() -> None:
    def cancels(x: mx.array) -> mx.array:
        return (x + 1000.0) - 1000.0

    x = mx.array([0.1], mx.float16)
    graph = ir.capture(cancels, x)
    assert ir.interpret(graph, x)[0].item() == 0.0
    ideal = ir.reference(graph, [to_numpy(x)])[0]
    np.testing.assert_array_equal(ideal, to_numpy(x).astype(np.float64))


def test_the_oracle_keeps_the_rounding_that_is_meant() -> None:
    graph = ir.capture(lambda x: mx.round(x * 4).astype(mx.int8).astype(mx.float32) / 4, SQUARE)
    ideal = ir.reference(graph, [to_numpy(SQUARE)])[0]
    assert np.array_equal(ideal, np.rint(to_numpy(SQUARE) * 4) / 4)


def test_a_dilated_filter_reads_nothing_between_its_taps() -> None:
    x, weight = mx.zeros((1, 9, 1)).at[0, 4, 0].add(mx.inf), mx.ones((1, 3, 1))
    graph = ir.capture(lambda x, w: mx.conv1d(x, w, padding=2, dilation=2), x, weight)
    ideal = ir.reference(graph, [to_numpy(x), to_numpy(weight)])[0]
    assert np.flatnonzero(np.isinf(ideal)).tolist() == [2, 4, 6]
    assert not np.isnan(ideal).any()


def test_the_sign_of_no_number_is_zero_as_in_mlx() -> None:
    x = mx.array([mx.nan, -0.0, -2.0, mx.inf])
    graph = ir.capture(mx.sign, x)
    assert ir.reference(graph, [to_numpy(x)])[0].tolist() == mx.sign(x).tolist() == [0, 0, -1, 1]
