"""Announces the parts of a vector together that clang has split, for the builds that count.

Clang loads a vector whose elements are used apart element by element. The copies of one place in
the text, as an unrolled loop has them, are told apart by the groups of its debug information: what
has one place and one group is one access of the text, and a scalar of which an unrolled loop has
copies is in no group or in one of its own. https://llvm.org/docs/KeyInstructionsDebugInfo.html
"""

import re
from dataclasses import dataclass

_WIDEST_BYTES = 16
_GROUPED = re.compile(r"^(!\d+) = !DILocation\(.*\batomGroup: ", re.MULTILINE)
_ANNOUNCED = re.compile(
    r"  call void @__tsan_(?P<kind>read|write)(?P<size>\d+)\(ptr (?P<pointer>%\S+)\), "
    r"!dbg (?P<place>!\d+)"
)
_OFFSET = re.compile(
    r"  (%\S+) = getelementptr (?:\w+ )*i8, ptr (%\S+), i64 (-?\d+)(?:, !dbg !\d+)?"
)
_DECLARED = "declare void @__tsan_{}_range(ptr, i64)"


@dataclass
class _Vector:
    """Parts that lie one behind the other; the first announces them all."""

    line: int
    size: int


def with_joined_parts(listing: str) -> str:
    """Return LLVM's assembly in which the parts of a vector are announced as one access."""
    grouped = frozenset(_GROUPED.findall(listing))
    lines: list[str | None] = list(listing.split("\n"))
    offsets = dict[str, tuple[str, int]]()
    open_ = dict[tuple[str, str, str, int], _Vector]()
    joined = list[tuple[_Vector, re.Match[str]]]()
    for number, line in enumerate(listing.split("\n")):
        if not line.startswith("  "):
            # A block ends, or a function.
            open_.clear()
        if line.startswith("define "):
            offsets.clear()
        elif made := _OFFSET.fullmatch(line):
            offsets[made[1]] = (made[2], int(made[3]))
        elif (found := _ANNOUNCED.fullmatch(line)) and found["place"] in grouped:
            base, offset = offsets.get(found["pointer"], (found["pointer"], 0))
            key, size = (found["kind"], found["place"], base), int(found["size"])
            vector = open_.pop((*key, offset), None)
            if vector is None or vector.size + size > _WIDEST_BYTES:
                vector = _Vector(number, 0)
                joined.append((vector, found))
            else:
                lines[number] = None
            vector.size += size
            open_[(*key, offset + size)] = vector
    for vector, first in joined:
        if vector.size > int(first["size"]):
            lines[vector.line] = (
                f"  call void @__tsan_{first['kind']}_range(ptr {first['pointer']}, "
                f"i64 {vector.size}), !dbg {first['place']}"
            )
    text = "\n".join(line for line in lines if line is not None)
    used = [k for k in ("read", "write") if f" @__tsan_{k}_range(" in text]
    missing = [_DECLARED.format(k) for k in used if _DECLARED.format(k) not in text]
    return "\n".join((text, *missing, "")) if missing else text
