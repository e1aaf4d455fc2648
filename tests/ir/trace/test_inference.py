"""MLX says what types it makes of a graph from elsewhere; nothing is computed."""

from dataclasses import replace

import mlx.core as mx
import pytest

from kernelwright.errors import InputError
from kernelwright.ir import Dtype, Graph, TensorType, canonicalize, capture
from kernelwright.ir.graph import Node
from kernelwright.ir.trace.inference import check_types

BIG = 2**20
SQUARE = TensorType((BIG, BIG), Dtype.FLOAT32)
PRODUCT = Graph(
    types=(SQUARE,) * 3,
    inputs=(0, 1),
    constants=(),
    nodes=(Node("matmul", (0, 1), (2,)),),
    outputs=(2,),
)
"""Of arrays of four terabytes."""


def test_types_that_mlx_makes_are_taken_and_nothing_is_computed() -> None:
    check_types(PRODUCT)
    x = mx.ones((4, 8))
    check_types(canonicalize(capture(lambda x: mx.softmax(x @ x.T) + mx.random.uniform(), x)))


def test_an_op_that_the_table_lacks_is_taken_as_it_is_stated() -> None:
    check_types(replace(PRODUCT, nodes=(Node("Frobnicate", (0, 1), (2,)),)))


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (
            replace(PRODUCT, types=(SQUARE, SQUARE, replace(SQUARE, dtype=Dtype.INT32))),
            r"node 0 \(matmul\) makes i32\[1048576,1048576\], MLX makes f32",
        ),
        (
            replace(PRODUCT, types=(replace(SQUARE, dtype=Dtype.INT32),) * 3),
            r"node 0 \(matmul\) is no call that MLX takes: \[matmul\]",
        ),
        (replace(PRODUCT, nodes=(Node("matmul", (0,), (2,)),)), "takes 2 operands, found 1"),
    ],
)
def test_types_that_mlx_does_not_make_are_refused(broken: Graph, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_types(broken)
