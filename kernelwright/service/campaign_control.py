"""`kernelwright campaign status`, `pause` and `stop`: for any terminal, by the store alone."""

import typer
from rich.console import OverflowMethod
from rich.table import Table
from rich.text import Text

from kernelwright.campaign.history.pausing import is_paused
from kernelwright.campaign.history.resuming import (
    ask_to_pause,
    ask_to_stop,
    current,
    find_night,
    is_alive,
    nights,
    searches,
    shown_id,
)
from kernelwright.campaign.history.run_state import RunState, not_running, state_of
from kernelwright.campaign.report.wording import in_cents, in_seconds
from kernelwright.errors import InputError
from kernelwright.service.console import console
from kernelwright.service.exit_code import FAILED
from kernelwright.service.option import JsonOption, RunArgument, StoreOption, print_json
from kernelwright.service.view.figure import short
from kernelwright.store import Campaign, KernelStore

_STYLES = {"running": "good", "paused": "warn", "dead": "bad", "failed": "bad"}
_MOST_RUNS = 20
_COLUMNS = ("campaign", "kind", "name", "device", "state", "tried", "right", "time", "spent")


def pause(
    campaign: RunArgument = None, store: StoreOption = None, json: JsonOption = False
) -> None:
    """Let a campaign hold still, from any terminal; `resume` lets it go on."""
    with KernelStore(store, must_exist=True) as opened:
        found = _living(opened, campaign)
        if is_paused(opened.events(found.id)):
            raise InputError(
                f"campaign {called(found)} holds still already; let it go on "
                f"with: kernelwright campaign resume {short(shown_id(found))}"
            )
        ask_to_pause(opened, found.id)
        name, state = called(found), state_of(opened, found)
    if json:
        print_json(state)
        return
    console().print(f"asked {name} to hold still; what runs ends, nothing new begins")
    _print_next(f"kernelwright campaign resume {short(shown_id(found))}")


def stop(campaign: RunArgument = None, store: StoreOption = None, json: JsonOption = False) -> None:
    """Ask a campaign to end in order, from any terminal."""
    with KernelStore(store, must_exist=True) as opened:
        found = _living(opened, campaign)
        ask_to_stop(opened, found.id)
        state = state_of(opened, found)
    if json:
        print_json(state)
        return
    console().print(
        f"asked {short(shown_id(found))} ({found.name}) to stop; it ends within seconds"
    )


def status(
    campaign: RunArgument = None, store: StoreOption = None, json: JsonOption = False
) -> None:
    """List campaigns and searches: what runs, what was left behind, what each tried and spent."""
    with KernelStore(store, must_exist=True) as opened:
        runs = searches(opened)
        chosen = [find_night(runs, campaign)] if campaign else current(runs)[:_MOST_RUNS]
        states = [state_of(opened, run) for run in chosen]
    if json:
        print_json(states)
    elif not states:
        console().print(
            "No campaign or search in this store yet; `kernelwright campaign init` writes a file "
            "for a campaign.",
            style="quiet",
        )
    else:
        console().print(status_table(states))
        if command := _next_of(states[0]):
            _print_next(command)
    if not states:
        raise typer.Exit(FAILED)


def called(run: Campaign) -> str:
    """Name a campaign for people by its id and its name."""
    return f"{short(shown_id(run))} ({run.name})"


def _living(store: KernelStore, wanted: str | None) -> Campaign:
    """Return the newest run that is meant and goes on.

    Raises:
        InputError: it does not run.
    """
    runs = nights(store)
    alive = [run for run in runs if is_alive(run)]
    found = find_night(alive if wanted is None and alive else runs, wanted)
    if not is_alive(found):
        raise InputError(not_running(found))
    return found


def status_table(states: list[RunState]) -> Table:
    """List runs so that what one types is never cut."""
    table = Table(box=None, header_style="label", pad_edge=False)
    # A long name gives way; what one types and reads off is never cut.
    table.expand = True
    for column in _COLUMNS:
        is_name = column == "name"
        overflow: OverflowMethod = "ellipsis" if is_name else "fold"
        table.add_column(column, no_wrap=True, overflow=overflow, ratio=1 if is_name else None)
    for found in states:
        table.add_row(
            Text(short(found.id), style="id"),
            found.kind,
            found.name,
            found.device,
            Text(found.state, style=_STYLES.get(found.state, "")),
            str(found.tried),
            str(found.correct),
            in_seconds(found.seconds),
            in_cents(found.known_dollars, found.dollars).replace("–", "–\n"),
        )
    return table


def _next_of(newest: RunState) -> str:
    if newest.kind == "search" and newest.state != "finished":
        return ""
    return {
        "running": f"kernelwright campaign watch {short(newest.id)}",
        "finished": f"kernelwright report {short(newest.id)} --html report.html",
    }.get(newest.state, f"kernelwright campaign resume {short(newest.id)}")


def _print_next(command: str) -> None:
    console().print(Text.assemble(("next  ", "label"), (command, "command")))
