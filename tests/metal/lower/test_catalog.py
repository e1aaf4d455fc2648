"""The catalog through lowering: a kernel or a sentence, never an accident."""

from contextlib import suppress
from functools import cache

import mlx.core as mx
import pytest

from kernelwright import catalog
from kernelwright.errors import UnsupportedError
from kernelwright.ir import Dtype, Graph, canonicalize, capture
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower import lower, schedules
from kernelwright.plan import partition

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)


@cache
def regions(name: str) -> tuple[Graph, ...]:
    """Return the regions of a catalog task at half precision."""
    entry = catalog.find(name)
    inputs = [
        mx.zeros(t.shape, getattr(mx, "bool_" if t.dtype is Dtype.BOOL else t.dtype.value))
        for t in entry.types(Dtype.FLOAT16)
    ]
    graph = canonicalize(capture(entry.function, *inputs))
    return tuple(region.extract() for region in partition(graph))


@pytest.mark.parametrize("name", [entry.name for entry in catalog.entries()])
@pytest.mark.sampled(55)
def test_every_region_becomes_a_kernel_or_a_sentence(name: str) -> None:
    for graph in regions(name):
        with suppress(UnsupportedError):
            space = schedules(graph, DEVICE)
            # The ends of a space and its middle differ in all that matters.
            for schedule in {space[0], space[len(space) // 2], space[-1]}:
                lower(graph, schedule).bind(graph.input_types)
