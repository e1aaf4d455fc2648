"""Help pages in plain text, for terminals that panels do not fit."""

import re
from collections.abc import Sequence
from shutil import get_terminal_size

from typer._click.core import Context
from typer._click.formatting import HelpFormatter, wrap_text

PANELS_FIT = 120
"""Columns in which the panels of every command hold the longest option, value and word."""
LISTS_FIT = 60
"""Columns in which a name and what is said of it stand side by side."""
_WIDEST = 80
_NARROWEST = 20


class HelpPage(HelpFormatter):
    """A page as wide as the terminal; on a narrow one what is said of a name stands below it."""

    def __init__(self, width: int | None = None, max_width: int | None = None) -> None:
        """Take the terminal's width, unless one is given."""
        columns = min(get_terminal_size().columns, max_width or _WIDEST)
        super().__init__(width=width or max(columns - 2, _NARROWEST))

    def write_dl(
        self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        """Write names and what is said of them."""
        if get_terminal_size().columns >= LISTS_FIT:
            super().write_dl(rows, col_max, col_spacing)
            return
        for name, said in rows:
            for line in self._lines(name):
                self.write(f"{'':>{self.current_indent}}{line}\n")
            if said:
                below = " " * (self.current_indent + 4)
                self.write(f"{wrap_text(said, self.width, below, below)}\n")

    def _lines(self, name: str) -> list[str]:
        """Break a name with its choices at spaces, and between choices."""
        lines = [""]
        for piece in re.findall(r"[^ |]+\|?| ", name):
            if len(lines[-1]) + len(piece) > self.width - self.current_indent:
                lines.append("  ")
            lines[-1] += piece
        return [line.rstrip() for line in lines]


class HelpContext(Context):
    """A context whose pages and usage lines are as wide as the terminal."""

    formatter_class = HelpPage
