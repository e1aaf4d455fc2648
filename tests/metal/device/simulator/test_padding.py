"""Bytes that no member takes are neither read unset nor left unwritten; members are."""

import numpy as np
import pytest

from kernelwright.metal import simulator
from kernelwright.metal.diagnostic import SanitizerReport

_HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
_KERNEL = "kernel void k(device S* o [[buffer(0)]], uint i [[thread_position_in_grid]]) {"
_SYNC = "threadgroup_barrier(mem_flags::mem_threadgroup); "
_SHARED = "threadgroup S t[32]; {}t[i % 32] = q; " + _SYNC + "o[i] = t[31 - i % 32];"
_FILLED = "S b[4]; for (int j = 0; j < {}; j++) {{ b[j].v = j; b[j].k = j; }} o[i] = b[i & 3];"
_VECTOR = "struct S { float3 v; };"
_PAIR = "struct S { float3 v; uchar k; };"
_HALVES = "struct S { half h; float v; };"
_SHORT = "struct S { ushort k; uint v; };"


def _reports(
    declared: str, body: str, nbytes: int, *, is_fresh: bool = False
) -> tuple[SanitizerReport, ...]:
    library = simulator.compile(f"{_HEAD}{declared}\n{_KERNEL} {body} }}")
    outcome = library.kernel("k").launch(
        [np.zeros(64 * nbytes, np.uint8)],
        grid=(64, 1, 1),
        threadgroup=(32, 1, 1),
        fresh=["o"] if is_fresh else [],
        sanitize=True,
    )
    return outcome.reports


@pytest.mark.parametrize(
    ("declared", "nbytes", "body"),
    [
        (_VECTOR, 16, "S q; q.v = 2; o[i] = q;"),
        (_SHORT, 8, "S q; q.k = i; q.v = 2; o[i] = q;"),
        (_HALVES, 8, "S q; q.h = i; q.v = 2; o[i] = q;"),
        ("struct S { float v; uchar k; };", 8, "S q; q.v = 1; q.k = 2; o[i] = q;"),
        (_PAIR, 32, "S b; if (i & 1) { b.v = 1; b.k = 2; } else { b.v = 3; b.k = 4; } o[i] = b;"),
        (_PAIR, 32, _FILLED.format(4)),
        (_PAIR + "S mk(uint i) { S s; s.v = i; s.k = i; return s; }", 32, "o[i] = mk(i);"),
        (_PAIR + "void mk(thread S& s) { s.v = 1; s.k = 2; }", 32, "S s; mk(s); o[i] = s;"),
        (_PAIR, 32, _SHARED.format("S q; q.v = 1; q.k = 2; ")),
        (_SHORT, 8, _SHARED.format("S q; q.v = 1; q.k = 2; ")),
        ("struct A { half3 h[2]; }; struct S : A { float v; device float* p; };", 32,
         "S s; s.h[0] = s.h[1] = 1; s.v = 2; s.p = nullptr; o[i] = s;"),
    ],
)  # fmt: skip
def test_a_struct_that_is_set_by_members_is_set(declared: str, nbytes: int, body: str) -> None:
    assert _reports(declared, body, nbytes) == ()


@pytest.mark.parametrize(
    ("declared", "nbytes", "body"),
    [
        (_VECTOR, 16, "S q; q.v.xy = 2; o[i] = q;"),
        (_SHORT, 8, "S q; q.k = i; o[i] = q;"),
        (_HALVES, 8, "S q; q.v = i; o[i] = q;"),
        (_PAIR, 32, _FILLED.format(3)),
        (_PAIR, 32, _SHARED.format("S q; q.v = 1; ")),
    ],
)  # fmt: skip
def test_a_member_that_is_not_set_is_found(declared: str, nbytes: int, body: str) -> None:
    (report,) = _reports(declared, body, nbytes)
    assert report.kind == "uninitialised variable read"


@pytest.mark.parametrize(
    ("declared", "nbytes", "body"),
    [
        (_VECTOR, 16, "o[i].v = 1;"),
        (_HALVES, 8, "o[i].h = 1; o[i].v = 2;"),
        ("typedef float3 S;", 16, "o[i] = 2;"),
        ("typedef half3 S;", 8, "o[i] = 2;"),
        ("struct S { half3x3 v; };", 24, "o[i].v = half3x3(1);"),
    ],
)
def test_padding_need_not_be_written(declared: str, nbytes: int, body: str) -> None:
    assert _reports(declared, body, nbytes, is_fresh=True) == ()


@pytest.mark.parametrize(
    ("declared", "nbytes", "body", "missing"),
    [
        (_HALVES, 8, "o[i].v = 2;", "128 of the 512 bytes of o, first at byte 0"),
        (_PAIR, 32, "o[i].v = 1;", "64 of the 2048 bytes of o, first at byte 16"),
        ("typedef float3 S;", 16, "if (i) o[i] = 1;", "12 of the 1024 bytes of o, first at byte 0"),
        ("struct S { uint a : 3; float v; };", 8, "o[i].v = 1;", "256 of the 512 bytes"),
    ],
)
def test_members_must_be_written(declared: str, nbytes: int, body: str, missing: str) -> None:
    (report,) = _reports(declared, body, nbytes, is_fresh=True)
    assert missing in report.message
    assert (report.file, report.line, report.column) == ("source", 4, 25)


@pytest.mark.parametrize("form", ["float3", "volatile float3", "packed_float3", "atomic_uint"])
def test_every_way_to_name_a_type_compiles(form: str) -> None:
    library = simulator.compile(
        f"{_HEAD}struct N {{ device N* next; float3 v; }}; struct U;\n"
        f"kernel void k(device {form}* o, threadgroup float3* t, device void* p, "
        f"device N& n, device U* u, constant float4x3& m) {{ n.v = 1; }}\n"
        f"kernel void bytes(device float3* o) {{ o[0] = 1; }}"
    )
    assert library.image("sanitize").entries
