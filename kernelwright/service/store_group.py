"""`kernelwright store`: the database itself."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from kernelwright.errors import UsageError
from kernelwright.metal.device.base import DeviceName
from kernelwright.service.console import console
from kernelwright.service.option import JsonOption, LimitOption, StoreOption, print_json
from kernelwright.store import default_url, url_of
from kernelwright.store.location import is_same_place, label_of

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A file that is not there yet.")]


def stats(store: StoreOption = None, json: JsonOption = False) -> None:
    """Count what the store holds."""
    from kernelwright.service.view.listing import print_statistics
    from kernelwright.store import KernelStore

    with KernelStore(store, must_exist=True) as opened:
        statistics = opened.statistics()
    if json:
        print_json(statistics)
    else:
        print_statistics(console(), statistics)


def wanted(store: StoreOption = None, limit: LimitOption = 50, json: JsonOption = False) -> None:
    """List the calls of optimized functions that no kernel serves yet."""
    from kernelwright.campaign.planning.unserved_calls import still_wanted
    from kernelwright.service.view.listing import print_wanted
    from kernelwright.store import KernelStore

    with KernelStore(store, must_exist=True) as opened:
        calls = still_wanted(opened, limit)
    if json:
        print_json(calls)
    else:
        print_wanted(console(), calls)


def backup(file: FileArgument, store: StoreOption = None, json: JsonOption = False) -> None:
    """Copy the store to a file while searches go on."""
    from kernelwright.service.view.upkeep import BackedUp, print_backup
    from kernelwright.store import KernelStore

    with KernelStore(store, must_exist=True) as opened:
        copied = BackedUp(url=opened.label, file=str(file), size_bytes=opened.backup(file))
    if json:
        print_json(copied)
    else:
        print_backup(console(), copied)


def merge(
    first: Annotated[str, typer.Argument(metavar="PATH|URL", help="A store.")],
    second: Annotated[str, typer.Argument(metavar="PATH|URL", help="Another store.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="A file that is not there yet.")
    ],
    json: JsonOption = False,
) -> None:
    """Join two stores in a third: every row of both once, and the better champions."""
    from kernelwright.service.view.upkeep import print_merged
    from kernelwright.store import merge_stores

    merged = merge_stores(first, second, output)
    if json:
        print_json(merged)
    else:
        print_merged(console(), merged)


def sync(
    other: Annotated[
        str, typer.Argument(metavar="PATH|URL", help="The team's store: a path or URL.")
    ],
    pull: Annotated[bool, typer.Option("--pull", help="Only take from it.")] = False,
    push: Annotated[bool, typer.Option("--push", help="Only give to it.")] = False,
    device: Annotated[
        DeviceName | None, typer.Option(help="Only its champions.", show_default=False)
    ] = None,
    chip: Annotated[
        str | None, typer.Option(help="Only this chip's champions.", show_default=False)
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Share verified champions with another store, both ways."""
    from kernelwright.service.view.upkeep import print_synced
    from kernelwright.store import KernelStore

    if pull and push:
        raise UsageError(
            "expected --pull or --push, found both; leave both out to share both ways."
        )
    own = url_of(store) if store else default_url()
    if is_same_place(own, url_of(other)):
        raise UsageError(f"expected another store than one's own, found {label_of(own)} twice.")
    both = not pull and not push
    with KernelStore(store) as mine, KernelStore(other, must_exist=not push) as theirs:
        done = []
        if pull or both:
            done.append(theirs.push(mine, device=device, chip=chip))
        if push or both:
            done.append(mine.push(theirs, device=device, chip=chip))
    if json:
        print_json(done)
    else:
        for one in done:
            print_synced(console(), one)


def prune(
    days: Annotated[
        int, typer.Option(min=1, max=36_500, help="Keep what is younger than this.")
    ] = 30,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Forget old timings and failed candidates, never a champion or its ancestors."""
    from kernelwright.service.view.upkeep import print_pruned
    from kernelwright.store import KernelStore

    with KernelStore(store, must_exist=True) as opened:
        pruned = opened.prune(timedelta(days=days), dry_run=dry_run)
    if json:
        print_json(pruned)
    else:
        print_pruned(console(), pruned)


def verify(
    device: Annotated[
        DeviceName | None, typer.Option(help="Only its champions.", show_default=False)
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Judge also what was judged here already.")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Judge champions again after MLX, the system, the chip or the evaluator changed."""
    # The evaluator, which the other commands of the group do without.
    from kernelwright.campaign import recheck
    from kernelwright.service.view.upkeep import print_recheck, print_recheck_summary
    from kernelwright.store import KernelStore

    found = []
    with KernelStore(store, must_exist=True) as opened:
        for result in recheck(opened, device=device, everything=everything):
            found.append(result)
            if not json:
                print_recheck(console(), result)
    if json:
        print_json(found)
    else:
        print_recheck_summary(console(), found)
