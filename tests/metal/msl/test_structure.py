"""The declarations of a Metal text are found without knowing its types."""

import pytest

from kernelwright.metal.msl.declaration import analyze
from kernelwright.metal.msl.entry import is_kernel
from kernelwright.metal.msl.structure import Structure
from kernelwright.metal.msl.token import tokenize


def structure_of(text: str) -> Structure:
    return analyze(tokenize(text))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("int f(int x) { return x; } int g();", ["f", "g"]),
        ("template <typename T, int N = (3 > 2)> T f(T x) { return x; }", ["f"]),
        ("struct A { A(int x) : a{x}, b(2) { } int a, b; int get() const { return a; } };",
         ["A", "get"]),
        ("struct A { thread A& operator+=(int x) { return *this; } operator float() const; };",
         ["operator+=", "operator float"]),
        ("namespace a { namespace b { void f(); } } extern \"C\" { void g(); }", ["f", "g"]),
        ("inline __attribute__((always_inline)) float f(float x) { return x; }", ["f"]),
        ("instantiate(a, b)\ninstantiate(c, d)\nvoid f() {}", ["f"]),
        ("#if X\nvoid f() {\n#else\nvoid f(int a) {\n#endif\n}\nvoid g() {}", ["f", "g"]),
        ("constant float t[2] = {1, 2}; struct P { int n; }; enum E : uint { A, B }; void f();",
         ["f"]),
        ("auto f(int x) -> decltype(x) { return x; }", ["f"]),
        ("template <typename T> void f(T x) {} template <> void f<int>(int x) {}", ["f", "f"]),
        ("void f() { struct L { int g() { return 1; } }; if (a) { b(); } }", ["f", "g"]),
    ],
)  # fmt: skip
def test_functions_are_found(text: str, names: list[str]) -> None:
    assert sorted(f.name for f in structure_of(text).functions) == sorted(names)


@pytest.mark.parametrize(
    "text",
    [
        "kernel void f(device float* x [[buffer(0)]]) {}",
        "[[kernel]] void f() {}",
        "[[host_name(\"g\")]] [[kernel]] void f() {}",
        "[[kernel, max_total_threads_per_threadgroup(256)]] void f() {}",
        "template <typename T> [[kernel]] void f(device T* x) {}",
        "kernel void f [[max_total_threads_per_threadgroup(64)]] (device float* x) {}",
    ],
)  # fmt: skip
def test_a_kernel_is_recognised(text: str) -> None:
    structure = structure_of(text)
    [function] = structure.functions
    assert is_kernel(structure, function)
    assert function.name == "f"


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('template [[host_name("a")]] [[kernel]] decltype(f<float, 4>) f<float, 4>;', "<float, 4>"),
        ('template [[host_name("a")]] kernel void f<half>(device half*, uint);', "<half>"),
        ('template [[host_name("a")]] kernel f_t n::f<vec<float, 4>, (1 > 0)>;',
         "<vec<float, 4>, (1> 0)>"),
    ],
)  # fmt: skip
def test_an_instantiation_is_found(text: str, arguments: str) -> None:
    structure = structure_of(text)
    [found] = structure.instantiations
    assert structure.spelling(found.name_at) == "f"
    assert structure.text(*found.arguments) == arguments


def test_types_that_a_text_declares_are_known() -> None:
    text = "struct A {}; using B = int; typedef float C; template <typename T> struct D {};"
    assert {"A", "B", "C", "D", "T"} <= structure_of(text).types
