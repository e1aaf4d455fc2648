"""`kernelwright campaign status`, `pause` and `stop`: for any terminal, by the store alone."""

from typing import TYPE_CHECKING

import typer
from rich.text import Text

from kernelwright.campaign.history.pausing import is_paused
from kernelwright.campaign.report.wording import in_dollar_range, in_local_span, in_seconds
from kernelwright.errors import InputError
from kernelwright.service.console import console
from kernelwright.service.exit_code import FAILED
from kernelwright.service.option import JsonOption, RunArgument, StoreOption, print_json
from kernelwright.service.view.figure import short
from kernelwright.service.view.fitted_table import Column, FittedTable
from kernelwright.store import Campaign

if TYPE_CHECKING:
    from kernelwright.campaign.history.run_state import RunState
    from kernelwright.store import KernelStore

_STYLES = {"running": "good", "paused": "warn", "dead": "bad", "failed": "bad"}
_MOST_RUNS = 20


def pause(
    campaign: RunArgument = None, store: StoreOption = None, json: JsonOption = False
) -> None:
    """Let a campaign hold still, from any terminal; `resume` lets it go on."""
    from kernelwright.campaign.history.resuming import ask_to_pause, shown_id
    from kernelwright.campaign.history.run_state import state_of
    from kernelwright.store import KernelStore

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
    from kernelwright.campaign.history.resuming import ask_to_stop, shown_id
    from kernelwright.campaign.history.run_state import state_of
    from kernelwright.store import KernelStore

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
    from kernelwright.campaign.history.resuming import current, find_campaign, searches
    from kernelwright.campaign.history.run_state import state_of
    from kernelwright.store import KernelStore

    with KernelStore(store, must_exist=True) as opened:
        runs = searches(opened)
        chosen = [find_campaign(runs, campaign)] if campaign else current(runs)[:_MOST_RUNS]
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
        for found in states:
            if found.state != "finished" and found.reason:
                console().print(
                    Text.assemble((short(found.id), "id"), f" {found.state}: {found.reason}")
                )
        if command := _next_of(states[0]):
            _print_next(command)
    if not states:
        raise typer.Exit(FAILED)


def called(run: Campaign) -> str:
    """Name a campaign for people by its id and its name."""
    from kernelwright.campaign.history.resuming import shown_id

    return f"{short(shown_id(run))} ({run.name})"


def _living(store: "KernelStore", wanted: str | None) -> Campaign:
    """Return the newest run that is meant and goes on.

    Raises:
        InputError: it does not run, or is a plain search.
    """
    from kernelwright.campaign.history.resuming import (
        find_campaign,
        is_alive,
        nights,
        refuse_search,
    )
    from kernelwright.campaign.history.run_state import not_running

    refuse_search(store, wanted)
    runs = nights(store)
    alive = [run for run in runs if is_alive(run)]
    found = find_campaign(alive if wanted is None and alive else runs, wanted)
    if not is_alive(found):
        raise InputError(not_running(found))
    return found


def status_table(states: "list[RunState]") -> FittedTable:
    """List runs so that what one types is never cut."""
    columns = (
        Column("campaign", style="id"),
        Column("kind", leaves=6),
        Column("name"),
        Column("device", leaves=7),
        Column("state"),
        Column("tried", justify="right", leaves=1),
        Column("right", justify="right", leaves=1),
        Column("when", style="quiet", leaves=4, below="alone", least=24),
        Column("lasted", justify="right", leaves=3),
        Column("spent", leaves=2),
    )
    rows = [
        [
            Text(short(found.id)),
            Text(found.kind),
            Text(found.name),
            Text(found.device),
            Text(found.state, style=_STYLES.get(found.state, "")),
            Text(str(found.tried)),
            Text(str(found.correct)),
            Text(in_local_span(found.started_at, found.ended_at)),
            Text(in_seconds(found.seconds)),
            Text(in_dollar_range(found.known_dollars, found.dollars)),
        ]
        for found in states
    ]
    return FittedTable(columns, rows, key=2)


def _next_of(newest: "RunState") -> str:
    if newest.kind == "search" and newest.state != "finished":
        return ""
    return {
        "running": f"kernelwright campaign watch {short(newest.id)}",
        "finished": f"kernelwright report {short(newest.id)} --html report.html",
    }.get(newest.state, f"kernelwright campaign resume {short(newest.id)}")


def _print_next(command: str) -> None:
    console().print(Text.assemble(("next  ", "label"), (command, "command")))
