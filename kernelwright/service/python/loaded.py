"""`kernelwright.registry`: what this process has loaded, as a table."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from kernelwright.evaluator.gain import in_microseconds
from kernelwright.runtime.registry import LoadedCall
from kernelwright.runtime.registry import registry as of_process
from kernelwright.service.python.html import QUIET, Cell, as_text, line_html, table_html
from kernelwright.service.view.figure import short
from kernelwright.service.view.fitted_table import Column, FittedTable

_COLUMNS = (
    Column("function"),
    Column("inputs", leaves=3, below="alone", least=24, overflow="fold"),
    Column("runs", least=8, overflow="fold"),
    Column("calls", justify="right", leaves=1),
    Column("a call takes", justify="right", leaves=1),
    Column("why", leaves=4, below="alone", least=24, overflow="fold"),
)
_NOTHING = "nothing is loaded: kernelwright.optimize and kernelwright.elementwise load functions"


class RegistryTable:
    """The functions and models of this process that may run kernels; iterate for the rows.

    `with kernelwright.registry.timing():` times the calls inside of it.
    """

    def __iter__(self) -> Iterator[LoadedCall]:
        """Return a row for each function at each choice of shapes and dtypes."""
        return iter(of_process.calls())

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(of_process.calls())

    def timing(self) -> AbstractContextManager[None]:
        """Time every call inside of a `with`, each to the end of its work on the device."""
        return of_process.timing()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = of_process.calls()
        if not rows:
            yield Text(_NOTHING, style="bright_black")
            return
        yield FittedTable(_COLUMNS, [[*map(Text, _texts(row))] for row in rows])

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        rows = [[Cell(text) for text in _texts(row)] for row in of_process.calls()]
        return (
            table_html([column.head for column in _COLUMNS], rows)
            if rows
            else line_html(_NOTHING, QUIET)
        )


def _texts(row: LoadedCall) -> list[str]:
    runs = "MLX" if row.path == "original" else "kernels"
    if row.kernels:
        runs = ", ".join(map(short, row.kernels))
    took = "–"
    if row.time_s is not None:
        took = in_microseconds(row.time_s / row.timed_calls * 1e6)
    calls = "–" if row.calls is None else f"{row.calls:,}"
    return [row.function, ", ".join((*row.inputs, *row.constants)), runs, calls, took, row.reason]


registry = RegistryTable()
"""The process's own."""
