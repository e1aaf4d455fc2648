"""Paths to waits in a listing of clang's front end: the control flow says who comes first."""

import re

from kernelwright.metal.device.simulator.path import (
    MOST_PARTS,
    ROUND_BITS,
    may_part,
    with_inline_paths,
    with_paths,
)

_HELPER = """
define void @helper(i32 %0) {
  call void @kw_simdgroup(i32 2, i32 7)
  ret void
}
"""
_PLACE = r"%kw\.path, i64 (\d+)\n  call void @kw_come_to\(ptr %kw\.place\d+, i64 (\d+)\)"
_ROUND = r"(phi i1 .*)\n.*%kw\.path, i64 (\d+)\n  call void @kw_enter_round\(ptr \S+, i64 (\d+)"


def test_a_function_with_one_operation_adds_nothing() -> None:
    assert with_paths(_HELPER, barriers=True) == _HELPER


def test_places_are_ordered_as_the_text_is_whatever_stands_above() -> None:
    listing = f"""{_HELPER}
define void @kernel(i1 %0) {{
  br i1 %0, label %2, label %3

2:
  call void @kw_simdgroup(i32 1, i32 9)
  br label %3

3:
  call void @helper(i32 1)
  ret void
}}
"""
    first, second = re.findall(_PLACE, with_paths(listing, barriers=False))

    assert first[0] == second[0] == "0"
    assert int(first[1]) < int(second[1])


def test_what_leaves_a_loop_from_within_is_part_of_its_round() -> None:
    listing = f"""{_HELPER}
define void @kernel(i1 %0, ptr %1) {{
  br label %3

3:
  call void @helper(i32 1)
  br i1 %0, label %4, label %5

4:
  call void @helper(i32 2)
  br label %6

5:
  br label %3

6:
  call void @helper(i32 3)
  ret void
}}
"""
    found = with_paths(listing, barriers=False)

    ((ways, at, loop),) = re.findall(_ROUND, found)
    assert ways == "phi i1 [ false, %2 ], [ true, %5 ]"
    assert at == "0"
    inside, leaving, behind = re.findall(_PLACE, found)
    assert (inside[0], leaving[0], behind[0]) == ("8", "8", "0")
    assert int(inside[1]) < int(leaving[1])
    # No number of rounds makes the loop come behind what follows it.
    assert int(loop) + (1 << ROUND_BITS) <= int(behind[1])


def test_barriers_have_paths_where_they_are_asked_for() -> None:
    listing = _HELPER.replace("  ret", "  call void @kw_barrier(i32 2, i32 8)\n  ret")

    assert with_paths(listing, barriers=False) == listing
    assert len(re.findall(_PLACE, with_paths(listing, barriers=True))) == 2


def test_calls_too_deep_for_a_path_are_left_alone() -> None:
    calls = _HELPER
    for n in range(MOST_PARTS + 1):
        callee = f"@f{n - 1}" if n else "@helper"
        calls += f"define void @f{n}() {{\n" + f"  call void {callee}()\n" * 2 + "  ret void\n}\n"

    assert with_paths(calls, barriers=False) == calls


def test_plain_builds_have_no_calls_of_the_runtime() -> None:
    twice = _HELPER.replace("  ret", "  call void @kw_simdgroup(i32 2, i32 8)\n  ret")
    found = with_inline_paths(with_paths(twice, barriers=False), is_linux=True)

    assert "define internal void @kw_come_to(" in found
    assert "declare void @kw_come_to(" not in found
    assert "@kw_path_end = external thread_local(initialexec) global ptr" in found


def test_words_of_operations_and_included_files_may_part_lanes() -> None:
    assert may_part("x = simd_sum(x);")
    assert may_part('#include "helpers.h"')
    assert may_part("#define OP(name) simd_##name(x)")
    assert not may_part("threadgroup_barrier(mem_flags::mem_none);")
