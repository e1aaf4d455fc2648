"""`kernelwright store`: the database itself."""

import typer

from kernelwright.service.console import console
from kernelwright.service.option import JsonOption, StoreOption, print_json
from kernelwright.service.view.listing import print_statistics
from kernelwright.store import KernelStore

store_group = typer.Typer(help="The database itself.", no_args_is_help=True)


@store_group.callback()
def _group() -> None:
    """Keep `stats` a subcommand while it is the only one."""


@store_group.command()
def stats(store: StoreOption = None, json: JsonOption = False) -> None:
    """Count what the store holds."""
    with KernelStore(store, must_exist=True) as opened:
        statistics = opened.statistics()
    if json:
        print_json(statistics)
    else:
        print_statistics(console(), statistics)
