"""What is analysed block by block is what one analysis of the whole gives."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.oracle import row_blocks
from kernelwright.evaluator.oracle.block_analysis import analyse_in_blocks
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir import canonicalize, capture
from kernelwright.ir.graph.dtype import Dtype

ROWS, COLUMNS = 37, 40


def normalised(x: mx.array, w: mx.array) -> mx.array:
    return mx.fast.rms_norm(x, w, 1e-5) + mx.softmax(x, axis=-1)


def transposed(x: mx.array, w: mx.array) -> mx.array:
    return mx.sigmoid(x.T) * w[:, None]


def looked_up(x: mx.array, w: mx.array) -> mx.array:
    return w[(mx.abs(x) * 4).astype(mx.int32) % COLUMNS]


def flipped(x: mx.array, w: mx.array) -> mx.array:
    return x[::-1] * w


def summed(x: mx.array, w: mx.array) -> mx.array:
    return mx.cumsum(x, axis=0) * w


def product(x: mx.array, w: mx.array) -> mx.array:
    return x @ mx.broadcast_to(w, (COLUMNS, COLUMNS))


@pytest.mark.parametrize("function", [normalised, transposed, looked_up, product, flipped, summed])
def test_blocks_give_what_the_whole_gives(
    monkeypatch: pytest.MonkeyPatch, function: Callable[[mx.array, mx.array], mx.array]
) -> None:
    graph = canonicalize(capture(function, mx.zeros((ROWS, COLUMNS)), mx.zeros((COLUMNS,))))
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(s).astype(np.float32) for s in ((ROWS, COLUMNS), (COLUMNS,))]
    tolerances = [Tolerance.of(Dtype.FLOAT32)]
    (whole,) = analyse_in_blocks(graph, arrays, tolerances)
    monkeypatch.setattr(row_blocks, "_BLOCK_ELEMENTS", 4 * COLUMNS)
    assert row_blocks.row_blocks(graph) is not None
    (joined,) = analyse_in_blocks(graph, arrays, tolerances)
    np.testing.assert_array_equal(joined.rounded, whole.rounded)
    np.testing.assert_allclose(joined.expected, whole.expected, rtol=1e-13, atol=1e-15)
    none = np.zeros(whole.type.shape)
    one, other = (
        none if w.element_tolerance is None else w.element_tolerance for w in (joined, whole)
    )
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-14)


def test_rows_that_mix_are_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "_BLOCK_ELEMENTS", 16)
    for function in (lambda x: mx.softmax(x.reshape(-1)), lambda x: x[::-1] - mx.sort(x, axis=0)):
        graph = canonicalize(capture(function, mx.zeros((64,))))
        assert row_blocks.row_blocks(graph) is None
