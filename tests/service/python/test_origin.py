"""The names by which a search knows Python functions."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.nn.layers.linear import Linear
from mlx.nn.utils import value_and_grad as model_value_and_grad

from kernelwright.service.python.origin import lasting_file_of, name_of, name_to_show, place_of

Function = Callable[..., object]


def loss(x: mx.array, w: mx.array) -> mx.array:
    return (x * w).sum()


class Block(Linear):
    class Ops:
        """Holds functions."""

        @staticmethod
        def halved(x: mx.array) -> mx.array:
            return x * 0.5


def make(scale: float) -> Function:
    def inner(x: mx.array) -> mx.array:
        return x * scale

    return inner


projection = Linear(2, 2)
layers = {"up": Linear(2, 2)}
step = mx.value_and_grad(loss)
rows = mx.vmap(loss)
twice, thrice = make(2.0), make(3.0)
table: dict[str | int, Function] = {"halved": make(0.5), 4: make(4.0)}
blocks = [Block(2, 2), Block(2, 2)]
for looped in [mx.grad(loss)]:
    LOOPED = looped.__name__


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (loss, "loss"),
        (step, "step"),
        (rows, "rows"),
        (twice, "twice"),
        (thrice, "thrice"),
        (table["halved"], "table.halved"),
        (table[4], "table.4"),
        (blocks[1], "blocks.1"),
        (blocks[1].__call__, "blocks.1.__call__"),
        (projection, "projection"),
        (projection.__call__, "projection.__call__"),
        (layers["up"], "layers.up"),
        (Block.Ops.halved, "Block.Ops.halved"),
    ],
)
def test_a_function_is_called_as_the_variable_that_holds_it(function: Function, name: str) -> None:
    assert name_of(function) == name
    assert place_of(function) == lasting_file_of(function)
    assert Path(__file__).stem in place_of(function)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (mx.value_and_grad(loss), "value_and_grad(loss)"),
        (mx.grad(loss, argnums=1), "grad(loss)"),
        (mx.vmap(mx.grad(loss)), "vmap(grad(loss))"),
        (mx.compile(loss), "compile(loss)"),
        (model_value_and_grad(blocks[0], loss), "value_and_grad(loss)"),
        (partial(loss, w=mx.array(1.0)), "partial(loss)"),
        (looped, "grad(loss)"),
        (make(4.0), "inner"),
        (Linear(2, 2), "Linear"),
    ],
)
def test_what_no_variable_holds_is_called_after_how_it_was_made(
    function: Function, name: str
) -> None:
    assert name_to_show(function) == name
    assert place_of(function).startswith("<")
