"""Packed weights are unpacked before products of many rows, where that was measured to pay."""

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import Graph, canonicalize, capture, interpret
from kernelwright.plan import partition
from kernelwright.plan.mlx import quantized_product
from kernelwright.plan.mlx.quantized_product import unpack_products, unpack_untried


def _product(
    rows: int, *, bits: int = 4, dtype: mx.Dtype = mx.float32
) -> tuple[Graph, list[mx.array]]:
    x = mx.random.normal((rows, 128), key=mx.random.key(0)).astype(dtype)
    w = mx.random.normal((64, 128), key=mx.random.key(1)).astype(dtype)
    packed, scales, biases = mx.quantize(w, 64, bits)

    def multiplied(x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
        return mx.quantized_matmul(x, packed, scales, biases, group_size=64, bits=bits)

    arrays = [x, packed, scales, biases]
    return canonicalize(capture(multiplied, *arrays)), arrays


@pytest.mark.parametrize("bits", [4, 8])
def test_a_product_of_many_rows_is_unpacked_and_stays_the_same(
    bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantized_product, "LEAST_WEIGHTS", 64 * 128)
    graph, arrays = _product(512, bits=bits)
    unpacked = unpack_products(graph, "cuda")
    assert [n.op for n in unpacked.nodes] == ["dequantize", "transpose", "matmul"]
    (found,), (expected,) = interpret(unpacked, *arrays), interpret(graph, *arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def _large(rows: int, width: int) -> Graph:
    x, packed = mx.zeros((rows, 4096), mx.float16), mx.zeros((width, 512), mx.uint32)
    scales = mx.zeros((width, 64), mx.float16)

    def multiplied(x: mx.array, w: mx.array, s: mx.array, b: mx.array) -> mx.array:
        return mx.quantized_matmul(x, w, s, b, group_size=64, bits=4)

    return canonicalize(capture(multiplied, x, packed, scales, scales))


@pytest.mark.parametrize(
    ("rows", "width", "device"),
    [(511, 4096, "cuda"), (512, 4032, "cuda"), (512, 4096, "metal"), (512, 4096, "simulator")],
)
def test_other_products_stay_packed(rows: int, width: int, device: str) -> None:
    graph = _large(rows, width)
    assert unpack_products(graph, device) is graph


def test_unpacking_a_large_matrix_is_a_region_and_its_product_is_mlx_s() -> None:
    graph = unpack_products(_large(512, 4096), "cuda")
    (region,) = partition(graph)
    assert [node.op for node in region.nodes] == ["dequantize"]


def test_a_graph_without_such_a_product_stays_the_same_object() -> None:
    """Constants are numbered anew by a rewrite, and scalars have no rows."""

    def attention(end: mx.array, q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        mask = mx.arange(64) < end
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask=mask)

    keys = mx.zeros((1, 2, 64, 64))
    graph = canonicalize(capture(attention, mx.array(7), mx.zeros((1, 2, 1, 64)), keys, keys))
    assert unpack_untried(graph) == (graph, frozenset())
    assert unpack_untried(graph)[0] is graph


def test_a_trial_stands_for_somewhat_more_rows_and_for_no_other_product() -> None:
    def trials(rows: int, width: int = 4096) -> set[str]:
        return {product.trial_id for product in unpack_untried(_large(rows, width))[1]}

    assert trials(512) == trials(600) != trials(1024)
    assert not trials(512) & trials(512, 8192)
    assert not trials(127)
