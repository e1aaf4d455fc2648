"""`kernelwright campaign watch`: a run as it goes on, in any terminal, from the store alone."""

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, RenderableType

from kernelwright.service.console import console
from kernelwright.service.option import (
    JsonOption,
    RunArgument,
    ShownChipOption,
    StoreOption,
    print_json,
)
from kernelwright.store import Campaign

if TYPE_CHECKING:
    from kernelwright.campaign.report.live_status import LiveStatus, StatusReader
    from kernelwright.store import KernelStore

_LOOK_S = 1.0
_REST = 20
"""How many times as long as it works the view rests."""
_NEXT_DEVICE_S = 5.0
"""How long the run that follows may take to appear once one has ended."""


def watch(
    campaign: RunArgument = None,
    once: Annotated[
        bool, typer.Option("--once", help="Show how it stands now, and leave.")
    ] = False,
    chip: ShownChipOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Follow a campaign live, from any terminal; Ctrl-C leaves it running."""
    from kernelwright.campaign.report.live_status import StatusReader
    from kernelwright.store import KernelStore

    printed = console()
    with KernelStore(store, must_exist=True) as opened:
        run = _chosen(opened, campaign)
        reader = StatusReader(opened, run, chip)
        status = reader.look()
        if json:
            print_json(status)
        elif once or status.is_over or not printed.is_terminal:
            printed.print(_drawn(status, printed))
        else:
            _follow(opened, run, reader, printed, chip)


def _chosen(store: "KernelStore", wanted: str | None) -> Campaign:
    """Return the run that is meant: one that goes on before one that does not."""
    from kernelwright.campaign.history.resuming import find_campaign, is_alive, searches

    runs = searches(store)
    alive = [run for run in runs if is_alive(run)]
    return find_campaign(alive if wanted is None and alive else runs, wanted)


def _follow(
    store: "KernelStore", run: Campaign, reader: "StatusReader", printed: Console, chip: str | None
) -> None:
    """Draw a run every second until it ends, then the one that follows it."""
    from rich.live import Live

    from kernelwright.campaign.report.live_status import StatusReader

    with Live(console=printed, auto_refresh=False, screen=printed.is_terminal) as live:
        try:
            while True:
                begun = time.process_time()
                status = reader.look()
                live.update(_drawn(status, printed), refresh=True)
                if status.is_over:
                    following = _following(store, run)
                    if following is None:
                        break
                    run, reader = following, StatusReader(store, following, chip)
                # A long history takes a while to read: the cores are the campaign's.
                time.sleep(max(_LOOK_S, _REST * (time.process_time() - begun)))
        except KeyboardInterrupt:
            # Whoever watches leaves; the campaign neither knows nor minds.
            pass
    printed.print(_drawn(status, printed))


def _following(store: "KernelStore", run: Campaign) -> Campaign | None:
    """Return the run of the night's next device, or that which takes it up, if it begins soon."""
    from kernelwright.campaign.history.resuming import is_alive, nights, shown_id
    from kernelwright.campaign.spec.spec_reading import campaign_spec_of

    spec = campaign_spec_of(run)
    end = time.monotonic() + _NEXT_DEVICE_S
    while spec is not None and time.monotonic() < end:
        for other in nights(store):
            is_next = other.name == run.name or shown_id(other) == shown_id(run)
            if is_next and other.started_at > run.started_at and is_alive(other):
                return other
        time.sleep(_LOOK_S)
    return None


def _drawn(status: "LiveStatus", printed: Console) -> RenderableType:
    from kernelwright.service.view.watch import frame

    return frame(status, width=printed.width, height=printed.height)
