"""Terms share what they have in common, and so does whoever asks about them."""

import mlx.core as mx

from kernelwright.ir import canonicalize, capture
from kernelwright.metal.lower import lower
from kernelwright.metal.schedule import parse


def test_values_read_twice_at_every_step_are_looked_at_once() -> None:
    def function(x: mx.array) -> mx.array:
        value = x
        for _ in range(40):
            value = mx.tanh(value) * value
        return value / mx.sum(value, axis=-1, keepdims=True)

    graph = canonicalize(capture(function, mx.zeros((4, 64))))
    # A walk that forgot where it had been would visit 2**40 terms.
    (kernel,) = lower(graph, parse("rowwise(lanes=32)")).kernels
    assert kernel.source.count("tanh") <= 2 * 40
