"""Ops that read or write at indices say which ones are in range."""

import mlx.core as mx
import pytest

from kernelwright.ir import OPS, Call, canonicalize, capture
from kernelwright.ir.ops.behaviour import Domain
from kernelwright.ir.ops.index_range import IndexRange


@pytest.mark.parametrize("name", OPS)
def test_an_op_has_ranges_where_its_operands_are_indices(name: str) -> None:
    assert (Domain.INDEX in OPS[name].behaviour.domains) == (OPS[name].index_ranges is not None)


def test_matrices_are_chosen_among_those_of_their_side() -> None:
    def experts(x: mx.array, w: mx.array, i: mx.array) -> mx.array:
        return mx.gather_mm(x, w, rhs_indices=i)

    arrays = mx.zeros((2, 1, 1, 8)), mx.zeros((6, 8, 4)), mx.zeros((2, 3), mx.uint32)
    graph = canonicalize(capture(experts, *arrays))
    (node,) = (n for n in graph.nodes if n.op == "gather_mm")
    ranges = OPS["gather_mm"].index_ranges
    assert ranges is not None
    assert ranges(Call.of(graph, node)) == {2: IndexRange(0, (1,)), 3: IndexRange(0, (5,))}
