"""`kernelwright fleet`: a fleet on one machine, and who works for one."""

from pathlib import Path
from typing import Annotated

import platformdirs
import typer

from kernelwright.metal.diagnostic import Record
from kernelwright.service.console import console
from kernelwright.service.option import (
    DeviceOption,
    JsonOption,
    Said,
    StoreOption,
    print_json,
    print_json_line,
)
from kernelwright.validation import MOST_JOBS


class LocalFleetAddress(Record):
    """Where a fleet on this machine keeps its store."""

    store: str


def up(
    workers: Annotated[
        int, typer.Option(min=1, max=MOST_JOBS, help="How many worker processes.")
    ] = 3,
    device: DeviceOption = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the server's data lies.", show_default="in your data directory"),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Start a PostgreSQL server and workers on this machine, until Ctrl-C; nothing to install."""
    from kernelwright.campaign.fleet.local_fleet import local_fleet
    from kernelwright.metal.device.registry import default_device

    chosen = device or default_device()
    place = folder or platformdirs.user_data_path("kernelwright") / "fleet"
    printed = console()

    def say(sentence: str) -> None:
        if json:
            print_json_line(Said(sentence=sentence))
            return
        printed.print(sentence, highlight=False, markup=False, soft_wrap=True)

    with local_fleet(place, workers if chosen == "simulator" else 1, chosen) as fleet:
        if json:
            print_json_line(LocalFleetAddress(store=fleet.url))
        else:
            say(f"the fleet's store is {fleet.url}")
            say(f"use it   export KERNELWRIGHT_STORE='{fleet.url}'")
            say("search   kernelwright search --fleet catalog:softmax")
        fleet.wait(say)


def status(store: StoreOption = None, json: JsonOption = False) -> None:
    """List the workers that gave a sign of life within a minute."""
    from kernelwright.store import KernelStore

    with KernelStore(store, must_exist=True) as opened:
        found = opened.fleet.workers()
    if json:
        print_json(found)
        return
    if not found:
        console().print("no worker; start one with: kernelwright worker --database URL")
    for worker in found:
        environment = worker.environment
        console().print(
            f"{worker.label}  {worker.queue}  {worker.jobs} at once  "
            f"MLX {environment.mlx}, {environment.system}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
