"""Bfloats that become integers without a cast, which Metal allows and our class of them cannot.

A class with a way to `int` as well as from it would leave `c ? x : 0` without a type. So clang
says where such a conversion is missing, with the range of the expression, and `kw_number` goes
around it.
"""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

RANGES_FLAG = "-fdiagnostics-print-source-range-info"
_MOST_ROUNDS = 8
"""clang stops at 20 errors each time."""
_OPEN, _CLOSE = b"kw_number(", b")"
_BFLOAT = r"(?:'[^']*\bbfloat'|'[^']*' \(aka '[^']*\bbfloat'\))"
_INTEGER = (
    r"'(?:const )?(?:bool|char|short|int|long|u(?:char|short|int|long)|size_t|ptrdiff_t|"
    r"u?int\d+_t|unsigned(?: \w+)*|signed char)'(?: \(aka '[^']*'\))?"
)
_ERROR = re.compile(
    r"^(?P<file>[^:\n]+):\d+:\d+:(?P<ranges>(?:\{\d+:\d+-\d+:\d+\})+): error: (?P<said>.*)$"
)
_NOTE = re.compile(
    rf"no known conversion from {_BFLOAT} to {_INTEGER}.* for (?P<number>\d+)(?:st|nd|rd|th) arg"
)
_MISSING = re.compile(
    rf"no viable conversion from (?:returned value of type )?{_BFLOAT} to "
    rf"(?:function return type )?{_INTEGER}|"
    rf"assigning to {_INTEGER} from incompatible type {_BFLOAT}"
)
_WITHOUT_VALUE = re.compile(
    r"(?:division|remainder) by zero is undefined|shift count (?:is negative|>= width of type)"
)
_WARNING = re.compile(
    r"^(?P<file>[^:\n]+):\d+:\d+:(?P<ranges>(?:\{\d+:\d+-\d+:\d+\})+): warning: (?P<said>.*)$"
)
_IS_NOTE = re.compile(r"[^:\n]+:\d+:\d+: note: ")
_NO_FUNCTION = "no matching function for call"
_RANGE = re.compile(r"\{(\d+):(\d+)-(\d+):(\d+)\}")
_BRACKETS = {ord("("): 1, ord("["): 1, ord("{"): 1, ord(")"): -1, ord("]"): -1, ord("}"): -1}


def lacks_conversion(said: str) -> bool:
    """Say whether clang missed a way from a bfloat to an integer."""
    lines = said.splitlines()
    return "bfloat" in said and any(_MISSING.search(x) or _NOTE.search(x) for x in lines)


def lacks_value(said: str) -> bool:
    """Say whether clang sees a divisor of zero or too wide a shift, and makes no value of it."""
    return _WITHOUT_VALUE.search(said) is not None


def without_missing(said: str) -> str:
    """Return what clang says besides; each error has its notes behind it."""
    groups: list[list[str]] = [[]]
    for line in said.splitlines():
        if not _IS_NOTE.match(line):
            groups.append([])
        groups[-1].append(line)
    return "\n".join(line for g in groups if not lacks_conversion("\n".join(g)) for line in g)


@dataclass(frozen=True)
class Converter:
    """Writes the conversions of one text."""

    check: Callable[[], str]
    """Has clang read the text, and returns what it says, ranges included."""
    files: Collection[str]
    """The names under which the text's own lines go."""

    def convert(self, source: Path) -> bool:
        """Write conversions into a file until none is missing; say whether any was."""
        changed = False
        for _ in range(_MOST_ROUNDS):
            text = source.read_bytes()
            places = set(self._places(text, self.check()))
            if not places:
                break
            source.write_bytes(_enclosed(text, places))
            changed = True
        return changed

    def hide_operands(self, source: Path) -> None:
        """Hide zeros that divide, and amounts that shift too far, so that clang uses them."""
        text = source.read_bytes()
        starts = _starts(text)
        places = set[tuple[int, int]]()
        for warning in filter(None, map(_WARNING.match, self.check().splitlines())):
            first, last = _offsets(starts, warning["ranges"])
            is_own = warning["file"] in self.files and first <= last <= len(text)
            if is_own and _WITHOUT_VALUE.match(warning["said"]):
                places.add((first, last))
        source.write_bytes(_enclosed(text, places, b"kw_operand("))

    def _places(self, text: bytes, said: str) -> Iterator[tuple[int, int]]:
        starts = _starts(text)
        call: int | None = None
        for line in said.splitlines():
            if (error := _ERROR.match(line)) is not None:
                call = None
                if error["file"] not in self.files:
                    continue
                first, last = _offsets(starts, error["ranges"])
                if not first <= last <= len(text):
                    continue
                if _MISSING.match(error["said"]):
                    yield first, last
                elif error["said"].startswith(_NO_FUNCTION):
                    call = last
            elif call is not None and (note := _NOTE.search(line)) is not None:
                yield from _argument(text, call, int(note["number"]))
                call = None


def _starts(text: bytes) -> list[int]:
    return [0, *(i + 1 for i, byte in enumerate(text) if byte == ord("\n"))]


def _offsets(starts: list[int], ranges: str) -> tuple[int, int]:
    """Return where the last range begins and ends: after an operator, its right side.

    What is no range of the text ends before it begins.
    """
    numbers = [tuple(map(int, found)) for found in _RANGE.findall(ranges)]
    line, column, last_line, last_column = numbers[-1]
    if not 0 < line <= last_line <= len(starts):
        # Of another file, which says that it is the text.
        return 1, 0
    return starts[line - 1] + column - 1, starts[last_line - 1] + last_column - 1


def _argument(text: bytes, place: int, number: int) -> Iterator[tuple[int, int]]:
    """Yield the range of an argument of the call whose bracket opens at a place, if one does."""
    if text[place : place + 1] != b"(":
        return
    depth, start = 0, place + 1
    for at in range(place, len(text)):
        depth += _BRACKETS.get(text[at], 0)
        if depth == 0 or (depth == 1 and text[at : at + 1] == b","):
            number -= 1
            if number == 0:
                yield start, at
            start = at + 1
        if depth == 0:
            return


def _enclosed(text: bytes, places: Collection[tuple[int, int]], opening: bytes = _OPEN) -> bytes:
    """Put a conversion around ranges that may lie in each other, ends before beginnings."""
    edits = [(last, 0, -first, _CLOSE) for first, last in places]
    edits += [(first, 1, -last, opening) for first, last in places]
    parts, done = [], 0
    for at, _, _, inserted in sorted(edits):
        parts += [text[done:at], inserted]
        done = at
    return b"".join([*parts, text[done:]])
