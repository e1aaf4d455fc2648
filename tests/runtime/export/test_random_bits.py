"""Random numbers of a key that is passed are drawn by an export as MLX draws them."""

from collections.abc import Callable
from dataclasses import replace

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.errors import KernelwrightError
from kernelwright.runtime.export.carried_steps import _random_bits
from kernelwright.runtime.export.function.passed_call import _Call
from kernelwright.runtime.export.function.traced_call import trace
from kernelwright.runtime.export.reference_code import function_source
from kernelwright.runtime.export.step_code import steps_source

KEY = mx.random.key(7)


def uniform(shape: tuple[int, ...], dtype: mx.Dtype) -> Callable[[mx.array], mx.array]:
    return lambda key: mx.random.uniform(shape=shape, key=key, dtype=dtype)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((1,), mx.float32),
        ((7,), mx.float32),
        ((8,), mx.float32),
        ((3, 5), mx.float16),
        ((2, 3), mx.bfloat16),
        ((9,), mx.float16),
    ],
)
def test_the_printed_code_draws_the_same_bits(shape: tuple[int, ...], dtype: mx.Dtype) -> None:
    graph = ir.capture(uniform(shape, dtype), KEY)
    node = next(node for node in graph.nodes if node.op == "random_bits")
    known = graph.nodes[: graph.nodes.index(node) + 1]
    bits = replace(graph, nodes=known, outputs=node.outputs)
    code = function_source(bits, "drawn", "Draw.")
    space: dict[str, object] = {"mx": mx}
    exec(code + steps_source(code), space)
    drawn = space["drawn"]
    assert callable(drawn)
    with mx.stream(mx.cpu):
        (wanted,) = ir.interpret(bits, KEY)
        assert mx.array_equal(drawn(KEY), wanted).item()


def test_each_key_of_several_fills_its_part() -> None:
    keys = mx.random.split(KEY, 3)
    with mx.stream(mx.cpu):
        whole = _random_bits(keys, (3, 5), mx.uint32)
        rows = [_random_bits(keys[i], (5,), mx.uint32) for i in range(3)]
        assert mx.array_equal(whole, mx.stack(rows)).item()


def test_a_key_that_is_passed_is_an_input_and_one_that_is_not_is_refused() -> None:
    def keyed(x: mx.array, key: mx.array) -> mx.array:
        return mx.softmax(x + mx.random.normal(x.shape, key=key), axis=-1)

    def unkeyed(x: mx.array) -> mx.array:
        return mx.softmax(x + mx.random.normal(x.shape), axis=-1)

    x = mx.zeros((4, 8))
    (traced,) = trace(keyed, _Call(((x, KEY), {})), ["x", "key"], _Call(()))
    assert any(node.op == "random_bits" for node in traced.graph.nodes)
    with pytest.raises(KernelwrightError, match="without a key"):
        trace(unkeyed, _Call(((x,), {})), ["x"], _Call(()))
