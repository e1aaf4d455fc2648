"""The tests of an export hold what one call of a function gives that changes its arguments."""

import mlx.core as mx

from kernelwright.runtime.export.function.arguments_code import GivenArguments
from kernelwright.runtime.export.function.test_code import _results, _Type, example


def _step(parameter: mx.array, gradient: mx.array) -> mx.array:
    parameter -= 0.5 * mx.tanh(gradient)
    return parameter


def test_values_are_those_of_one_call() -> None:
    types: list[_Type] = [((8, 4), mx.float32), ((8, 4), mx.float32)]
    call = GivenArguments.of(_step, tuple(example(types, 1)), {})
    (made,), near = _results(_step, call, types)
    assert mx.array_equal(made, _step(*example(types, 0))).item()
    assert all(mx.allclose(made, moved, atol=1e-5).item() for (moved,) in near)
