"""Functions that a decorator puts into an object of their file."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import mlx.core as mx

from kernelwright.runtime.export.function.alone import ExampleCall
from kernelwright.runtime.export.function.function_export import export_function
from kernelwright.runtime.export.function.module_file import imported
from kernelwright.runtime.export.function.variant import Lookup


class Table(dict[str, Callable[..., mx.array]]):
    def register(self, name: str) -> Callable[[Callable[..., mx.array]], Callable[..., mx.array]]:
        def put(function: Callable[..., mx.array]) -> Callable[..., mx.array]:
            self[name] = function
            return function

        return put


table = Table()


@table.register("softmax")
def soft(x: mx.array) -> mx.array:
    return mx.softmax(x, axis=-1)


@table.register("square")
def squared(x: mx.array) -> mx.array:
    return x * x


def activated(x: mx.array, name: str = "softmax") -> mx.array:
    return table[name](x) * 2


def test_registered_functions_are_carried_with_the_object_that_holds_them(
    kernels_of: Callable[..., Lookup],
) -> None:
    x = mx.arange(32.0).reshape(4, 8)
    export = export_function(
        activated,
        "activated",
        [ExampleCall((x,), {})],
        kernels_of(lambda _: ("m4-pro",)),
        admits=lambda _: True,
    )
    assert export.files[0].text.count("def _made(") == 1
    with imported(export.files, "activated") as module:
        assert module.activated.serves(x)
        for name in table:
            assert module.activated(x, name).tolist() == activated(x, name).tolist()


class Weighted(NamedTuple):
    y: mx.array
    weights: mx.array


space = SimpleNamespace(table=table)


def combined(routed: Weighted, *, name: str = "square") -> mx.array:
    made: mx.array = space.table[name](routed.y * routed.weights)
    return made.sum(axis=-2)


def test_a_function_that_a_caller_names_is_served_while_the_table_holds_it(
    kernels_of: Callable[..., Lookup],
) -> None:
    routed = Weighted(mx.ones((2, 4, 8)), mx.ones((2, 4, 1)))
    export = export_function(
        combined,
        "combined",
        [ExampleCall((routed,), {})],
        kernels_of(lambda _: ("m4-pro",)),
        admits=lambda _: True,
    )
    with imported(export.files, "combined") as module:
        assert module.combined.serves(routed)
        assert module.combined.serves(module.Weighted(*routed))
        module.space.table["square"] = mx.exp
        assert not module.combined.serves(routed)
