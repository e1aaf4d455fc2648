"""Text from strangers is read in a bounded way, whatever it holds."""

from collections.abc import Callable

import pytest

from kernelwright.metal.msl.declaration import analyze
from kernelwright.metal.msl.refuse import refuse
from kernelwright.metal.msl.rewrite import rewrite
from kernelwright.metal.msl.token import tokenize

HOSTILE: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: f"void f() {{ x = {'(' * n}1{')' * n}; }}",
    "open parentheses": lambda n: "(" * n,
    "open braces": lambda n: "{" * n,
    "closing braces": lambda n: "}" * n,
    "angles": lambda n: "a<" * n,
    "comparisons that look like templates": lambda n: f"void f() {{ x = {'a<b>(c)+' * n}1; }}",
    "template headers": lambda n: "template <typename T> " * n,
    "casts": lambda n: f"void f() {{ int x = {'(a)' * n}1; }}",
    "conditionals": lambda n: f"void f() {{ int x = {'a?b:' * n}1; }}",
    "every bracket": lambda n: "([{<" * n,
    "signs of no language": lambda n: "@ # $ ` \u00e9\u4e16" * n,
    "classes": lambda n: "struct a{" * n,
    "namespaces": lambda n: "namespace a{" * n,
    "functions in functions": lambda n: "void f(){" * n,
    "calls without ends": lambda n: "a(b c" * n,
    "lambdas": lambda n: "[](){" * n,
    "errors": lambda n: "void f(int x) { if ( } \n" * n,
    "macro calls": lambda n: "M(a) " * n + "void f() {}",
    "pasted names": lambda n: "#define M a" + " ## b" * n + "\nkernel void f() {}",
    "pointers": lambda n: f"void f() {{ device float {'*' * n} p = 0; }}",
    "threadgroup arrays": lambda n: f"kernel void f() {{ {'{ threadgroup float s[2]; ' * n} }}",
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_read(make: Callable[[int], str]) -> None:
    text = make(1500)
    found = rewrite(text)
    refuse(found)
    assert found.edited.text.count("\n") == text.count("\n")


@pytest.mark.parametrize("end", range(0, 230, 7))
def test_a_text_may_end_anywhere(end: int) -> None:
    text = (
        "template <typename T, int N> [[kernel]] void f(device T* x [[buffer(0)]], "
        "threadgroup float* s [[threadgroup(0)]]) { threadgroup float a[N]; x[0] = (device T)a[0]; "
        'auto g = [&](int i) { return i; }; }\ntemplate [[host_name("f")]] kernel void f<float, 2>;'
    )
    refuse(rewrite(text[:end]))


def test_brackets_are_followed_to_a_limit() -> None:
    names = analyze(tokenize("namespace a {" * 400 + "void f() {}" + "}" * 400)).functions
    assert not names
