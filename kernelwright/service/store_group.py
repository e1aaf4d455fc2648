"""`kernelwright store`: the database itself."""

import typer

from kernelwright.service.console import console
from kernelwright.service.option import JsonOption, LimitOption, StoreOption, print_json
from kernelwright.service.view.listing import print_statistics, print_wanted
from kernelwright.store import KernelStore

store_group = typer.Typer(help="The database itself.", no_args_is_help=True)


@store_group.command()
def stats(store: StoreOption = None, json: JsonOption = False) -> None:
    """Count what the store holds."""
    with KernelStore(store, must_exist=True) as opened:
        statistics = opened.statistics()
    if json:
        print_json(statistics)
    else:
        print_statistics(console(), statistics)


@store_group.command()
def wanted(store: StoreOption = None, limit: LimitOption = 50, json: JsonOption = False) -> None:
    """List the calls that optimized functions made and no kernel could serve."""
    with KernelStore(store, must_exist=True) as opened:
        calls = opened.wanted(limit=limit)
    if json:
        print_json(calls)
    else:
        print_wanted(console(), calls)
