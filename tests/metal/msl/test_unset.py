"""Which variables a text leaves unset."""

import pytest

from kernelwright.metal.msl.declaration import analyze
from kernelwright.metal.msl.token import tokenize
from kernelwright.metal.msl.unset import unset_declarators


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("float v; float a[2], b;", ["v", "a", "b"]),
        ("float a, b = 1, c;", ["c"]),
        ("float4 v(1.0f); float w{1}; uint n = 2;", []),
        ("thread float t[4]; threadgroup float s[4]; constant float* p; device float* q;", ["t"]),
        ("for (uint k; k < 2; k++) { half h; } if (uint m = 1) { T d; }", ["h", "d"]),
        ("switch (n) { case 1: int v; v = 1; }", ["v"]),
        ("const float c; static constexpr float s; auto w = 1; device float& r = *p;", []),
        ("using T = float; typedef float U; float f(float x); T t;", ["t"]),
    ],
)
def test_statements_leave_unset_what_they_give_no_value(body: str, names: list[str]) -> None:
    structure = analyze(tokenize(f"void f() {{ {body} }}"))

    found = unset_declarators(structure, structure.locals_of(structure.functions[0]))

    assert [structure.spelling(d.name_at) for _, d in found] == names
