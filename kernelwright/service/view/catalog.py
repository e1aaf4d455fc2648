"""The catalog as a table, group by group."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernelwright.catalog import Entry


def print_catalog(console: Console, entries: Sequence[Entry]) -> None:
    """Print every task, and how to search one."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    # A name is what one types: it is never cut.
    widest = max((len(entry.name) for entry in entries), default=0)
    table.add_column("task", style="task", no_wrap=True, min_width=widest)
    # Where the terminal is narrow, what is computed and its inputs take several lines.
    table.add_column("computes", overflow="fold")
    table.add_column("inputs (T: any float)", style="quiet", overflow="fold")
    group = ""
    for entry in entries:
        if entry.group != group:
            group = entry.group
            table.add_section()
            table.add_row(Text(group, style="title"))
        table.add_row(Text(entry.name), Text(entry.summary), Text(" ".join(entry.inputs)))
    console.print(table)
    console.print(
        f"{len(entries)} tasks. Search one with: ",
        Text("kernelwright search catalog:softmax", style="command"),
        sep="",
    )
