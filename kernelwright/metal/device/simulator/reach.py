"""Which entries of a compiled object can come to wait, read from its relocations."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_WAITING = frozenset((b"kw_barrier", b"kw_simdgroup", b"kw_simdgroup_barrier"))
# ELF-64, https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.sheader.html and ch4.symtab.html
_SYMBOL_TABLE, _RELOCATIONS = 2, 4
_SECTION_ELSEWHERE = 0xFFFF


def waiting_entries(built: Path, entries: frozenset[str]) -> frozenset[str]:
    """Return the entries from which a barrier or a simdgroup operation can be reached.

    Every function of the object has a section of its own. A section reaches whatever its
    relocations name, so a pointer to a function that is kept in a table counts as a call.
    Where the format is not ELF, all entries wait as soon as the object names such an operation.
    """
    data = built.read_bytes()
    if data[:4] != b"\x7fELF":
        return entries if any(name in data for name in _WAITING) else frozenset()
    linked = _read(data)
    if any(section == _SECTION_ELSEWHERE for _, section in linked.symbols):
        # More sections than a symbol can number.
        return entries
    waiting = linked.sections_that_reach(_WAITING)
    places = {name.decode(errors="replace"): section for name, section in linked.symbols}
    return frozenset(entry for entry in entries if places.get(entry, -1) in waiting)


@dataclass(frozen=True)
class _Object:
    """Symbols with their sections, and for each section the symbols that it refers to."""

    symbols: tuple[tuple[bytes, int], ...]
    references: dict[int, frozenset[int]]

    def sections_that_reach(self, names: frozenset[bytes]) -> frozenset[int]:
        """Return the sections that refer to one of the names, directly or through others."""
        callers: dict[int, set[int]] = {}
        found: set[int] = set()
        for section, symbols in self.references.items():
            for name, target in (self.symbols[symbol] for symbol in symbols):
                callers.setdefault(target, set()).add(section)
                if name in names:
                    found.add(section)
        pending = list(found)
        while pending:
            more = callers.get(pending.pop(), set()) - found
            found |= more
            pending += more
        # What is undefined elsewhere has no section: number 0.
        return frozenset(found - {0})


def _read(data: bytes) -> _Object:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    if count == 0:
        (count,) = struct.unpack_from("<Q", data, table + 0x20)
    # Name, type, flags, address, offset, size, link, info.
    headers = [struct.unpack_from("<IIQQQQII", data, table + i * size) for i in range(count)]
    symbols: tuple[tuple[bytes, int], ...] = ()
    references: dict[int, frozenset[int]] = {}
    for header in headers:
        _, kind, _, _, offset, length, link, info = header
        content = memoryview(data)[offset : offset + length]
        if kind == _SYMBOL_TABLE:
            symbols = tuple(_symbols(content, data, headers[link][4]))
        elif kind == _RELOCATIONS:
            targets = (symbol >> 32 for _, symbol, _ in struct.iter_unpack("<QQq", content))
            references[info] = references.get(info, frozenset()) | frozenset(targets)
    return _Object(symbols, references)


def _symbols(content: memoryview, data: bytes, names: int) -> Iterator[tuple[bytes, int]]:
    for name, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", content):
        start = names + name
        yield data[start : data.index(0, start)], section
