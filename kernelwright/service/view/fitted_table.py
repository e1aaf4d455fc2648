"""A table that fits any terminal: what has no room for a column of its own stands below."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console, ConsoleOptions, JustifyMethod, OverflowMethod, RenderResult
from rich.table import Table
from rich.text import Text

_QUIET = "bright_black"
"""Not a name of the theme's: a table is also printed to consoles of users."""
_GAP = 2
"""Spaces between two columns."""
_INDENT = 2
"""Spaces before what stands below a name."""
_LEAST_KEY = 16
"""Columns that a name has at least, before other columns leave the table for it."""


@dataclass(frozen=True)
class Column:
    """A column, and what becomes of it where the table is too wide.

    Attributes:
        head: its heading.
        leaves: its turn to leave, the largest number first; 0 stays in the table.
        below: how its cells stand below the row's name: with their heading, alone, or not at all.
        least: columns to which it may be narrowed; None where it is never cut.
    """

    head: str
    style: str = ""
    justify: JustifyMethod = "left"
    leaves: int = 0
    below: Literal["named", "alone", "dropped"] = "named"
    least: int | None = None
    overflow: OverflowMethod = "ellipsis"


@dataclass(frozen=True)
class FittedTable:
    """Rows under columns, drawn for the width that there is.

    Attributes:
        columns: from left to right.
        key: the number of the column that tells rows apart. Its text takes several lines where it
            must, and the cells of columns that left stand below it, indented where no other column
            stands before it.
        one_line: whether a row takes one line: names are cut, and columns that leave are dropped.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Text]]
    key: int = 0
    one_line: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = self._shown(options.max_width)
        rows = self._all_cells(shown)
        table = Table(box=None, padding=(0, _GAP, 0, 0), header_style=_QUIET, pad_edge=False)
        widths = self._widths(shown, rows, options.max_width)
        for place, width in widths.items():
            column = self.columns[place]
            table.add_column(
                Text(column.head),
                style=column.style,
                justify=column.justify,
                width=width,
                no_wrap=self._overflow(place) == "ellipsis",
                overflow=self._overflow(place),
            )
        for row in rows:
            if not self.one_line:
                row[self.key] = _wrapped(console, row[self.key], widths[self.key])
            table.add_row(*(row[place] for place in shown))
        yield table

    def _shown(self, width: int) -> list[int]:
        """Return the columns that the table keeps, in order."""
        shown = list(range(len(self.columns)))
        while self._least(shown, self._all_cells(shown)) > width:
            leaving = max(shown, key=lambda place: self.columns[place].leaves)
            if not self.columns[leaving].leaves:
                break
            shown.remove(leaving)
        return shown

    def _least(self, shown: Sequence[int], rows: Sequence[Sequence[Text]]) -> int:
        return _gaps(shown) + sum(self._least_of(place, rows) for place in shown)

    def _least_of(self, place: int, rows: Sequence[Sequence[Text]]) -> int:
        least = self.columns[place].least
        if place == self.key:
            least = least or _LEAST_KEY
        natural = self._natural(place, rows)
        return natural if least is None else min(natural, least)

    def _natural(self, place: int, rows: Sequence[Sequence[Text]]) -> int:
        cells = [len(line) for row in rows for line in row[place].plain.split("\n")]
        return max(len(self.columns[place].head), *cells, 1)

    def _widths(
        self, shown: Sequence[int], rows: Sequence[Sequence[Text]], width: int
    ) -> dict[int, int]:
        """Deal out the width: first what is never cut, then names, then the rest."""
        widths = {place: self._least_of(place, rows) for place in shown}
        room = width - _gaps(shown) - sum(widths.values())
        for place in sorted(shown, key=lambda place: place != self.key):
            more = min(room, self._natural(place, rows) - widths[place])
            if place == self.key or more > 0:
                widths[place] = max(1, widths[place] + more)
                room -= more
        return widths

    def _overflow(self, place: int) -> OverflowMethod:
        if place == self.key:
            return "ellipsis" if self.one_line else "fold"
        return self.columns[place].overflow

    def _all_cells(self, shown: Sequence[int]) -> list[list[Text]]:
        return [self._cells(row, shown) for row in self.rows]

    def _cells(self, row: Sequence[Text], shown: Sequence[int]) -> list[Text]:
        if self.one_line:
            return list(row)
        indent = Text(" " * _INDENT if self.key == 0 else "")
        below = [
            indent + _below(column, row[place])
            for place, column in enumerate(self.columns)
            if place not in shown and column.below != "dropped" and row[place].plain
        ]
        key = Text("\n").join([row[self.key], *below])
        return [key if place == self.key else cell for place, cell in enumerate(row)]


def plain_columns(*heads: str, justify: JustifyMethod = "left") -> list[Column]:
    """Return columns of which the first tells rows apart, and the others leave from the right."""
    first, *others = heads
    return [Column(first), *(Column(h, "", justify, n) for n, h in enumerate(others, start=1))]


def _gaps(shown: Sequence[int]) -> int:
    return _GAP * (len(shown) - 1)


def _wrapped(console: Console, text: Text, width: int) -> Text:
    """Break lines that are too long; what follows a break is indented as its line is."""
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        indent = len(line.plain) - len(line.plain.lstrip(" "))
        pieces = line[indent:].wrap(console, max(1, width - indent), overflow="fold")
        lines += [Text(" " * indent) + piece for piece in pieces or [Text()]]
    return Text("\n").join(lines)


def _below(column: Column, cell: Text) -> Text:
    text = cell.copy()
    text.stylize_before(column.style or _QUIET)
    return Text.assemble((f"{column.head} ", _QUIET), text) if column.below == "named" else text
