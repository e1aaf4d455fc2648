"""Finished clusters give each other work where less is written between them then."""

from collections.abc import Callable

import mlx.core as mx

from kernelwright.ir import Graph, canonicalize, capture
from kernelwright.plan import partition
from kernelwright.plan.traffic import planned_traffic


def _graph(function: Callable[..., mx.array], *arrays: mx.array) -> Graph:
    return canonicalize(capture(function, *arrays))


def _moved_share(graph: Graph) -> float:
    """Return the bytes that a plan moves, over those of the graph's inputs and outputs."""
    least = sum(t.nbytes for t in (*graph.input_types, *graph.output_types))
    return planned_traffic(graph, partition(graph)).nbytes / least


def test_a_product_with_a_mask_is_summed_in_place_though_the_mask_is_counted_too() -> None:
    def pooled(x: mx.array, mask: mx.array) -> mx.array:
        kept = mask.astype(x.dtype)[..., None]
        return (x * kept).sum(axis=1) / mx.maximum(kept.sum(axis=1), 1)

    graph = _graph(pooled, mx.zeros((16, 511, 1024), mx.float16), mx.zeros((16, 511), mx.int32))
    assert _moved_share(graph) < 1.1


def test_two_steps_of_a_stencil_on_a_ring_are_cut_between_the_steps() -> None:
    def steps(u: mx.array) -> mx.array:
        for _ in range(2):
            across = mx.roll(u, 1, 1) + mx.roll(u, -1, 1)
            u = u + 0.1 * (mx.roll(u, 1, 0) + mx.roll(u, -1, 0) + across - 4 * u)
        return u

    graph = _graph(steps, mx.zeros((400, 500)))
    assert _moved_share(graph) == 2.0


def test_what_mlx_would_copy_behind_a_map_is_written_in_place() -> None:
    def patches(x: mx.array) -> mx.array:
        x = (x - 0.5).reshape(4, 3, 37, 14, 37, 14)
        return x.transpose(0, 2, 4, 1, 3, 5).reshape(4, -1, 588)

    graph = _graph(patches, mx.zeros((4, 3, 518, 518), mx.float16))
    (region,) = partition(graph)
    assert len(region.indices) == len(graph.nodes)


def test_a_view_that_mlx_copies_beside_its_own_product_is_no_region() -> None:
    def projected(x: mx.array, w: mx.array) -> mx.array:
        return x.transpose(0, 2, 1, 3).reshape(512, 1024) @ w

    graph = _graph(projected, mx.zeros((1, 16, 512, 64)), mx.zeros((1024, 4096)))
    assert partition(graph) == []
