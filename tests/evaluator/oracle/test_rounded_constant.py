"""A kernel may multiply by the number that the user wrote."""

import mlx.core as mx
import pytest

from kernelwright.evaluator.oracle.rounded_constant import has_finer_constants
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture
from kernelwright.metal.kernel import Kernel, Program, Tensor


def program_of(text: str) -> Program:
    x, y = (Tensor(name=n, dtype=Dtype.BFLOAT16, shape=(8,)) for n in "xy")
    kernel = Kernel(
        name="k", inputs=("x",), outputs=("y",), source=text, grid=(8, 1, 1), threadgroup=(8, 1, 1)
    )
    return Program(inputs=(x,), outputs=(y,), kernels=(kernel,))


@pytest.mark.parametrize(
    ("factor", "text", "expected"),
    [
        (0.01, "0.01f", True),
        (0.01, "0.010009765625f", False),
        (0.5, "0.01f", False),
        (1.5, "1.001f", False),
        (0.044715, "2.0f * 0.0447f", True),
        (0.044715, "0.044677734f", False),
        (0.044715, "1.003f * 0.044677734f", False),
        (0.1, "(1.0f / 0.3f)", False),
        (3.3, "(1.0f / 0.30303031f)", True),
        (1.702, "2.4554669f", True),
    ],
)
def test_numbers_finer_than_a_rounded_constant_are_found(
    factor: float, text: str, expected: bool
) -> None:
    with mx.stream(mx.cpu):
        graph = canonicalize(capture(lambda x: x * factor, mx.zeros((8,), mx.bfloat16)))
    assert has_finer_constants(program_of(f"y[0] = x[0] * {text};"), graph) is expected


def test_an_epsilon_that_halves_hold_with_few_digits_is_found() -> None:
    with mx.stream(mx.cpu):
        graph = canonicalize(capture(lambda x: x + 1e-5, mx.zeros((8,), mx.float16)))
    assert has_finer_constants(program_of("y[0] = x[0] + 1e-5f;"), graph)
    assert not has_finer_constants(program_of("y[0] = x[0] + 1.0013580322265625e-05f;"), graph)
