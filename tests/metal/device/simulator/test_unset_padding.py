"""No result is said to hang on a struct's padding, wherever it is copied to."""

import numpy as np
import pytest

from kernelwright.metal import simulator
from kernelwright.metal.diagnostic import ReportKind

_HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
_KERNEL = """
kernel void k(device uint* raw [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  P t;
  SET
  ((device P*)raw)[i] = t;
}
"""
_STRUCTS = {
    "a hole": ("struct P { ushort k; uint v; };", "t.k = i; t.v = i;"),
    "a tail": ("struct P { uint v; uchar k; };", "t.k = i; t.v = i;"),
    "nested": (
        "struct Q { uchar a; float b; }; struct P { uchar c; Q q[2]; };",
        "t.c = 1; for (thread Q& q : t.q) { q.a = 2; q.b = 3; }",
    ),
    "a base": (
        "struct B { uint v; uchar k; }; struct P : B { uint w; };", "t.v = t.w = i; t.k = 1;",
    ),
    "private members": (
        "struct P { void set(uint i) thread { k = i; v = i; } private: uchar k; float v; };",
        "t.set(i);",
    ),
    "a template": (
        "template <typename T> struct Pair { T a; float b; }; typedef Pair<uchar> P;",
        "t.a = i; t.b = i;",
    ),
    "vectors": ("struct P { uchar2 a; float3 b; };", "t.a = 1; t.b = 2;"),
    "an array": ("struct P { uchar a; array<float, 2> b; };", "t.a = 1; t.b[0] = t.b[1] = 2;"),
    "packed vectors": (
        "struct P { packed_float3 a; uchar b; half c; };", "t.a = float3(1); t.b = 1; t.c = 2;",
    ),
    "a nameless union": (
        "struct P { uchar k; union { float f; uint u; }; };", "t.k = 1; t.f = 2;",
    ),
    "a union": ("union U { float f; uint u; }; struct P { uchar k; U u; };",
                "t.k = 1; t.u.f = 2;"),
    "a matrix": ("struct P { uchar k; float2x2 m; };", "t.k = 1; t.m = float2x2(1.0f);"),
    "an enumeration": (
        "enum class E : uchar { A, B }; struct P { E e; bool b; float f; };",
        "t.e = E::B; t.b = true; t.f = 1;",
    ),
}  # fmt: skip


def _kinds(struct: str, statements: str) -> set[ReportKind]:
    text = _HEAD + struct + _KERNEL.replace("SET", statements)
    outcome = (
        simulator.compile(text)
        .kernel("k")
        .launch([np.zeros(1024, np.uint32)], grid=(8, 1, 1), threadgroup=(8, 1, 1), sanitize=True)
    )
    return {report.kind for report in outcome.reports}


@pytest.mark.parametrize("name", _STRUCTS)
@pytest.mark.sampled(7)
def test_padding_that_is_copied_is_no_unset_value(name: str) -> None:
    assert not _kinds(*_STRUCTS[name])


@pytest.mark.parametrize("name", ["a hole", "a tail", "a base", "vectors", "packed vectors"])
def test_a_member_that_nothing_has_set_is_reported(name: str) -> None:
    struct, statements = _STRUCTS[name]
    kept = statements.replace("t.k = i;", "").replace("t.k = 1;", "").replace("t.a = 1;", "")
    kept = kept.replace("t.a = float3(1);", "")
    assert kept != statements
    assert _kinds(struct, kept) == {ReportKind.UNINITIALISED_VARIABLE_READ}
