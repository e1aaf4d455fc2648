"""Takes from a precompiled header the list of its functions that clang would read for each text.

In the language mode with address spaces, clang notes each function of a header that is no template,
and reads all of them again at the end of every text, to see whether what was wrong with them on a
device is worth an error now. Nothing is: what is noted of a function's faults is not part of a
precompiled header, and a text's own functions are followed into all that they call. A thousand
functions, half of what a small text takes.
"""

from collections.abc import Iterator

# https://llvm.org/docs/BitCodeFormat.html, and ASTBitCodes.h of LLVM 22.
_KNOWN = "ziglang 0.17."
"""Has LLVM 22; another release may number records otherwise."""
_AST_BLOCK = 8
_TO_CHECK, _UNKNOWN = 64, 1000
"""`DECLS_TO_CHECK_FOR_DEFERRED_DIAGS`, and a record's code of the same length that clang skips."""
_WORD_BITS = 32

_Operand = tuple[str, int]
_ENCODINGS = {1: "fixed", 2: "vbr", 3: "array", 4: "char6", 5: "blob"}


def without_deferred_checks(header: bytes, compiler: str) -> bytes:
    """Return a precompiled header without the list, or as it is where a newer compiler made it."""
    if not compiler.startswith(_KNOWN):
        return header
    stream = _Bits(header)
    stream.place = _WORD_BITS
    places = [place for code, place in _records(stream) if code == _TO_CHECK]
    patched = bytearray(header)
    for place in places:
        _put(patched, place, _UNKNOWN)
    return bytes(patched)


class _Bits:
    """Reads a bitstream: numbers of so many bits, the lowest first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.place = 0

    @property
    def is_at_end(self) -> bool:
        return self.place >= 8 * len(self._data)

    def fixed(self, width: int) -> int:
        """Read a number of `width` bits."""
        first, shift = divmod(self.place, 8)
        last = (self.place + width + 7) // 8
        self.place += width
        found = int.from_bytes(self._data[first:last], "little") >> shift
        return found & ((1 << width) - 1)

    def variable(self, width: int) -> int:
        """Read a number in groups of `width` bits, whose highest says whether another follows."""
        found, shift, more = 0, 0, 1 << (width - 1)
        while True:
            group = self.fixed(width)
            found |= (group & (more - 1)) << shift
            shift += width - 1
            if not group & more:
                return found

    def align(self) -> None:
        """Go on to the next word."""
        self.place = -(-self.place // _WORD_BITS) * _WORD_BITS


def _records(stream: _Bits) -> Iterator[tuple[int, int]]:
    """Yield code and place of the AST block's records that are written out, not of those below."""
    width, abbreviations = 2, list[list[_Operand]]()
    while not stream.is_at_end:
        match stream.fixed(width):
            case 0:  # END_BLOCK
                return
            case 1:  # ENTER_SUBBLOCK
                kind, inner = stream.variable(8), stream.variable(4)
                stream.align()
                words = stream.fixed(_WORD_BITS)
                if kind == _AST_BLOCK and not abbreviations:
                    width = inner
                else:
                    stream.place += words * _WORD_BITS
            case 2:  # DEFINE_ABBREV
                abbreviations.append(list(_abbreviation(stream)))
            case 3:  # UNABBREV_RECORD
                place = stream.place
                yield stream.variable(6), place
                for _ in range(stream.variable(6)):
                    stream.variable(6)
            case number:
                _pass_over(stream, abbreviations[number - 4])


def _abbreviation(stream: _Bits) -> Iterator[_Operand]:
    for _ in range(stream.variable(5)):
        if stream.fixed(1):
            yield "literal", stream.variable(8)
            continue
        encoding = _ENCODINGS[stream.fixed(3)]
        yield encoding, stream.variable(5) if encoding in ("fixed", "vbr") else 6


def _pass_over(stream: _Bits, operands: list[_Operand]) -> None:
    """Read past a record that is written in the way of an abbreviation."""
    for index, (encoding, width) in enumerate(operands):
        if encoding == "array":
            for _ in range(stream.variable(6)):
                _pass_over(stream, operands[index + 1 :])
            return
        if encoding == "blob":
            size = stream.variable(6)
            stream.align()
            stream.place += 8 * size
            stream.align()
        elif encoding == "vbr" and width:
            stream.variable(width)
        elif encoding != "literal":
            stream.place += width


def _put(data: bytearray, place: int, code: int) -> None:
    """Write a record's code, of two groups of six bits, over another."""
    low, high = code & 31 | 32, code >> 5
    first, shift = divmod(place, 8)
    word = int.from_bytes(data[first : first + 4], "little")
    word = word & ~(0xFFF << shift) | (low | high << 6) << shift
    data[first : first + 4] = word.to_bytes(4, "little")
