"""The catalog as a table, group by group."""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from kernelwright.catalog import Entry
from kernelwright.service.view.fitted_table import Column, FittedTable


def print_catalog(console: Console, entries: Sequence[Entry]) -> None:
    """Print every task, and how to search one."""
    columns = (
        # A name is what one types: it is never broken.
        Column("task", style="task", least=max((len(e.name) for e in entries), default=None)),
        Column("computes", leaves=1, below="alone", least=24, overflow="fold"),
        Column(
            "inputs (T: any float)", "quiet", leaves=2, below="alone", least=24, overflow="fold"
        ),
    )
    rows: list[list[Text]] = []
    for group, members in groupby(entries, key=lambda entry: entry.group):
        if rows:
            rows.append([Text()] * len(columns))
        rows.append([Text(group, style="title"), Text(), Text()])
        rows += ([Text(e.name), Text(e.summary), Text(" ".join(e.inputs))] for e in members)
    console.print(FittedTable(columns, rows))
    console.print(
        f"{len(entries)} tasks. Search one with: ",
        Text("kernelwright search catalog:softmax", style="command"),
        sep="",
    )
