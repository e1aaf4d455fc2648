"""Values that may hide a decision without a condition: what they were, and how to change them."""

import re
from collections.abc import Collection, Iterator

from kernelwright.metal.device.simulator.branches.listing import Instruction
from kernelwright.metal.device.simulator.branches.site import BITS, CHANGED
from kernelwright.metal.device.simulator.wide.assembly import NAME

_FLAGS = (
    r"(?:(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|nuw|nsw|exact|disjoint|nneg|noundef) )*"
)
_TYPE = r"(i8|i16|i32|i64|half|bfloat|float)"
_LOSSY = re.compile(
    rf"^(?:and|or|lshr|ashr|shl|mul|udiv|sdiv|urem|srem|fmul|fdiv|frem) {_FLAGS}{_TYPE} "
)
"""Of these a result may be one number for most operands."""
_SUM = re.compile(rf"^(?:fadd|fsub) {_FLAGS}{_TYPE} ([^,]+), (.+)$")
"""A term may vanish beside a number that is no data."""
_FUSED = re.compile(
    rf"^(?:(?:tail|notail) )?call {_FLAGS}{_TYPE} @llvm\.(?:fma|fmuladd)\.\w+"
    r"\(.*, \w+ (?:noundef )?([^,)]+)\)"
)
_CAST = re.compile(rf"^(?:fptoui|fptosi|trunc|fptrunc) {_FLAGS}\S+ \S+ to {_TYPE}$")
_CALL = re.compile(rf"^(?:(?:tail|notail) )?call {_FLAGS}{_TYPE} @")
_LOAD = re.compile(rf"^load {_TYPE}, ptr (\S+?)(?:,|$)")
_PLAIN_CALL = re.compile(r"@llvm\.(?:fabs|copysign|fma|fmuladd|max|min|[us]max|[us]min)")
_WIDTHS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "bfloat": 16, "float": 32}


def type_of_value(instruction: Instruction, data: Collection[str]) -> str:
    """Return the type of a value that is watched; empty for one that loses nothing.

    Args:
        instruction: One whose result depends on data.
        data: The names that do.
    """
    text = instruction.text
    for pattern in (_LOSSY, _CAST):
        if found := pattern.match(text):
            return found[1]
    if found := _SUM.match(text):
        return found[1] if found[2] not in data or found[3] not in data else ""
    if found := _FUSED.match(text):
        return found[1] if found[2] not in data else ""
    if found := _LOAD.match(text):
        return found[1] if found[2] in data else ""
    if (found := _CALL.match(text)) and not _PLAIN_CALL.search(text):
        return found[1]
    return ""


def width_of(type_: str) -> int:
    """Return how many bits a type has."""
    return _WIDTHS[type_]


def watched_value(instruction: Instruction, type_: str, number: int, name: str) -> Iterator[str]:
    """Write what notes which bits a value ever had, and what `name` is: the value, or another.

    Zeros of either sign are one, and NaN is none: whatever is computed from a NaN is one.
    """
    raw, width = instruction.result, _WIDTHS[type_]
    whole = f"i{width}"
    if type_[0] == "i":
        yield f'  {name}.bits" = add {whole} {raw}, 0'
    else:
        yield f'  {name}.plain" = fadd {type_} {raw}, 0.0'
        yield f'  {name}.bits" = bitcast {type_} {name}.plain" to {whole}'
    yield f'  {name}.wide" = ' + (
        f'zext {whole} {name}.bits" to i64' if width < 64 else f'add i64 {name}.bits", 0'
    )
    kept = f'{name}.wide"', f'{name}.wide"'
    if type_[0] != "i":
        yield f'  {name}.lost" = fcmp uno {type_} {raw}, 0.0'
        yield f'  {name}.some" = select i1 {name}.lost", i64 0, i64 {name}.wide"'
        yield f'  {name}.all" = select i1 {name}.lost", i64 -1, i64 {name}.wide"'
        kept = f'{name}.some"', f'{name}.all"'
    for place, (operation, value) in enumerate(zip(("or", "and"), kept, strict=True)):
        address = f"getelementptr (i64, ptr @{BITS}, i64 {2 * number + place})"
        yield f'  {name}.old{place}" = load i64, ptr {address}'
        yield f'  {name}.new{place}" = {operation} i64 {name}.old{place}", {value}'
        yield f'  store i64 {name}.new{place}", ptr {address}'
    yield f'  {name}.mask" = load i64, ptr getelementptr (i64, ptr @{CHANGED}, i64 {number})'
    yield f'  {name}.cut" = ' + (
        f'trunc i64 {name}.mask" to {whole}' if width < 64 else f'add i64 {name}.mask", 0'
    )
    yield from _changed(raw, type_, whole, name)


def _changed(raw: str, type_: str, whole: str, name: str) -> Iterator[str]:
    if type_[0] == "i":
        yield f'  {name}" = xor {whole} {raw}, {name}.cut"'
        return
    yield f'  {name}.raw" = bitcast {type_} {raw} to {whole}'
    yield f'  {name}.other" = xor {whole} {name}.raw", {name}.cut"'
    yield f'  {name}" = bitcast {whole} {name}.other" to {type_}'


def is_address(name: str, readers: Collection[Instruction]) -> bool:
    """Say whether a value is read by computations of addresses alone."""
    return bool(readers) and all(
        r.operation in ("getelementptr", "sext", "zext") and name in NAME.findall(r.text)
        for r in readers
    )
