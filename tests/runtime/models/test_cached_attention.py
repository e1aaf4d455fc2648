"""Attention over a cache's whole buffers is attention over the keys that count."""

import math

import mlx.core as mx
import pytest
from mlx_lm.models.cache import KVCache

from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.lower import lower, schedules
from kernelwright.runtime.cutting import regions_of
from kernelwright.runtime.models.cached_attention import AttentionKernels, CachedAttention
from kernelwright.runtime.running import runner
from kernelwright.runtime.server import KernelServer, Service

HEADS, KEY_HEADS, WIDTH, COUNT = 4, 2, 32, 9
ATTENTION = CachedAttention(
    number=0,
    query=TensorType((1, HEADS, 1, WIDTH), Dtype.FLOAT32),
    key=TensorType((1, KEY_HEADS, 1, WIDTH), Dtype.FLOAT32),
    value=TensorType((1, KEY_HEADS, 1, WIDTH), Dtype.FLOAT32),
    scale=0.2,
    query_place=0,
    state_place=1,
    made_place=2,
    taken=0,
)


class Lowering(KernelServer):
    """Serves the kernel that one schedule of the lowering gives."""

    def __init__(self, place: float) -> None:
        super().__init__(device="simulator")
        self._place = place

    def serve(self, graph: Graph) -> Service:
        assert self.device is not None
        (region,) = regions_of(graph)
        task = region.extract()
        found = list(schedules(task, self.device.info))
        program = lower(task, found[int(self._place * (len(found) - 1))])
        run = runner(self.device.compile(program.bind(task.input_types)))
        return Service(graph, {region: run}, (), "lowered", is_lazy=False)


def trimmed(left_behind: float) -> KVCache:
    """Return a cache that forgot what is no number any more."""
    cache = KVCache()  # type: ignore[no-untyped-call]
    shape = (1, KEY_HEADS, COUNT, WIDTH)
    cache.update_and_fetch(mx.random.normal(shape), mx.random.normal(shape))  # type: ignore[no-untyped-call]
    wrong = mx.full((1, KEY_HEADS, 7, WIDTH), left_behind)
    cache.update_and_fetch(wrong, wrong)  # type: ignore[no-untyped-call]
    cache.trim(7)  # type: ignore[no-untyped-call]
    return cache


@pytest.mark.parametrize("left_behind", [math.nan, math.inf, -math.inf, 3e38])
@pytest.mark.parametrize("place", [0.0, 0.3, 0.7, 1.0])
def test_what_a_trimmed_cache_left_behind_is_never_read(left_behind: float, place: float) -> None:
    mx.random.seed(0)
    cache = trimmed(left_behind)
    query = mx.random.normal((1, HEADS, 1, WIDTH))
    assert cache.keys is not None
    assert cache.values is not None
    seen = (cache.keys[..., :COUNT, :], cache.values[..., :COUNT, :])
    right = mx.fast.scaled_dot_product_attention(query, *seen, scale=0.2)
    found = AttentionKernels(ATTENTION, Lowering(place)).answer(query, cache)
    assert found is not None
    assert mx.allclose(found, right, rtol=1e-4, atol=1e-5)
