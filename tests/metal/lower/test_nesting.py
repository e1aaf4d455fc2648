"""A graph whose ops form a chain of a thousand ends in a program or in one sentence."""

import re
from collections.abc import Callable

import mlx.core as mx
import pytest

from kernelwright.errors import UnsupportedError
from kernelwright.ir import canonicalize, capture
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower import lower, schedules

DEVICE = DeviceInfo(name="simulator", chip="test", runtime="test", measures_time=False)
STEPS = 300
Step = Callable[[mx.array], mx.array]
CHAINS: dict[str, Step] = {
    "elementwise": lambda y: mx.sin(y * 0.9 + 0.1) - 0.01,
    "reductions": lambda y: mx.sin(y * 0.9 + 0.1) - mx.max(y, axis=-1, keepdims=True) * 0.01,
    "scans": lambda y: mx.cumsum(mx.sin(y), axis=-1) * 0.1,
    "views": lambda y: mx.sin(y.transpose().reshape(4, 8) + 0.1) * 0.9,
}


def chained(step: Step) -> Callable[[mx.array], mx.array]:
    def function(x: mx.array) -> mx.array:
        for _ in range(STEPS):
            x = step(x)
        return x

    return function


@pytest.mark.parametrize("name", CHAINS)
def test_a_deep_chain_ends_in_a_program_or_a_sentence(name: str) -> None:
    graph = canonicalize(capture(chained(CHAINS[name]), mx.zeros((4, 8))))
    try:
        made = f"{len(lower(graph, schedules(graph, DEVICE)[0]).kernels)} kernels"
    except UnsupportedError as e:
        made = str(e)
    assert re.search(r"kernels$|chain of several hundred|no family of kernels", made)
