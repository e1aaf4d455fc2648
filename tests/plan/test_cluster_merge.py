"""Whole clusters are joined where that saves time, and only there."""

import mlx.core as mx
import pytest

from kernelwright import catalog
from kernelwright.ir import Dtype, canonicalize, capture
from kernelwright.plan import partition


def rope(heads: int, tokens: int) -> list[set[str]]:
    """Return the ops of each region of MLX's rotary embedding."""
    x = mx.zeros((1, heads, tokens, 64), mx.float16)

    def turn(x: mx.array) -> mx.array:
        return mx.fast.rope(x, 64, traditional=False, base=10000.0, scale=1.0, offset=0)

    regions = partition(canonicalize(capture(turn, x)))
    return [{node.op for node in region.nodes} for region in regions]


@pytest.mark.parametrize("name", ["rope", "rope_traditional", "lion_step"])
@pytest.mark.parametrize("width", [1, 3])
def test_a_catalog_task_is_one_region(name: str, width: int) -> None:
    entry = catalog.find(name)
    inputs = [mx.zeros(t.shape, getattr(mx, t.dtype.value)) for t in entry.types(Dtype.FLOAT16)]
    graph = canonicalize(capture(entry.function, *inputs))
    (region,) = partition(graph, width=width)
    left = [node.op for i, node in enumerate(graph.nodes) if i not in region.indices]
    assert set(left) <= {"reshape"}


def test_tables_are_kept_where_many_would_compute_them_again() -> None:
    (whole,) = rope(heads=8, tokens=128)
    assert {"cos", "sin", "concatenate"} <= whole
    tables, turned = rope(heads=64, tokens=8192)
    assert "cos" in tables
    assert "concatenate" in turned
    assert "cos" not in turned


def test_clusters_that_read_the_same_array_are_joined_unless_one_waits_for_the_other() -> None:
    def apart(x: mx.array) -> tuple[mx.array, mx.array]:
        return mx.exp(x) * 2, mx.tanh(x) + 1

    def through(x: mx.array) -> mx.array:
        return mx.tanh(mx.sort(mx.exp(x) * 2, axis=0)) + x * 3

    x = mx.zeros((64, 64))
    (region,) = partition(canonicalize(capture(apart, x)))
    assert len(region.outputs) == 2
    regions = partition(canonicalize(capture(through, x)))
    assert not any({"exp", "tanh"} <= {node.op for node in region.nodes} for region in regions)
