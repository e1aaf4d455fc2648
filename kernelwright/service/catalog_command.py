"""`kernelwright catalog`: the ready tasks."""

from typing import Annotated

import typer

from kernelwright.errors import InputError
from kernelwright.metal.diagnostic import Record
from kernelwright.service.console import console
from kernelwright.service.option import JsonOption, print_json

GroupOption = Annotated[
    str | None, typer.Option("--group", help="One group only, such as norm.", show_default=False)
]


class CatalogTask(Record):
    """One line of the catalog."""

    name: str
    group: str
    summary: str
    inputs: tuple[str, ...]


def list_catalog(group: GroupOption = None, json: JsonOption = False) -> None:
    """List the ready tasks; search one with: kernelwright search catalog:NAME."""
    from kernelwright import catalog
    from kernelwright.service.view.catalog import print_catalog

    entries = catalog.entries()
    groups = sorted({entry.group for entry in entries})
    if group is not None and group not in groups:
        raise InputError(f"expected a group, one of {', '.join(groups)}; found {group!r}.")
    chosen = [e for e in entries if group in (None, e.group)]
    if json:
        print_json(
            [
                CatalogTask(name=e.name, group=e.group, summary=e.summary, inputs=e.inputs)
                for e in chosen
            ]
        )
    else:
        print_catalog(console(), chosen)
