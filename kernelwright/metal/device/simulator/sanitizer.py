"""From the runtime's raw findings to reports that name lines, variables and threads."""

import ctypes
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.metal.device.simulator.line_table import Place, read_line_table
from kernelwright.metal.device.simulator.record import (
    Buffer,
    ThreadgroupArgument,
    ThreadgroupVariable,
    UInt3,
)
from kernelwright.metal.diagnostic import ReportKind, SanitizerReport

_MOST_REPORTS = 512
_KINDS = tuple(ReportKind)
"""The runtime numbers its kinds in the order of the enumeration."""
_BUFFER, _VARIABLE, _ARGUMENT = 1, 2, 3
_OWN_TYPE = re.compile(r"\bkw_threadgroup_(\d+)\b")
_BOUNDS = (
    *(ReportKind.DEVICE_OUT_OF_BOUNDS, ReportKind.THREADGROUP_OUT_OF_BOUNDS),
    *(ReportKind.THREAD_OUT_OF_BOUNDS, ReportKind.NULL_POINTER),
)
_UNDEFINED = (
    *(ReportKind.MISALIGNED_ACCESS, ReportKind.DIVISION_BY_ZERO),
    ReportKind.SHIFT_OUT_OF_RANGE,
)
_SPACES = {"__global_device": "device", "__global_host": "constant", "__local": "threadgroup"}


class RawReport(ctypes.Structure):
    """`Report` of report.h."""

    _fields_ = (
        ("key", ctypes.c_uint64),
        ("complete", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("count", ctypes.c_uint64),
        ("pc", ctypes.c_uint64),
        ("other_pc", ctypes.c_uint64),
        ("file", ctypes.c_char_p),
        ("line", ctypes.c_uint32),
        ("column", ctypes.c_uint32),
        ("place", ctypes.c_uint32),
        ("variable", ctypes.c_uint32),
        ("offset", ctypes.c_int64),
        ("size", ctypes.c_uint32),
        ("is_write", ctypes.c_uint32),
        ("other_is_write", ctypes.c_uint32),
        ("thread", UInt3),
        ("threadgroup", UInt3),
        ("other_thread", UInt3),
        ("has_other", ctypes.c_uint32),
        ("is_astray", ctypes.c_uint32),
        ("is_beyond", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
        ("details", ctypes.c_int64 * 3),
    )


class RawReports(ctypes.Structure):
    """`Reports` of report.h."""

    _fields_ = (("full", ctypes.c_uint32), ("entries", RawReport * _MOST_REPORTS))


@dataclass(frozen=True, slots=True)
class Names:
    """What the numbers in raw reports stand for."""

    library: Path
    buffers: Sequence[Buffer]
    arguments: Sequence[ThreadgroupArgument]
    variables: Sequence[ThreadgroupVariable]
    name_at: Callable[[str, int, int], str]
    """Returns the name that the text has at a file's line and column."""

    def variable(self, raw: RawReport) -> str:
        """Name the buffer or variable of a report; empty where it has none."""
        index = int(raw.variable)
        if raw.place == _BUFFER:
            return self.buffers[index].name
        if raw.place == _ARGUMENT:
            return self.arguments[index].name
        if raw.place == _VARIABLE and index < len(self.variables):
            return self.variables[index].name
        return ""

    def place(self, pc: int, line: int = 0) -> Place:
        """Find the line of the call that returns to `pc`; `line` where the table has none."""
        place = read_line_table(self.library).find(pc - 1) if pc else Place("", 0, 0)
        return place if place.line else Place("source", line, 0)


def read_reports(raw: RawReports, names: Names) -> tuple[SanitizerReport, ...]:
    """Return the reports in the order of their lines; one for each kind, line and variable.

    What was never written comes last: it mostly follows from one of the others.
    """
    found = [_report(entry, names) for entry in raw.entries if entry.key and entry.complete]
    told = {(r.file, r.line) for r in found if r.kind in _BOUNDS and not _is_by_size(r)}
    merged: dict[tuple[object, ...], SanitizerReport] = {}
    for report in sorted(found, key=_rank):
        if _is_by_size(report) and (report.file, report.line) in told:
            # The same access, checked a second time by the size of what the pointer points to.
            continue
        key = (report.kind, report.file, report.line, report.variable)
        first = merged.get(key)
        merged[key] = (
            report
            if first is None
            else first.model_copy(update={"count": first.count + report.count})
        )
    return tuple(merged.values())


def _is_by_size(report: SanitizerReport) -> bool:
    """Say whether only the size of what a pointer points to tells that an access is beyond it."""
    return report.kind is ReportKind.THREAD_OUT_OF_BOUNDS and " index " not in report.message


def _rank(report: SanitizerReport) -> tuple[object, ...]:
    is_last = report.kind is ReportKind.UNWRITTEN_OUTPUT
    return is_last, report.file, report.line, report.column, report.kind


def _report(raw: RawReport, names: Names) -> SanitizerReport:
    kind = _KINDS[raw.kind]
    if raw.file:
        place = Place(Path(raw.file.decode()).name, raw.line, raw.column)
    elif kind is ReportKind.UNWRITTEN_OUTPUT:
        place = names.buffers[raw.variable].place or Place("source", 0, 0)
    else:
        place = names.place(raw.pc, raw.line)
    other = names.place(raw.other_pc) if raw.other_pc else Place("", 0, 0)
    variable = names.variable(raw) or _indexed(kind, place, raw, names)
    has_thread = kind is not ReportKind.UNWRITTEN_OUTPUT
    return SanitizerReport(
        kind=kind,
        message=_message(kind, raw, names, variable, other),
        file=place.file,
        line=place.line,
        column=place.column,
        variable=variable,
        offset=raw.offset if names.variable(raw) else None,
        thread=_three(raw.thread) if has_thread else None,
        threadgroup=_three(raw.threadgroup) if has_thread else None,
        other_thread=_three(raw.other_thread) if raw.has_other else None,
        other_line=other.line,
        count=raw.count,
    )


def _three(value: UInt3) -> tuple[int, int, int]:
    return value.x, value.y, value.z


def _message(kind: ReportKind, raw: RawReport, names: Names, pointed: str, other: Place) -> str:
    variable = names.variable(raw)
    if kind in (ReportKind.THREADGROUP_RACE, ReportKind.DEVICE_RACE):
        return _race(kind, raw, variable, other)
    if kind in (ReportKind.DIVERGENT_BARRIER, ReportKind.DIVERGENT_SIMD_OPERATION):
        return _divergence(kind, raw, other)
    if raw.file or kind in _UNDEFINED:
        return _undefined(kind, raw, names, pointed)
    access = f"{'writes' if raw.is_write else 'reads'} {raw.size} bytes"
    where = f"at byte {raw.offset} of {variable}" if variable else "at an address of no buffer"
    match kind:
        case ReportKind.DEVICE_OUT_OF_BOUNDS | ReportKind.THREADGROUP_OUT_OF_BOUNDS:
            size = f", which has {raw.details[0]}" if variable else ""
            return f"thread {_three(raw.thread)} {access} {where}{size}"
        case ReportKind.THREAD_OUT_OF_BOUNDS if raw.details[0]:
            owner = f"{pointed or 'a vector or matrix'}, which has {raw.details[0]}"
            return f"thread {_three(raw.thread)} uses index {raw.details[1]} of {owner}"
        case ReportKind.THREAD_OUT_OF_BOUNDS:
            through = f", through {pointed}" if pointed else ""
            access = "reads or writes beyond the end of an array of its own"
            return f"thread {_three(raw.thread)} {access}{through}"
        case ReportKind.NULL_POINTER:
            pointer = f"{pointed}, a null pointer" if pointed else "a null pointer"
            return f"thread {_three(raw.thread)} {access} through {pointer}"
        case ReportKind.WRITE_TO_INPUT:
            return f"thread {_three(raw.thread)} {access} {where}, which is an input"
        case ReportKind.UNWRITTEN_OUTPUT:
            return (
                f"no thread writes {raw.details[1]} of the {raw.details[0]} bytes of {variable}, "
                f"first at byte {raw.offset}"
            )
        case _:
            return f"thread {_three(raw.thread)} {access} {where} that no thread has written"


def _race(kind: ReportKind, raw: RawReport, variable: str, other: Place) -> str:
    mine = "writes" if raw.is_write else "reads"
    theirs = "writes" if raw.other_is_write else "reads"
    line = f" at line {other.line}" if other.line else ""
    place = f"byte {raw.offset} of {variable}" if variable else "threadgroup memory"
    if kind is ReportKind.DEVICE_RACE and not raw.details[1]:
        reason = "threadgroups of one launch are not ordered"
    else:
        space = "mem_device" if kind is ReportKind.DEVICE_RACE else "mem_threadgroup"
        reason = f"no barrier with mem_flags::{space} lies between"
    # Of several readers two are known, and may be such as a barrier orders.
    who = f"thread {_three(raw.other_thread)}" if raw.has_other else "another thread"
    return f"thread {_three(raw.thread)} {mine} {place}, {who} {theirs} it{line}, and {reason}"


def _divergence(kind: ReportKind, raw: RawReport, other: Place) -> str:
    there, whole, gone = raw.details
    threads = "lanes of a simdgroup" if raw.size else "threads of a threadgroup"
    what = (
        "a simdgroup operation"
        if kind is ReportKind.DIVERGENT_SIMD_OPERATION
        else "the simdgroup_barrier"
        if raw.size
        else "the threadgroup_barrier"
    )
    if raw.is_beyond:
        return (
            f"thread {_three(raw.thread)} reads in {what} a lane that its group does not have, "
            f"which is undefined"
        )
    text = f"thread {_three(raw.thread)} is one of {there} of {whole} {threads} that reach {what}"
    if raw.is_astray:
        text += " together; others come to it in another round of a loop, or by another call"
    elif gone and raw.size:
        text += "; the others have returned or took another branch"
    elif gone:
        text += f"; {gone} have returned"
    if other.line:
        text += f"; thread {_three(raw.other_thread)} waits at line {other.line}"
    elif raw.has_other:
        text += f"; thread {_three(raw.other_thread)} is not among them"
    return text


def _undefined(kind: ReportKind, raw: RawReport, names: Names, array: str) -> str:
    thread, value, variable = _three(raw.thread), raw.details[1], names.variable(raw)
    if kind is ReportKind.MISALIGNED_ACCESS:
        where = f"byte {raw.offset} of {variable}" if variable else "an address"
        return f"thread {thread} accesses {where}, which its type needs to be a multiple of {value}"
    if kind is ReportKind.DIVISION_BY_ZERO:
        return f"thread {thread} divides {value} by zero"
    if kind is ReportKind.MISSING_RETURN:
        return f"thread {thread} comes to the end of a function that returns a value"
    type_ = _type_name(raw.details[2], names)
    if kind is ReportKind.SHIFT_OUT_OF_RANGE and not raw.file:
        return f"thread {thread} shifts a vector's element of {raw.details[0]} bits by {value}"
    if kind is ReportKind.SHIFT_OUT_OF_RANGE:
        return f"thread {thread} shifts {type_} by {value}"
    owned = type_ if not array or array in type_.split() else f"{array}, a {type_}"
    return f"thread {thread} uses index {value} of {owned}"


def _indexed(kind: ReportKind, place: Place, raw: RawReport, names: Names) -> str:
    """Return the name of what an access beyond it indexes or follows."""
    if kind in _BOUNDS and raw.file:
        return names.name_at(raw.file.decode(), raw.line, raw.column)
    if kind in (ReportKind.THREAD_OUT_OF_BOUNDS, ReportKind.NULL_POINTER):
        return names.name_at(place.file, place.line, place.column)
    return ""


def _type_name(address: int, names: Names) -> str:
    """Read the name that the compiler gave a type, such as `'__local float[64]'`.

    Types of threadgroup variables are the simulator's own, and go by the variables' names.
    """
    name = (ctypes.string_at(address) if address else b"").decode(errors="replace")
    name = name.partition("' (")[0].strip("'")
    for theirs, ours in _SPACES.items():
        name = name.replace(theirs, ours)
    name = name.removeprefix("const ") if name.startswith("const constant ") else name
    return _OWN_TYPE.sub(lambda match: names.variables[int(match[1])].name, name)
