"""Proofs by running threads on unknown data: what is the same, and what must not seem so."""

import numpy as np
import pytest

from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.attacks.mutate.base import BaseProgram, programs_of, sources
from kernelwright.evaluator.attacks.mutate.equivalence import machine_code
from kernelwright.evaluator.attacks.mutate.symbolic.memory import Memory, Pointer, Shared
from kernelwright.evaluator.attacks.mutate.symbolic.programs import leave_the_same
from kernelwright.evaluator.attacks.mutate.symbolic.term import (
    Term,
    UnprovenError,
    added,
    compared,
    converted,
    forget,
    integer,
    scaled,
    unknown,
)
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Program

_BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
_GUARD = "if (thread_index_in_simdgroup == 0) "
_SUM = "partial[0] + partial[1] + partial[2] + partial[3]"
_REDUCED = "sum = simd_sum(sum);"


def _edited(program: Program, old: str, new: str) -> Program:
    kernel = program.kernels[0]
    assert old in kernel.source
    changed = kernel.model_copy(update={"source": kernel.source.replace(old, new)})
    return program.model_copy(update={"kernels": (changed,)})


def _holds(old: str, new: str) -> bool:
    """Say whether an edit of a mean over four simdgroups is proven to be the same."""
    program = bases()["mean"].program
    return leave_the_same(task_of("mean"), program, _edited(program, old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (_GUARD, ""),
        (_GUARD, "if (thread_index_in_simdgroup == 7) "),
        (_GUARD, "if (thread_index_in_simdgroup != 0) "),
        ("if (t == 0)", "if (t < 4)"),
        ("if (t == 0)", "if (t == 127)"),
        ("partial[4]", "partial[5]"),
        (_SUM, "partial[1] + partial[0] + partial[2] + partial[3]"),
        ("uint t =", "short t ="),
        ("/ 1025;", f"/ 1025; {_BARRIER}"),
        ("uint t =", f"{_BARRIER} uint t ="),
        (_REDUCED, f"{_BARRIER} {_REDUCED}"),
        ("mem_flags::mem_threadgroup", "mem_flags::mem_threadgroup | mem_flags::mem_device"),
        (_REDUCED, f"if (simd_any(metal::isnan(sum))) {{ {_REDUCED} }} else {{ {_REDUCED} }}"),
        ("float sum = 0;", "float sum = 0; if (x[0] > 2.0f) sum = 0;"),
    ],
)
@pytest.mark.sampled(8)
def test_the_same_on_every_input_is_proven(old: str, new: str) -> None:
    assert _holds(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (_BARRIER, ""),
        (_BARRIER, "threadgroup_barrier(mem_flags::mem_none);"),
        (_BARRIER, "threadgroup_barrier(mem_flags::mem_device);"),
        (_BARRIER, f"if (x[0] > 2.0f) {_BARRIER}"),
        (f"{_GUARD}partial[simdgroup_index_in_threadgroup] = sum;\n{_BARRIER}", _BARRIER),
        (_GUARD, "if (t == 0) "),
        (_GUARD, "if (thread_index_in_simdgroup == 32) "),
        (_GUARD, "if (x[0] > 2.0f) "),
        ("[simdgroup_index_in_threadgroup]", "[0]"),
        ("[simdgroup_index_in_threadgroup]", "[simdgroup_index_in_threadgroup % 2]"),
        ("[simdgroup_index_in_threadgroup]", "[uint(x[0]) & 3]"),
        (_SUM, "partial[0] + partial[2] + partial[1] + partial[3]"),
        (_SUM, "partial[0] + partial[1] + partial[2]"),
        ("i < 1025", "i < 1024"),
        ("i = t", "i = t + 1"),
        ("y[row]", "y[0]"),
        (_REDUCED, f"{_GUARD}{_REDUCED}"),
        (_REDUCED, "sum = simd_max(sum);"),
        (_REDUCED, ""),
        ("if (t == 0)", "if (t == 128)"),
        ("float sum = 0;", "float sum = 0; if (x[0] > 2.0f) sum = 1;"),
        ("uint t =", "if (thread_position_in_threadgroup.x == 5) return; uint t ="),
    ],
)
@pytest.mark.sampled(12)
def test_what_may_differ_is_not_proven(old: str, new: str) -> None:
    assert not _holds(old, new)


def _rows(schedule: str) -> BaseProgram:
    """Return an entropy of rows, of which a simdgroup each takes one."""
    source = next(s for s in sources("small") if (s.name, s.dtype) == ("entropy", Dtype.FLOAT32))
    found = programs_of(source, np.random.default_rng(1), 64)
    return next(base for base in found if schedule in base.schedule)


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({"threadgroup": (32, 2, 1)}, True),
        ({"threadgroup": (16, 8, 1)}, False),
        ({"grid": ("(32) + (32)", "rows", 1)}, True),
        ({"grid": (32, "(rows) + (4)", 1)}, False),
        ({"grid": (32, "max((rows) - (4), 1)", 1)}, False),
        ({"math_mode": "fast"}, False),
    ],
)
def test_another_launch_is_the_same_where_simdgroups_do_the_same(
    changes: dict[str, object], is_same: bool
) -> None:
    base = _rows("rowwise(lanes=32, rows=4")
    kernel = base.program.kernels[0].model_copy(update=changes)
    mutant = base.program.model_copy(update={"kernels": (kernel,)})
    assert leave_the_same(base.task, base.program, mutant) is is_same


def _elements() -> BaseProgram:
    source = next(s for s in sources("small") if (s.name, s.dtype) == ("silu", Dtype.FLOAT32))
    return next(iter(programs_of(source, np.random.default_rng(1), 64)))


@pytest.mark.parametrize(
    ("place", "is_same"),
    [
        ("thread_position_in_grid.x", True),
        ("(threadgroup_position_in_grid.x * 256 + thread_position_in_threadgroup.x)", False),
        ("(thread_position_in_grid.x + 32 - thread_index_in_simdgroup)", False),
    ],
)
def test_threads_that_know_their_place_in_the_grid_alone_are_divided_at_will(
    place: str, is_same: bool
) -> None:
    base = _elements()
    program = _edited(base.program, "thread_position_in_grid.x", place)
    kernel = program.kernels[0].model_copy(update={"threadgroup": (24, 3, 1)})
    mutant = program.model_copy(update={"kernels": (kernel,)})
    assert leave_the_same(base.task, program, mutant) is is_same


@pytest.mark.parametrize(
    ("stored", "is_same"),
    [
        ("if (thread_position_in_grid.y == 0) out[index] =", True),
        ("if (thread_position_in_grid.y == 1) out[index] = 0; else out[index] =", False),
        ("if (thread_position_in_grid.y == 1) out[index + 1] = 0; out[index] =", False),
    ],
)
def test_further_threads_leave_the_same_or_nothing(stored: str, is_same: bool) -> None:
    base = _elements()
    program = _edited(base.program, "out[index] =", stored)
    kernel = program.kernels[0]
    longer = kernel.model_copy(update={"grid": (kernel.grid[0], 3, 1)})
    mutant = program.model_copy(update={"kernels": (longer,)})
    assert leave_the_same(base.task, program, mutant) is is_same


@pytest.mark.parametrize("asked", ["threads_per_grid.y", "threads_per_threadgroup.y"])
def test_what_hangs_on_open_sizes_is_not_taken_for_those_of_the_task(asked: str) -> None:
    base = _rows("rowwise(lanes=32, rows=4")
    mutant = _edited(base.program, "out[row] =", f"if ({asked} != 3) out[row] =")
    assert not leave_the_same(base.task, base.program, mutant)


def test_threads_at_an_edge_have_the_index_that_they_have_among_fewer() -> None:
    source = next(s for s in sources("small") if s.name == "take_along_rows" and s.dtype)
    found = programs_of(source, np.random.default_rng(1), 64)
    base = next(b for b in found if b.program.kernels[0].threadgroup == (8, 8, 1))
    # Six by six threads have an index of 31 among them, of eight by eight it is another's.
    assert base.program.kernels[0].grid[0] == 6
    mutant = _edited(
        base.program, "out[place] =", "if (thread_index_in_simdgroup != 31) out[place] ="
    )
    assert not leave_the_same(base.task, base.program, mutant)
    codes = (
        machine_code(base.task, mutant, base.program),
        machine_code(base.task, base.program, mutant),
    )
    assert None in codes or codes[0] != codes[1]


def _unknown(high: int) -> Term:
    found = unknown("test", low=0, high=high)
    assert isinstance(found, Term)
    return found


def test_a_variable_is_read_and_written_by_parts() -> None:
    memory, start = Memory(Shared()), Pointer("own 1", 0)
    memory.write(start, 8, 0x1122334455667788)
    memory.write(start.moved(2), 2, 0xABCD)
    assert memory.read(start, 8) == 0x11223344ABCD7788
    assert memory.read(start.moved(4), 4) == 0x11223344
    memory.fill(start.moved(8), 16, 0xFF)
    assert memory.read(start.moved(12), 2) == 0xFFFF
    with pytest.raises(UnprovenError, match="other parts"):
        memory.write(start.moved(6), 4, 0)
    forget()


def test_integers_are_sums_where_no_bit_is_lost() -> None:
    x = _unknown(99)
    row = scaled(x, 96, 32)
    assert integer("lshr", scaled(x, 8, 32), 3, 32) is x
    assert integer("and", added(row, 5, 32), 31, 32) == 5
    assert integer("and", added(row, 1 << 32, 64), (1 << 32) - 1, 64) is row
    assert integer("and", added(x, scaled(row, 128, 32), 32), 127, 32) is x
    assert integer("and", added(x, 5 * 128 - 3, 32), 127, 32) is not added(x, -3, 32)
    assert integer("udiv", added(row, 95, 32), 96, 32) is x
    assert integer("urem", added(row, 95, 32), 96, 32) == 95
    assert converted("zext", row, 32, 64) is row
    assert integer("or", row, 7, 32) is added(row, 7, 32)
    forget()


def test_integers_that_may_wrap_are_not_taken_for_small_ones() -> None:
    x = _unknown((1 << 32) - 1)
    wrapped = scaled(x, 2, 32)
    assert converted("zext", wrapped, 32, 64) is not wrapped
    assert integer("lshr", wrapped, 1, 32) is not x
    assert isinstance(compared("ult", wrapped, added(wrapped, 1, 32), 32), Term)
    assert isinstance(compared("slt", x, added(x, 1, 32), 32), Term)
    forget()


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [("ult", 1), ("ule", 1), ("ugt", 0), ("eq", 0), ("ne", 1), ("slt", 1)],
)
def test_comparisons_are_decided_by_bounds(predicate: str, expected: int) -> None:
    x = _unknown(99)
    assert compared(predicate, x, 100, 32) == expected
    assert compared(predicate, x, added(x, 3, 32), 32) == expected
    forget()


def test_negative_numbers_compare_by_their_sign() -> None:
    assert compared("slt", (1 << 32) - 1, 0, 32) == 1
    assert compared("ult", (1 << 32) - 1, 0, 32) == 0
    assert compared("slt", _unknown(9), (1 << 32) - 1, 32) == 0
    assert isinstance(compared("ult", _unknown(9), 5, 32), Term)
    forget()
