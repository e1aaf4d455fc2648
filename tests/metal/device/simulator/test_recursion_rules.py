"""Cycles of calls are refused wherever they hide, and what only looks like one is not."""

import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator.recursion_rules import RECURSION
from kernelwright.metal.diagnostic import CompileError

_CYCLES = {
    "method": (
        "struct S { int n; int f(int k) const { return k ? 1 + f(k - 1) : n; } };",
        "S s{1}; y[i] = s.f(3);",
        1,
    ),
    "end of a method that gives its result": (
        "struct S { int n; int f(int k) const { return k ? f(k - 1) : n; } };",
        "S s{1}; y[i] = s.f(3);",
        1,
    ),
    "method in the middle": (
        "struct S { int n; void f(int k) { if (k) f(k - 1); n += k; } };",
        "S s{1}; s.f(3); y[i] = s.n;",
        1,
    ),
    "end of a method": (
        "struct S { int n; void f(int k) { n += k; if (k > 0) { n++; f(k - 1); } } };",
        "S s{0}; s.f(3); y[i] = s.n;",
        1,
    ),
    "static method": (
        "struct S { static int f(int k) { return k ? 1 + f(k - 1) : 0; } };",
        "y[i] = S::f(3);",
        1,
    ),
    "method of a class template": (
        "template <typename T> struct S { T n; T f(int k) { return k ? 1 + f(k - 1) : n; } };",
        "S<int> s{1}; y[i] = s.f(3);",
        1,
    ),
    "methods in turn": (
        """struct S { int a(int k); int b(int k) { return k ? a(k - 1) : 0; } };
int S::a(int k) { return b(k); }""",
        "S s; y[i] = s.a(3);",
        2,
    ),
    "operator": (
        "struct S { int n; }; S operator+(S s, int k) { return k ? s + (k - 1) : s; }",
        "S s{1}; y[i] = (s + 3).n;",
        1,
    ),
    "call operator": (
        "struct S { int operator()(int k) const { return k ? (*this)(k - 1) : 0; } };",
        "S s; y[i] = s(3);",
        1,
    ),
    "constructor": (
        """namespace own {
struct S { int n; S(int k) : n(k) { if (k) { S s(k - 1); n += s.n; } } }; }""",
        "own::S s(3); y[i] = s.n;",
        1,
    ),
    "overloads": (
        """int f(int k); int f(float k) { return k > 0 ? f(int(k)) : 0; }
int f(int k) { return f(float(k - 1)); }""",
        "y[i] = f(3);",
        2,
    ),
    "template": (
        "template <int N> int f(int k) { if (k > N) return f<N>(k - 1); return k; }",
        "y[i] = f<3>(i);",
        1,
    ),
    "templates in turn": (
        """template <int N> int g(int k);
template <int N> int f(int k) { return k ? g<N>(k - 1) : 0; }
template <int N> int g(int k) { return f<N>(k); }""",
        "y[i] = f<3>(i);",
        2,
    ),
    "lambda": (
        "",
        "auto f = [](auto f, int k) -> int { return k ? f(f, k - 1) : 0; }; y[i] = f(f, 3);",
        1,
    ),
}  # fmt: skip
_HONEST = {
    "template of other arguments": (
        "template <int N> int f(int k) { if constexpr (N > 0) return f<N - 1>(k); else return k; }",
        "y[i] = f<3>(i);",
    ),
    "pack": (
        """template <typename T, typename... R> T sum(T a, R... r) {
  if constexpr (sizeof...(r) == 0) return a; else return a + sum(r...);
}""",
        "y[i] = sum(1, 2, 3);",
    ),
    "class template of other arguments": (
        """template <int N> struct S { S<N - 1> in; int f(int k) { return k + in.f(k); } };
template <> struct S<0> { int f(int k) { return k; } };""",
        "S<3> s; y[i] = s.f(i);",
    ),
    "overloads one way": (
        "int f(int k) { return k; } int f(float k) { return f(int(k)); }",
        "y[i] = f(2.0f);",
    ),
    "methods of one name": (
        """struct A { int f() { return 1; } A() {} A(int) : A() {} };
struct B { A a; int f() { return a.f(); } B(int) : a(1) {} };""",
        "B b(1); y[i] = b.f();",
    ),
    "template that nothing uses": (
        "template <int N> int f(int k) { return k ? f<N>(k - 1) : 0; }",
        "y[i] = 1;",
    ),
    "constants": (
        "constexpr int f(int k) { return k ? k * f(k - 1) : 1; }",
        "constexpr int n = f(4); y[i] = n;",
    ),
    "lambda that calls another": (
        "",
        "auto f = [](int k) { return k; }; auto g = [&](int k) { return f(k); }; y[i] = g(1);",
    ),
}


def _compile(header: str, body: str) -> None:
    simulator.compile(
        "#include <metal_stdlib>\nusing namespace metal;\n"
        f"{header}\nkernel void k(device float* y [[buffer(0)]],\n"
        f"    uint i [[thread_position_in_grid]]) {{\n{body}\n}}"
    )


@pytest.mark.parametrize(("header", "body", "places"), _CYCLES.values(), ids=_CYCLES)
def test_a_cycle_of_calls_is_refused(header: str, body: str, places: int) -> None:
    with pytest.raises(CompileError, match=RECURSION) as refused:
        _compile(header, body)
    assert len(refused.value.diagnostics) == places
    assert all(d.message == RECURSION and d.line > 0 for d in refused.value.diagnostics)


@pytest.mark.parametrize(("header", "body"), _HONEST.values(), ids=_HONEST)
def test_calls_that_come_to_an_end_are_taken(header: str, body: str) -> None:
    _compile(header, body)


def test_the_method_of_mlx_that_ends_by_calling_itself_is_taken() -> None:
    simulator.compile(
        """#include "mlx/backend/metal/kernels/utils.h"
kernel void k(device int* y, constant int* shape, constant int64_t* strides,
    uint i [[thread_position_in_grid]]) {
  LoopedElemToLoc<3, int, true> place(3);
  place.next(int(i), shape, strides);
  y[i] = place.offset;
}"""
    )
