"""Waits in a listing of clang's front end are named by calls and rounds."""

import re

from kernelwright.metal.device.simulator.instance import may_wait, with_instances

_HELPER = """
define void @helper(i32 %0) {
  call void @kw_barrier(i32 2, i32 7)
  ret void
}
"""


def test_a_function_with_one_wait_adds_nothing() -> None:
    assert with_instances(_HELPER) == _HELPER


def test_each_call_of_what_waits_is_another_instance() -> None:
    listing = f"""{_HELPER}
define void @kernel(i1 %0) {{
  br i1 %0, label %2, label %3

2:
  call void @helper(i32 1)
  br label %4

3:
  call void @helper(i32 1)
  br label %4

4:
  ret void
}}
"""
    found = with_instances(listing)

    first, second = re.findall(r"add i64 %kw.at\d.0, (\d+)", found)
    assert first != second
    assert found.count("call void @kw_set_instance(") == 2
    assert found.index("@kw_set_instance(") < found.index("call void @helper(")


def test_rounds_of_loops_around_a_wait_are_counted_and_of_no_others() -> None:
    listing = f"""{_HELPER}
define void @kernel(i32 %0) {{
  br label %2

2:
  br i1 poison, label %3, label %9

3:
  br label %4

4:
  br i1 poison, label %4, label %5

5:
  br i1 poison, label %6, label %2

6:
  call void @helper(i32 1)
  br label %2

9:
  ret void
}}
"""
    found = with_instances(listing)

    assert found.count(" = alloca i64") == 1
    # Entered once, and gone on with from two places.
    entries = re.findall(r"  store i64 0, ptr %kw.rounds0.*\n  br label %2\n", found)
    again = re.findall(r"  store i64 %kw.rounds0\S+, ptr %kw.rounds0.*\n  br ", found)
    assert (len(entries), len(again)) == (1, 2)
    assert "load i64, ptr %kw.rounds0, align 8\n  %kw.at1.m0" in found


def test_words_of_waits_and_included_files_may_wait() -> None:
    assert may_wait("x = simd_sum(x);")
    assert may_wait("threadgroup_barrier(mem_flags::mem_none);")
    assert may_wait('#include "helpers.h"')
    assert may_wait("#define OP(name) simd_##name(x)")
    assert not may_wait("y[i] = x[i];")
