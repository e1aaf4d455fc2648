"""Exports are compared at another shape wherever the original takes one."""

import mlx.core as mx
import numpy as np

from kernelwright.ir import canonicalize, capture
from kernelwright.runtime.export.function.case import another_shape


def _softmax_of_eights(x: mx.array) -> list[mx.array]:
    if x.shape[0] % 8:
        raise ValueError("expected a multiple of 8 rows")
    return [mx.softmax(x, axis=-1)]


def test_a_free_size_that_the_original_refuses_gives_way_to_another() -> None:
    graph = canonicalize(capture(_softmax_of_eights, mx.zeros((8, 64))))
    found = another_shape(graph, [((8, 64), mx.float32)], _softmax_of_eights)
    assert found is not None
    assert [a.shape for a in found] == [(16, 64)]


def _looked_up(table: mx.array, ids: mx.array, counts: mx.array) -> list[mx.array]:
    return [table[ids] * counts[..., None].astype(table.dtype)]


def test_indices_of_another_shape_reach_its_last_row_and_none_beyond() -> None:
    types = [((40, 8), mx.float32), ((64,), mx.int32), ((64,), mx.int32)]
    graph = canonicalize(capture(_looked_up, *(mx.zeros(s, d) for s, d in types)))
    found = another_shape(graph, types, _looked_up)
    assert found is not None
    rows, ids, counts = len(found[0]), *(np.array(a) for a in found[1:])
    assert rows // 2 < ids.max() < rows
    assert counts.min() < -100
    assert counts.max() > 100
