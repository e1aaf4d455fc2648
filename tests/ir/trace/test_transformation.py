"""What a function says of how MLX made it of another."""

from collections.abc import Callable

import mlx.core as mx
import pytest
from mlx.nn.layers.linear import Linear
from mlx.nn.utils import value_and_grad as model_value_and_grad

from kernelwright.ir.trace.transformation import transformation_of

Function = Callable[..., object]
RAN: list[str] = []


def loss(x: mx.array, w: mx.array) -> mx.array:
    RAN.append("loss")
    return (x * w).sum()


def any_keyword(**arrays: mx.array) -> mx.array:
    RAN.append("any_keyword")
    return arrays["x"].sum()


@pytest.mark.parametrize(
    ("make", "name", "arguments"),
    [
        (mx.value_and_grad, "value_and_grad", None),
        (lambda f: mx.value_and_grad(f, argnames=["w"]), "value_and_grad", None),
        (lambda f: mx.grad(f, argnums=(0, 1)), "grad", None),
        (lambda f: mx.vmap(f, in_axes=(0, None)), "vmap", ((0, None), 0)),
        (mx.compile, "compile", (None, None)),
        (mx.checkpoint, "checkpoint", None),
        (lambda f: model_value_and_grad(Linear(2, 2), f), "value_and_grad", None),
    ],
)
def test_a_transformation_has_a_name(
    make: Callable[[Function], Function], name: str, arguments: object
) -> None:
    RAN.clear()
    found = transformation_of(make(loss))
    assert found is not None
    assert (found.name, found.inner, found.arguments) == (name, loss, arguments)
    assert not RAN


@pytest.mark.parametrize("make", [mx.grad, mx.checkpoint])
def test_a_function_is_not_run_to_find_a_name(make: Callable[[Function], Function]) -> None:
    RAN.clear()
    found = transformation_of(make(any_keyword))
    assert found is not None
    assert (found.name, found.inner) == ("derivative", any_keyword)
    assert not RAN


@pytest.mark.parametrize("value", [loss, Linear(2, 2), mx.tanh, 3])
def test_other_values_are_no_transformations(value: object) -> None:
    assert transformation_of(value) is None
