"""A function ends with a result, which is not where one of its own variables was."""

import pytest

from kernelwright.metal import simulator
from kernelwright.metal.diagnostic import CompileError

_HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
_KERNEL = "kernel void k(device float* o, uint i [[thread_position_in_grid]])"


@pytest.mark.parametrize(
    ("function", "use", "message"),
    [
        ("float f(float x) { if (x > 0) return 1; }", "f(o[i])", "does not return a value"),
        ("float f(float x) { x += 1; }", "f(o[i])", "does not return a value"),
        (
            "template <typename T> T f(T x) { if (x > 0) return x; }",
            "f(o[i])",
            "does not return a value",
        ),
        ("", "[](float x) -> float { if (x > 0) return x; }(o[i])", "does not return a value"),
        ("thread float* f(float x) { return &x; }", "*f(o[i])", "address of stack memory"),
        (
            "thread float* f(float x) { float a[2] = {x, x}; return a; }",
            "*f(o[i])",
            "address of stack memory",
        ),
    ],
)
def test_a_function_without_a_lasting_result_is_refused(
    function: str, use: str, message: str
) -> None:
    with pytest.raises(CompileError, match=message):
        simulator.compile(f"{_HEAD}{function}\n{_KERNEL} {{ o[i] = {use}; }}\n")


@pytest.mark.parametrize(
    "function",
    [
        "float f(float x) { for (;;) { if (x > 0) return x; x += 1; } }",
        "template <typename T> T f(T x) { if constexpr (sizeof(T) == 4) return x; }",
        "thread float* g(thread float* x) { return x; } float f(float x) { return *g(&x); }",
    ],
)
def test_one_that_always_returns_is_taken(function: str) -> None:
    simulator.compile(f"{_HEAD}{function}\n{_KERNEL} {{ o[i] = f(o[i]); }}\n")
