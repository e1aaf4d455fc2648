"""Long lines of a text, broken at a terminal's width and indented under their beginning."""

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from kernelwright.printable import printable

_FURTHER = 2
"""Columns by which what is left of a line is indented below it."""
_NARROWEST = 20


def wrapped(text: str, width: int) -> str:
    """Return a text no line of which is wider than `width` columns, control characters spelled."""
    console = Console(width=width, color_system=None, markup=False)
    return "\n".join(
        piece for line in printable(text).splitlines() for piece in _pieces(line, width, console)
    )


def _pieces(line: str, width: int, console: Console) -> list[str]:
    if cell_len(line) <= width:
        return [line]
    words = line.lstrip(" ")
    indent = min(len(line) - len(words), max(width - _NARROWEST, 0))
    room = max(width - indent - _FURTHER, 1)
    pieces = [piece.plain.rstrip() for piece in Text(words).wrap(console, room, overflow="fold")]
    below = " " * (indent + _FURTHER)
    return [" " * indent + pieces[0], *(below + piece for piece in pieces[1:])]
