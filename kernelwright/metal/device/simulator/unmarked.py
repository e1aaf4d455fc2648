"""Marks for the accesses that clang's instrumentation leaves out: those of unusual sizes."""

import re
from collections.abc import Iterator

_BYTES = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8}
_MARKED_BYTES = frozenset((1, 2, 4, 8, 16))
_TYPE = r"(?P<type>i\d+|<\d+ x \w+>)"
_POINTER = r"ptr (?P<pointer>[%@](?:\"[^\"]*\"|[-\w$.]+))"
_ACCESS = re.compile(
    rf"  (?:%\S+ = (?P<load>load) (?:volatile )?{_TYPE}|store (?:volatile )?"
    rf"{_TYPE.replace('type', 'stored')} .*), {_POINTER}, align \d+(?P<rest>.*)"
)
_PLACE = re.compile(r", !dbg !\d+")
# Our own entries take a `struct kw_thread`; a file that is included may have what it does not show.
_AGGREGATE = re.compile(
    r"\b(?:(?:struct|class|union)\b(?! kw_)|(?:packed_)?vec\b|matrix\b|array\b"
    r"|[a-z]\w*[234](?:x[234])?\b)|#\s*include\s*\""
)
_DECLARED = "declare void @__tsan_{}_range(ptr, i64)"


def may_lack_marks(text: str) -> bool:
    """Return whether a text names a struct or a vector, of which accesses of such sizes come."""
    return _AGGREGATE.search(text) is not None


def with_missing_marks(listing: str) -> str:
    """Return LLVM's assembly with each access announced that clang has not announced.

    Clang marks those of 1, 2, 4, 8 and 16 bytes. Others come of small structs: the convention for
    calls takes `struct { uchar r, g, b; }` for an integer of 24 bits.
    """
    lines = list(_marked(listing.split("\n")))
    used = {k for k in ("read", "write") if any(f"@__tsan_{k}_range(" in line for line in lines)}
    return "\n".join((*lines, *(_DECLARED.format(k) for k in sorted(used)), ""))


def _marked(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if found := _ACCESS.fullmatch(line):
            size = _size(found["type"] or found["stored"])
            if size not in _MARKED_BYTES:
                kind = "read" if found["load"] else "write"
                place = _PLACE.search(found["rest"])
                yield (
                    f"  call void @__tsan_{kind}_range(ptr {found['pointer']}, i64 {size})"
                    f"{place[0] if place else ''}"
                )
        yield line


def _size(type_: str) -> int:
    """Return what a type takes in memory; 1, which is marked, where that is not known."""
    count, _, element = type_[1:-1].partition(" x ") if type_[0] == "<" else ("1", "", type_)
    if element in _BYTES:
        return int(count) * _BYTES[element]
    bits = int(element[1:]) if element[1:].isdigit() else 8
    return int(count) * (bits // 8) if bits % 8 == 0 else 1
