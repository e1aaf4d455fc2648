"""Kernels serve methods that a class inherits, as well as those that it defines."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import mlx.core as mx
import pytest
from mlx.nn.layers.base import Module

from kernelwright.runtime.export.function.alone import ExampleCall
from kernelwright.runtime.export.function.function_export import export_function
from kernelwright.runtime.export.function.module_file import imported
from kernelwright.runtime.export.function.variant import Lookup


class Gate(ABC, Module):
    @abstractmethod
    def weighed(self, x: mx.array) -> mx.array: ...

    def __call__(self, x: mx.array) -> mx.array:
        return self.forward(x)

    def forward(self, x: mx.array) -> mx.array:
        return self.weighed(x) * mx.sigmoid(x) + 1


class ExpGate(Gate):
    def weighed(self, x: mx.array) -> mx.array:
        return mx.exp(x)


gate = ExpGate()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("name", ["__call__", "forward"])
def test_kernels_serve_an_inherited_method(name: str, kernels_of: Callable[..., Lookup]) -> None:
    x = mx.zeros((4, 8))
    export = export_function(
        getattr(gate, name),
        "gate",
        [ExampleCall((x,), {})],
        kernels_of(lambda _: ("m4-pro",)),
        admits=lambda _: True,
        owner="gate",
    )
    with imported(export.files, "gate") as module:
        method = getattr(type(module.gate), name)
        assert method.serves(module.gate, x)
        assert module.gate(x).tolist() == gate(x).tolist()
