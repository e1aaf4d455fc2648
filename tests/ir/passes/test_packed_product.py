"""A product with weights that are unpacked for it reads them packed, and means the same."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import Graph, canonicalize, capture, gather_attention, interpret
from kernelwright.plan import partition

X = mx.random.normal((3, 128), key=mx.random.key(0))
WEIGHTS = mx.quantize(mx.random.normal((16, 128), key=mx.random.key(1)), 64, 4)
Product = Callable[[mx.array, mx.array], mx.array]


def graph_of(product: Product, x: mx.array = X) -> Graph:
    def function(x: mx.array, w: mx.array, s: mx.array, b: mx.array) -> mx.array:
        return product(x, mx.dequantize(w, s, b, group_size=64, bits=4))

    with mx.stream(mx.cpu):
        return canonicalize(capture(function, x, *WEIGHTS))


@pytest.mark.parametrize(
    "product",
    [
        lambda x, w: x @ w.T,
        lambda x, w: mx.einsum("nd,od->no", x, w),
        lambda x, w: mx.addmm(mx.arange(16.0), x, w.T),
        lambda x, w: x.reshape(3, 1, 128) @ w.T,
    ],
)
def test_a_product_with_unpacked_weights_is_one_region_over_packed_ones(product: Product) -> None:
    graph = graph_of(product)
    gathered = gather_attention(graph)
    assert "dequantize" not in {node.op for node in gathered.nodes}
    assert len(partition(gathered)) == 1
    with mx.stream(mx.cpu):
        (wanted,), (made,) = (interpret(g, X, *WEIGHTS) for g in (graph, gathered))
    np.testing.assert_allclose(np.array(made), np.array(wanted), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "product",
    [
        lambda x, w: x[:, :16] @ w,
        lambda x, w: x @ (w + 1.0).T,
        lambda x, w: mx.addmm(mx.arange(16.0), x, w.T, alpha=2.0),
        lambda x, w: x.astype(mx.float16) @ w.astype(mx.float16).T,
    ],
)
def test_other_products_read_what_they_read(product: Product) -> None:
    gathered = gather_attention(graph_of(product))
    assert "quantized_matmul" not in {node.op for node in gathered.nodes}
