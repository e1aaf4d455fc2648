"""Functions in fast:: compute what Apple documents, no more."""

from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device import simulator
from kernelwright.metal.device.base import FastError, RunOptions
from kernelwright.metal.device.simulator.device import SimulatorDevice
from kernelwright.metal.kernel import Kernel, Program, Tensor

Floats = NDArray[np.float32]
_TEXT = """#include <metal_stdlib>
using namespace metal;
kernel void k(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_grid]]) {{ y[i] = {0}; }}
kernel void v(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
    uint i [[thread_position_in_grid]]) {{ float4 w = fast::exp(float4(x[i])); y[i] = w.z; }}
"""


def _values(expression: str, x: Floats, error: FastError = "usual", name: str = "k") -> Floats:
    y = np.full_like(x, np.nan)
    library = simulator.compile(_TEXT.format(expression), fast_error=error)
    library.kernel(name).launch({"x": x, "y": y}, grid=(x.size, 1, 1), threadgroup=(64, 1, 1))
    return y


def _ulps(y: Floats, exact: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.abs(y.astype(np.float64) - exact) / np.spacing(np.abs(exact).astype(np.float32))


@pytest.mark.parametrize(
    ("expression", "x", "expected"),
    [
        ("fast::tanh(x[i])", 50.0, np.nan),
        ("precise::tanh(x[i])", 50.0, 1.0),
        ("fast::pow(x[i], 2.0f)", -2.0, np.nan),
        ("precise::pow(x[i], 2.0f)", -2.0, 4.0),
        ("fast::asinh(x[i])", -1e5, -np.inf),
        ("fast::exp(x[i])", -100.0, 0.0),
        ("fast::sqrt(x[i])", 0.0, 0.0),
        ("fast::divide(1.0f, x[i])", 2.0**127, 0.0),
    ],
)
def test_formulas_have_their_own_limits(expression: str, x: float, expected: float) -> None:
    y = _values(expression, np.full(1, x, np.float32))
    np.testing.assert_array_equal(y, np.array([expected], np.float32))


@pytest.mark.parametrize(
    ("name", "exact", "most"),
    [
        ("exp", np.exp, lambda x: 3 + np.floor(np.abs(2 * x))),
        ("exp2", np.exp2, lambda x: 3 + np.floor(np.abs(2 * x))),
        ("atan", np.arctan, lambda x: 0 * x + 5),
        ("rsqrt", lambda x: 1 / np.sqrt(x), lambda x: 0 * x + 2),
    ],
)
def test_errors_are_the_documented_ones(
    name: str,
    exact: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    most: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> None:
    x = np.linspace(0.5, 20, 512, dtype=np.float32)
    truth, allowed = exact(x.astype(np.float64)), most(x.astype(np.float64))
    usual = _ulps(_values(f"fast::{name}(x[i])", x), truth)
    worst = _ulps(_values(f"fast::{name}(x[i])", x, "worst"), truth)
    assert np.all(usual <= 2)
    assert np.all(worst <= allowed + 1)
    assert np.mean(worst >= allowed - 1) > 0.9


def test_the_worst_sine_is_far_off() -> None:
    x = np.linspace(-3, 3, 256, dtype=np.float32)
    errors = np.abs(_values("fast::sin(x[i])", x, "worst") - np.sin(x.astype(np.float64)))
    assert 2**-13 * 0.9 < np.median(errors) < 2**-13 * 1.1
    assert np.all(np.abs(_values("fast::sin(x[i])", x) - np.sin(x)) < 1e-6)


def test_vectors_are_as_their_elements() -> None:
    x = np.linspace(-5, 5, 64, dtype=np.float32)
    for error in ("usual", "worst"):
        whole = _values("fast::exp(x[i])", x, error, "v")
        np.testing.assert_array_equal(whole, _values("fast::exp(x[i])", x, error))


def test_the_worst_case_compiles_with_mlx_headers() -> None:
    text = "kernel void k(device float* y [[buffer(0)]]) { y[0] = metal::fast::exp(y[0]); }"
    assert simulator.compile(text, prelude="mlx", fast_error="worst").kernels == ("k",)


def test_a_run_may_ask_for_the_worst_of_fast_functions() -> None:
    x = Tensor(name="x", dtype=Dtype.FLOAT32, shape=(64,))
    kernel = Kernel(
        name="k",
        inputs=("x",),
        outputs=("y",),
        source="uint i = thread_position_in_grid.x; y[i] = metal::fast::sin(x[i]);",
        grid=(64, 1, 1),
        threadgroup=(32, 1, 1),
    )
    made = x.model_copy(update={"name": "y"})
    program = Program(inputs=(x,), outputs=(made,), kernels=(kernel,))
    executable = SimulatorDevice().compile(program.bind((TensorType((64,), Dtype.FLOAT32),)))
    inputs = (np.linspace(0.5, 3, 64, dtype=np.float32),)

    usual, worst = (
        executable.run(inputs, RunOptions(fast_error=error)).outputs[0].astype(np.float32)
        for error in get_args(FastError)
    )

    np.testing.assert_allclose(np.abs(worst - usual), 2.0**-13, rtol=1e-2)
