"""A stitched graph computes what the graph computes, whatever its regions run."""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.ir.trace.stitch import RunRegion, stitch
from kernelwright.plan import partition


def block(x: mx.array, w: mx.array) -> tuple[mx.array, mx.array]:
    h = mx.softmax(x @ w, axis=-1) * 2 + 1
    g = mx.exp(h @ w) - x
    return mx.sort(g, axis=-1), h


def by_mlx(region: ir.Region) -> RunRegion:
    graph = region.extract()

    def run(arrays: Sequence[mx.array]) -> Sequence[mx.array]:
        return ir.interpret(graph, *arrays)

    return run


@pytest.fixture(scope="module")
def graph() -> ir.Graph:
    return ir.canonicalize(ir.capture(block, mx.zeros((4, 8)), mx.zeros((8, 8))))


def inputs() -> list[mx.array]:
    random = np.random.default_rng(0)
    return [mx.array(random.standard_normal(s, dtype=np.float32)) for s in ((4, 8), (8, 8))]


def test_planned_regions_stitch_to_the_whole(graph: ir.Graph) -> None:
    regions = partition(graph)
    assert len(regions) >= 2
    stitched = stitch(graph, {region: by_mlx(region) for region in regions})
    for found, expected in zip(stitched(*inputs()), block(*inputs()), strict=True):
        assert mx.allclose(found, expected).item()


def test_each_region_runs_once(graph: ir.Graph) -> None:
    calls: list[int] = []

    def counted(region: ir.Region, number: int) -> RunRegion:
        run = by_mlx(region)

        def step(arrays: Sequence[mx.array]) -> Sequence[mx.array]:
            calls.append(number)
            return run(arrays)

        return step

    regions = partition(graph)
    stitch(graph, {r: counted(r, i) for i, r in enumerate(regions)})(*inputs())
    assert sorted(calls) == list(range(len(regions)))


def test_no_regions_is_plain_mlx(graph: ir.Graph) -> None:
    for found, expected in zip(stitch(graph, {})(*inputs()), block(*inputs()), strict=True):
        assert mx.array_equal(found, expected).item()
