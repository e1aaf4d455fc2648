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
    assert found.arguments is not None
    assert structure.text(*found.arguments) == arguments


def test_types_that_a_text_declares_are_known() -> None:
    text = "struct A {}; using B = int; typedef float C; template <typename T> struct D {};"
    assert {"A", "B", "C", "D", "T"} <= structure_of(text).types


@pytest.mark.parametrize(
    ("text", "kernels"),
    [
        ("#define INLINE static inline\nINLINE float g() { return 1; } kernel void f() {}", ["f"]),
        ("#define SPACE device\nkernel void f(SPACE float* x) {}", ["f"]),
        ('#define UNROLL _Pragma("unroll")\nkernel void f() { UNROLL for (;;) {} }', ["f"]),
        ("DECLARE(a, +)\nDECLARE(b, -)\nkernel void f() {}", ["f"]),
        ("#define OP(name, o) float name();\nOP(add, +);\nkernel void f() {}", ["f"]),
        ("#if A\nkernel void f(device int* x) {\n#else\nkernel void f() {\n#endif\n}", ["f"]),
        ("struct A { explicit A(int x) thread : y(x) {} int y; }; kernel void f() {}", ["f"]),
        ("void g(int a, P<int, 2> p = {}) {} kernel void f() {}", ["f"]),
        ("struct A { float g() { return this->operator float(); } }; kernel void f() {}", ["f"]),
    ],
)
def test_macros_and_methods_hide_no_kernel(text: str, kernels: list[str]) -> None:
    structure = structure_of(text)
    assert [f.name for f in structure.functions if is_kernel(structure, f)] == kernels


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("void f() { float d[3] = { a * b, c, d * d }; }", []),
        ("void f() { float4x4 m = { { a * b, 0 }, { c & d, 1 } }; }", []),
        ("void f() { device float* p = x, *q = y; }", ["*", "*"]),
        ("void f() { threadgroup float (&r)[4] = s; }", ["&"]),
        ("void f() { float (*g)(float) = h; }", []),
    ],
)
def test_the_marks_of_local_pointers_are_told_from_products(text: str, marks: list[str]) -> None:
    structure = structure_of(text)
    found = [i for v in structure.locals for d in v.declarators for i in d.marks]
    assert [structure.spelling(i) for i in found] == marks


def test_parameters_are_read_with_their_names() -> None:
    text = "void f(const device float* x [[buffer(0)]], threadgroup float (&s)[4], T&&... r, int);"
    [function] = structure_of(text).functions
    names = [structure_of(text).spelling(p.name_at) for p in function.declared]
    assert names[:2] == ["x", "s"]
    assert function.declared[0].attributes[0][:2] == ("buffer", "0")
    assert function.declared[3].name_at == -1
