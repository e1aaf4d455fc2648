"""Metal of unusual shapes computes what NumPy does, in every form that a launch may take."""

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator import Library, compiler
from kernelwright.metal.diagnostic import CompileError
from tests.metal.device.simulator.shape_reference import EXPECTED, Numbers, X

Form = Literal["fibers", "lanes", "sanitized", "vetted"]
_SHAPES = Path(__file__).parent / "shapes"
_CASES = [
    pytest.param(text, kernel, expected, id=kernel)
    for text, kernels in EXPECTED.items()
    for kernel, expected in kernels.items()
]
_HEAD = """#include <metal_stdlib>
using namespace metal;
constant float TABLE[2] = {1, 2};
kernel void k(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
              uint i [[thread_position_in_threadgroup]]) {
"""


@functools.cache
def _library(text: str) -> Library:
    return simulator.compile((_SHAPES / f"{text}.metal").read_text())


@pytest.mark.parametrize("form", ["fibers", "lanes", "sanitized", "vetted"])
@pytest.mark.parametrize(("text", "kernel", "expected"), _CASES)
@pytest.mark.sampled(100)
def test_a_kernel_computes_what_numpy_does(
    text: str,
    kernel: str,
    expected: Callable[[], Numbers],
    form: Form,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if form == "lanes":
        monkeypatch.setattr(compiler, "WIDE_THREADS", 1)
    if form == "vetted":
        monkeypatch.setattr(compiler, "VETTED_THREADS", 1)
    y = np.full(X.shape, np.nan, np.float32)

    outcome = (
        _library(text)
        .kernel(kernel)
        .launch(
            {"x": X, "y": y},
            grid=(64, 1, 1),
            threadgroup=(64, 1, 1),
            fresh=["y"],
            sanitize=form in ("sanitized", "vetted"),
        )
    )

    assert outcome.reports == ()
    np.testing.assert_allclose(y, np.broadcast_to(expected(), y.shape), rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("float2x2 m = float2x2(1, 2); y[i] = m[0].x;", "deleted constructor of 'float2x2'"),
        ("float2x2 m = {{1, 2, 3}, {3, 4}}; y[i] = m[0].x;", "excess elements in vector"),
        ("float3x3 m = {{1, 2, 3}, {3, 4, 5}}; y[i] = m[0].x;", "no matching constructor"),
        ("float2x2 m = 1; y[i] = m[0].x;", "no viable conversion from 'int'"),
        ("float2x3 m(1.0f); y[i] = (m * float3(1)).x;", "invalid operands"),
        ("bool2 b = true; y[i] = b ? 1 : 2;", "not contextually convertible to 'bool'"),
        ("float3 v = int3(1, 2, 3); y[i] = v.x;", "cannot initialize a variable of type 'float3'"),
        ("float4 v = x[i]; y[i] = v.xg.x;", "no member named 'xg'"),
        ("float4 v = x[i]; v.xx = float2(1); y[i] = v.x;", "contains duplicate components"),
        ("float v = x[i]; y[i] = v.x;", "is not a structure or union"),
        ("enum class E { A, B }; int n = E::B; y[i] = n;", "with an rvalue of type 'E'"),
        ("half h = 1; bfloat b = h; y[i] = float(b);", "with an rvalue of type 'half'"),
        ("bfloat b = 1.0bf; half h = 2; y[i] = b * h;", "ambiguous"),
        ("struct S { float a; }; S s = {1}; y[i] = simd_shuffle(s, 0).a;", "no matching function"),
        ("struct S { float* p; }; S s; y[i] = 1;", "must have explicit address space"),
        ("array<device float*, 2>* p; y[i] = 1;", "must have explicit address space"),
        ("float v = 1; device float* p = &v; y[i] = *p;", "'device float \\*' with an rvalue"),
        ("constant float c = 1; y[i] = c;", "automatic variable qualified with an address space"),
        ("TABLE[0] = 2; y[i] = 1;", "const-qualified type"),
        ("switch (x[i]) { case 1: y[i] = 1; }", "requires expression of integer type"),
        ("switch (i) { case 0: int q = 3; y[i] = q; break; case 1: y[i] = 2; }", "cannot jump"),
        ("uint n = i; threadgroup float s[n]; y[i] = s[0];", "variable length arrays"),
        ("float (*f)(float) = cos; y[i] = f(x[i]);", "function pointers are not supported"),
    ],
)
def test_a_near_miss_is_refused(body: str, message: str) -> None:
    with pytest.raises(CompileError, match=re.compile(message)):
        simulator.compile(f"{_HEAD}{body}\n}}\n")
