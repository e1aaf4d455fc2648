"""C++ of a later standard than Metal's: refused, though clang compiles all as C++23."""

import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.diagnostic import CompileError
from kernelwright.metal.msl.language import LanguageVersion

PAIR = "struct S { int a; bool operator==(S o) const { return a == o.a; } };"
SINCE_20 = {
    "unequal from equal": (PAIR, "y[i] = S{1} != S{2};", "an operator made of another one"),
    "unequal in a template": (
        PAIR + "template <typename T> bool differs(T a, T b) { return a != b; }",
        "y[i] = differs(S{1}, S{2});",
        "an operator made of another one",
    ),
    "equal from the right": (
        "struct S { int a; bool operator==(int o) const { return a == o; } };",
        "y[i] = 3 == S{3};",
        "an operator made of another one",
    ),
    "aggregate's arguments": (
        "template <typename T> struct S { T a, b; };",
        "S s{1, 2}; y[i] = s.a;",
        "class template argument deduction for aggregates",
    ),
    "alias's arguments": (
        """template <typename T> struct S { T a; S(T x) : a(x) {} };
template <typename T> using A = S<T>;""",
        "A s{1}; y[i] = s.a;",
        "class template argument deduction for alias templates",
    ),
    "lambda without one": (
        "",
        "auto f = [](int a) { return a; }; decltype(f) g; y[i] = g(1);",
        "default construction of lambda",
    ),
    "lambda in a type": (
        "",
        "decltype([](int a) { return a; }(1)) b = 2; y[i] = b;",
        "a lambda expression that is not evaluated",
    ),
    "constexpr destructor": (
        "struct S { constexpr ~S() {} };",
        "y[i] = 1;",
        "a constexpr destructor",
    ),
}
SINCE_17 = {
    "deduced arguments": (
        "template <typename T> struct S { T a; S(T x) : a(x) {} };",
        "S s(1); y[i] = s.a;",
        "class template argument deduction",
    ),
    "auto parameter": (
        "template <auto N> int f() { return N; }",
        "y[i] = f<3>();",
        "non-type template parameters declared with 'auto'",
    ),
    "result without a copy": (
        """struct N { int a; N(int x) : a(x) {} N(const thread N&) = delete; };
N made() { return N(1); }""",
        "N n = made(); y[i] = n.a;",
        "initialization of 'N', which cannot be copied, by a value",
    ),
    "aggregate with a base": (
        "struct B { int a; }; struct D : B { int b; };",
        "D d{{1}, 2}; y[i] = d.a;",
        "an aggregate with a base class",
    ),
}
TAKEN_BEFORE = {
    "if constexpr": ("", "if constexpr (true) { y[i] = 1; }"),
    "base without values": ("struct B { int a; }; struct D : B {};", "D d{}; y[i] = d.a;"),
    "threadgroup variable": ("", "threadgroup float s[4]; s[i & 3] = 1; y[i] = s[i & 3];"),
    "copied result": (
        "struct N { int a; N(int x) : a(x) {} }; N made() { return N(1); }",
        "N n = made(); y[i] = n.a;",
    ),
}


def compiled(header: str, body: str, language: LanguageVersion) -> None:
    """Compile a kernel that has `y` and `i`."""
    place = "device float* y, uint i [[thread_position_in_grid]]"
    text = f"#include <metal_stdlib>\nusing namespace metal;\n{header}\n"
    simulator.compile(f"{text}kernel void k({place}) {{ {body} }}\n", language=language)


@pytest.mark.parametrize("name", SINCE_20)
def test_what_came_with_cpp_20_is_refused(name: str) -> None:
    header, body, what = SINCE_20[name]
    with pytest.raises(CompileError, match=f"{what} came with C..20; Metal 4.0 is C..17"):
        compiled(header, body, "4.0")


@pytest.mark.parametrize("name", SINCE_17)
def test_what_came_with_cpp_17_needs_metal_4(name: str) -> None:
    header, body, what = SINCE_17[name]
    compiled(header, body, "4.0")
    with pytest.raises(CompileError, match=f"{what} came with C..17; Metal 3.2 is C..14"):
        compiled(header, body, "3.2")


@pytest.mark.parametrize("name", TAKEN_BEFORE)
def test_metal_3_takes_what_clang_takes_in_cpp_14(name: str) -> None:
    compiled(*TAKEN_BEFORE[name], "3.2")


@pytest.mark.parametrize(("language", "standard"), [("3.2", 201402), ("4.0", 201703)])
def test_macros_tell_the_standard(language: LanguageVersion, standard: int) -> None:
    has_17 = "defined(__cpp_if_constexpr) == (__cplusplus > 201402)"
    test = f"__cplusplus != {standard} || defined(__cpp_concepts) || !({has_17})"
    foreign = "defined(SYCL_LANGUAGE_VERSION) || defined(__SYCL_DEVICE_ONLY__)"
    compiled(f"#if {test} || {foreign}\n#error other macros\n#endif", "y[i] = 1;", language)


def test_keywords_of_cpp_20_are_names() -> None:
    body = """
int requires = 3, concept = 2, co_await = 1, co_yield = 1, co_return = 1;
int consteval = 1, constinit = 1, char8_t = 1;
y[i] = requires + concept + co_await + co_yield + co_return + consteval + constinit + char8_t;
"""
    compiled("struct S { int requires; };\n#define NAMED(requires) requires", body, "4.0")
