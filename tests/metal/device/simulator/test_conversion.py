"""A bfloat becomes an integer without a cast, as Metal's does."""

import ml_dtypes
import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator import compiler
from kernelwright.metal.diagnostic import CompileError

_HEAD = """#include <metal_stdlib>
using namespace metal;
int whole(bfloat x) { return x; }
long twice(long n, int m) { return n * m; }
template <typename T> long kept(T x) { long a = x; return a; }
kernel void k(const device bfloat* x [[buffer(0)]], device long* y [[buffer(1)]],
              uint i [[thread_position_in_grid]]) {
"""
_BODIES = {
    "initialised": ("int a = x[i]; uchar b(x[i]); bool c = x[i]; y[i] = a + b + c;", 7),
    "assigned": ("uint a; a = x[i]; y[i] = x[i]; y[i] += a;", 6),
    "of an expression": ("short a = x[i] * x[i] + 1, b = -x[i]; y[i] = a + b;", 13 - 3),
    "returned": ("y[i] = whole(x[i]) + whole(x[i] * 2);", 3 + 7),
    "an argument": ("y[i] = twice(x[i], 2) + twice(twice(3, x[i]), x[i] + 1);", 6 + 36),
    "an element": ("int2 v = 1; v.x = x[i]; int a[2]; a[1] = x[i]; y[i] = v.x + v.y + a[1];", 7),
    "in a template": ("y[i] = kept(x[i]) + kept(16777217);", 3 + 16777217),
    "in another": ("int a = whole(bfloat(int(x[i]))) + int(x[i]); int b = bfloat(a); y[i] = b;", 6),
    "beside a condition": ("bfloat a = i > 90 ? 0 : x[i], b = a > 0 ? a : 1; y[i] = b;", 3),
    "after a comma": ("int a = 1, b = x[i], c = (a, x[i]); y[i] = a + b + c;", 7),
}


@pytest.mark.parametrize("build", ["plain", "wide", "sanitized"])
@pytest.mark.parametrize("body", _BODIES)
@pytest.mark.sampled(15)
def test_it_is_cut_off(body: str, build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "WIDE_THREADS", 0 if build == "wide" else 1 << 40)
    statements, expected = _BODIES[body]
    waits = "y[i] += simd_sum(0);" if build == "wide" else ""
    kernel = simulator.compile(f"{_HEAD}  {statements} {waits}\n}}").kernel("k")
    x = np.full(32, 3.5, ml_dtypes.bfloat16)
    y = np.zeros(32, np.int64)
    outcome = kernel.launch(
        {"x": x, "y": y}, grid=(32, 1, 1), threadgroup=(32, 1, 1), sanitize=build == "sanitized"
    )
    assert not outcome.reports
    if build == "wide":
        assert kernel.library.image("wide", {}).entries
    np.testing.assert_array_equal(y, expected)


def test_other_errors_keep_their_columns() -> None:
    with pytest.raises(CompileError) as refused:
        simulator.compile(f"{_HEAD}  int a = x[i], b = missing;\n}}")
    (found,) = refused.value.diagnostics
    assert (found.line, found.column) == (8, 21)
    assert found.message == "use of undeclared identifier 'missing'"


def test_a_list_still_narrows_nothing() -> None:
    with pytest.raises(CompileError, match="cannot be narrowed to 'int'"):
        simulator.compile(f"{_HEAD}  int a[2] = {{ x[i], 1 }}; y[i] = a[0];\n}}")
