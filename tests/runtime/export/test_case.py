"""Exports are compared at another shape wherever the original takes one."""

import mlx.core as mx

from kernelwright.ir import canonicalize, capture
from kernelwright.runtime.export.function.case import another_shape


def _softmax_of_eights(x: mx.array) -> list[mx.array]:
    if x.shape[0] % 8:
        raise ValueError("expected a multiple of 8 rows")
    return [mx.softmax(x, axis=-1)]


def test_a_free_size_that_the_original_refuses_gives_way_to_another() -> None:
    graph = canonicalize(capture(_softmax_of_eights, mx.zeros((8, 64))))
    assert another_shape(graph, [((8, 64), mx.float32)], _softmax_of_eights) == [(16, 64)]
