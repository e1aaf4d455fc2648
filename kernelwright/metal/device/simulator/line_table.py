"""From an address in a compiled kernel to the line it came from: the library's DWARF line table."""

import bisect
import functools
import struct
from dataclasses import dataclass, field
from itertools import chain, takewhile
from pathlib import Path, PurePosixPath

# DWARF 5, https://dwarfstd.org/doc/DWARF5.pdf: line number header entry formats (6.2.4.1), forms
# (7.5.6) and opcodes (7.22).
_PATH, _DIRECTORY_INDEX = 1, 2
_STRING, _LINE_STRP, _STRP, _UDATA = 0x08, 0x1F, 0x0E, 0x0F
_FIXED_FORMS = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _SET_COLUMN = 1, 2, 3, 4, 5
_CONST_ADD_PC, _FIXED_ADVANCE_PC = 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the candidate's text; `file` is the base name that `#line` gave."""

    file: str
    line: int
    column: int


_NOWHERE = Place("", 0, 0)


@dataclass(slots=True)
class LineTable:
    """Places by address, in order of address."""

    addresses: list[int] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)

    def find(self, address: int) -> Place:
        """Return the place of the instruction at or before an address; line 0 when unknown.

        An instruction that the optimiser made of several lines' has none of its own; it has that of
        the one before it in its function, or behind it.
        """
        i = bisect.bisect_right(self.addresses, address) - 1
        if i < 0:
            return _NOWHERE
        before = takewhile(_is_code, (self.places[k] for k in range(i, -1, -1)))
        after = takewhile(_is_code, (self.places[k] for k in range(i, len(self.places))))
        return next((p for p in chain(before, after) if p.line), self.places[i])


def _is_code(place: Place) -> bool:
    """Say whether a row is not the end of a function."""
    return place != _NOWHERE


@functools.lru_cache(maxsize=64)
def read_line_table(library: Path) -> LineTable:
    """Read the line table of an ELF library; empty where it has none."""
    sections = _elf_sections(library.read_bytes())
    line = sections.get(".debug_line", b"")
    strings = {
        _LINE_STRP: sections.get(".debug_line_str", b""),
        _STRP: sections.get(".debug_str", b""),
    }
    rows: list[tuple[int, Place]] = []
    offset = 0
    while offset < len(line):
        unit = _Unit(line, offset, strings)
        rows += unit.rows()
        offset = unit.end
    rows.sort(key=lambda row: row[0])
    return LineTable([address for address, _ in rows], [place for _, place in rows])


def _elf_sections(data: bytes) -> dict[str, bytes]:
    # ELF-64, https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.sheader.html
    if data[:4] != b"\x7fELF":
        return {}
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    name_start = headers[names][4]
    return {
        _text(data, name_start + header[0]): data[header[4] : header[4] + header[5]]
        for header in headers
    }


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.index(0, offset)].decode(errors="replace")


class _Reader:
    """Reads DWARF's numbers from a position that moves on."""

    def __init__(self, data: bytes, place: int) -> None:
        self.data = data
        self.place = place

    def fixed(self, size: int) -> int:
        value = int.from_bytes(self.data[self.place : self.place + size], "little")
        self.place += size
        return value

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.fixed(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self) -> int:
        start = self.place
        value = self.unsigned()
        bits = 7 * (self.place - start)
        return value - (1 << bits) if value >> (bits - 1) else value

    def text(self) -> str:
        text = _text(self.data, self.place)
        self.place += len(text.encode()) + 1
        return text


class _Unit:
    """One compilation unit's line program."""

    def __init__(self, data: bytes, offset: int, strings: dict[int, bytes]) -> None:
        reader = _Reader(data, offset)
        self.end = reader.fixed(4) + reader.place
        self.version = reader.fixed(2)
        if self.version >= 5:
            reader.fixed(2)  # sizes of addresses and segment selectors
        length = reader.fixed(4)
        self.start = reader.place + length
        self.step = reader.fixed(1)
        reader.fixed(2)  # operations per instruction (VLIW), default is_stmt
        self.line_base = int.from_bytes(reader.data[reader.place : reader.place + 1], signed=True)
        reader.fixed(1)
        self.line_range, self.opcode_base = reader.fixed(1), reader.fixed(1)
        self.operands = [reader.fixed(1) for _ in range(self.opcode_base - 1)]
        self.reader = reader
        self.strings = strings
        self.files = self._files() if self.version >= 5 else self._old_files()

    def _files(self) -> list[str]:
        self._entries()  # directories
        return self._entries()

    def _entries(self) -> list[str]:
        reader = self.reader
        formats = [(reader.unsigned(), reader.unsigned()) for _ in range(reader.fixed(1))]
        names = []
        for _ in range(reader.unsigned()):
            name = ""
            for content, form in formats:
                value = self._value(form)
                if content == _PATH:
                    name = str(value)
            names.append(PurePosixPath(name).name)
        return names

    def _value(self, form: int) -> int | str:
        reader = self.reader
        if form == _STRING:
            return reader.text()
        if form in self.strings:
            return _text(self.strings[form], reader.fixed(4))
        if form == _UDATA:
            return reader.unsigned()
        return reader.fixed(_FIXED_FORMS[form])

    def _old_files(self) -> list[str]:
        reader, names = self.reader, [""]
        while reader.text():
            pass
        while name := reader.text():
            names.append(PurePosixPath(name).name)
            for _ in range(3):
                reader.unsigned()
        return names

    def rows(self) -> list[tuple[int, Place]]:
        """Run the line program."""
        reader = _Reader(self.reader.data, self.start)
        rows: list[tuple[int, Place]] = []
        address, file, line, column = 0, 1, 1, 0

        def emit() -> None:
            name = self.files[file] if file < len(self.files) else ""
            rows.append((address, Place(name, line, column)))

        while reader.place < self.end:
            opcode = reader.fixed(1)
            if opcode >= self.opcode_base:
                adjusted = opcode - self.opcode_base
                address += adjusted // self.line_range * self.step
                line += self.line_base + adjusted % self.line_range
                emit()
            elif opcode == 0:
                length = reader.unsigned()
                end = reader.place + length
                extended = reader.fixed(1)
                if extended == _SET_ADDRESS:
                    address = reader.fixed(length - 1)
                elif extended == _END_SEQUENCE:
                    rows.append((address, _NOWHERE))
                    address, file, line, column = 0, 1, 1, 0
                reader.place = end
            elif opcode == _COPY:
                emit()
            elif opcode == _ADVANCE_PC:
                address += reader.unsigned() * self.step
            elif opcode == _ADVANCE_LINE:
                line += reader.signed()
            elif opcode == _SET_FILE:
                file = reader.unsigned()
            elif opcode == _SET_COLUMN:
                column = reader.unsigned()
            elif opcode == _CONST_ADD_PC:
                address += (255 - self.opcode_base) // self.line_range * self.step
            elif opcode == _FIXED_ADVANCE_PC:
                address += reader.fixed(2)
            else:
                for _ in range(self.operands[opcode - 1]):
                    reader.unsigned()
        return rows
