"""Accesses beyond what a name stands for: last members, vectors of three, null pointers."""

import numpy as np
import pytest

from kernelwright.metal.device import simulator
from kernelwright.metal.diagnostic import LaunchError, SanitizerReport

TEXT = """#include <metal_stdlib>
using namespace metal;
struct S { int n; int v[3]; };
kernel void k(device uint* y, uint i [[thread_position_in_grid]]) {
  %s
}
"""
SHARED = """if (i == 0) { s[0] = S{1, {2, 3, 4}}; s[1] = s[0]; }
  threadgroup_barrier(mem_flags::mem_threadgroup);\n"""
BEYOND = {
    "a thread's struct": ("S a[2] = {}; y[i] = a[0].v[i];", "thread array", "a"),
    "a pointer to one": ("S a[2] = {}; thread S* p = a; y[i] = p->v[i];", "thread array", "p->v"),
    "a shared struct": (f"threadgroup S s[2]; {SHARED} y[i] = s[0].v[i];", "threadgroup", "s"),
    "a struct in a buffer": ("y[i] = ((device S*)(y + 8))->v[i];", "device", ""),
    "a vector of three": ("uint3 v(1, 2, 3); y[i] = v[i];", "thread array", "v"),
    "a constant one": ("const uint3 v(1, 2, 3); y[i] = v[i];", "thread array", "v"),
    "a written one": ("uint3 v(1, 2, 3); v[i] = 7; y[i] = v.x;", "thread array", "v"),
    "a matrix": ("float3x3 m(1); y[i] = m[i].x;", "thread array", "m"),
    "an array by a pointer": (
        "uint a[3] = {}; thread uint* p = a; y[i] = p[i];",
        "thread array",
        "p",
    ),
}
NULL = {
    "read": ("device uint* p = nullptr; if (i == 3) y[0] = *p; y[i] = 1;", "p"),
    "written": ("device uint* p = nullptr; if (i == 3) *p = 3; y[i] = 1;", ""),
    "always": ("device uint* p = nullptr; *p = 3; y[i] = 1;", ""),
    "by some": ("const device uint* p = i == 3 ? nullptr : y; y[i] = p[i] + 1;", "p"),
    "a thread's": ("thread uint* p = nullptr; uint a = 4; if (i < 3) p = &a; y[i] = *p;", "p"),
    "shared": (
        "threadgroup uint* p = nullptr; threadgroup uint s[4]; if (i < 3) p = s; p[i] = i;",
        "",
    ),
}


def launched(body: str, *, sanitize: bool) -> tuple[SanitizerReport, ...]:
    y = np.zeros(32, np.uint32)
    kernel = simulator.compile(TEXT % body).kernel("k")
    outcome = kernel.launch([y], grid=(4, 1, 1), threadgroup=(4, 1, 1), sanitize=sanitize)
    return outcome.reports


@pytest.mark.parametrize("what", BEYOND)
def test_an_index_beyond_is_reported_by_name(what: str) -> None:
    body, kind, name = BEYOND[what]

    line = 5 + body.count("\n")
    reports = launched(body, sanitize=True)

    assert [(r.kind, r.line, r.variable) for r in reports] == [
        (f"{kind} out of bounds", line, name)
    ]
    assert reports[0].thread == (3, 0, 0)


@pytest.mark.parametrize("what", NULL)
def test_a_null_pointer_is_reported(what: str) -> None:
    body, name = NULL[what]

    found = [r for r in launched(body, sanitize=True) if r.kind == "null pointer"]

    assert [(r.line, r.variable) for r in found] == [(5, name)]
    assert "null pointer" in found[0].message


@pytest.mark.parametrize("what", NULL)
def test_a_null_pointer_ends_a_plain_launch(what: str) -> None:
    with pytest.raises(LaunchError, match="k: a thread used a null pointer; sanitize it to see"):
        launched(NULL[what][0], sanitize=False)


def test_a_grid_has_up_to_the_most_threads_that_32_bits_hold() -> None:
    text = "kernel void k(device int* o, uint i [[thread_position_in_grid]]) {\n"
    text += "  if (i < 4u) *(device int*)nullptr = int(i); }\n"
    with pytest.raises(LaunchError, match="null"):
        simulator.compile(text).kernel("k").launch(
            [np.zeros(1, np.int32)], grid=(2**32 - 1, 1, 1), threadgroup=(1024, 1, 1)
        )
