"""`kernelwright best`, `show` and `history`: what the store knows.

Each command imports what it alone needs: `best` answers before the others' modules are read.
"""

import re
import sys
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kernelwright.errors import InputError, UsageError
from kernelwright.evaluator.evaluation import Status
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.base import DeviceName
from kernelwright.printable import printable
from kernelwright.service.console import console
from kernelwright.service.exit_code import FAILED
from kernelwright.service.option import (
    JsonOption,
    LimitOption,
    ShownChipOption,
    StoreOption,
    print_json,
)

if TYPE_CHECKING:
    from kernelwright.agents.session.transcript import Transcript
    from kernelwright.store import KernelStore

_SHAPE = re.compile(r"(?=.*\d)[\w\s,\[\]]+")


def _dtype(text: str | None) -> str | None:
    """Read a dtype's name."""
    try:
        return None if text is None else Dtype.parse(text).value
    except InputError as e:
        raise UsageError(str(e)) from e


def best(
    op: Annotated[
        str | None, typer.Option(help="An op in the task, or a word of its name.")
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(callback=_dtype, help="Of the first output, such as f16 or bfloat16."),
    ] = None,
    shape: Annotated[
        str | None, typer.Option(help="A part of the inputs' types, such as 2048,4096.")
    ] = None,
    device: Annotated[DeviceName | None, typer.Option(help="Only this device.")] = None,
    chip: ShownChipOption = None,
    sort: Annotated[
        Literal["speedup", "newest"], typer.Option(help="What comes first.")
    ] = "speedup",
    limit: LimitOption = 50,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """List the champions in the store, those that gain most over MLX first."""
    from kernelwright.campaign.report.champion_list import champions_by_gain
    from kernelwright.service.view.listing import print_champions
    from kernelwright.store import KernelStore

    if shape is not None and not _SHAPE.fullmatch(shape):
        raise UsageError(
            f"expected a part of the inputs' types such as 2048,4096 or f16[8, found {shape!r}."
        )
    with KernelStore(store, must_exist=True) as opened:
        champions = champions_by_gain(
            opened,
            op=op,
            dtype=dtype,
            shape=shape,
            device=device,
            chip=chip,
            limit=limit,
            newest_first=sort == "newest",
        )
        label, spending = opened.label, opened.dialogue.spending()
    if json:
        print_json(champions)
    else:
        print_champions(console(), champions, label, spending)
    if not champions:
        raise typer.Exit(FAILED)


def show(
    candidate: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="The first digits of an id; with --conversation of a campaign's, too.",
        ),
    ],
    source: Annotated[
        bool, typer.Option("--source", help="Print the kernels' Metal source and nothing else.")
    ] = False,
    chip: ShownChipOption = None,
    conversation: Annotated[
        bool,
        typer.Option(
            "--conversation",
            help="Print what models said about its task, or in a campaign, and what tools did.",
        ),
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="With --conversation, print long texts whole.")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show one candidate: source, launch, lineage, diagnostics, accuracy, samples."""
    from kernelwright.campaign.report.champion_list import CandidatePage, candidate_gain
    from kernelwright.service.view.candidate import print_candidate
    from kernelwright.store import KernelStore

    with KernelStore(store, must_exist=True) as opened:
        if conversation:
            _print_conversations(opened, candidate, as_json=json, full=full)
            return
        detail = opened.show(candidate)
        spent = opened.dialogue.spending().get(detail.candidate.task.id)
    gain = candidate_gain(detail, chip)
    if json:
        print_json(CandidatePage.of(detail, gain))
    elif source:
        for kernel in detail.program.kernels:
            text = f"{kernel.header}\n{kernel.source}" if kernel.header else kernel.source
            # A file gets the source to the byte; a terminal is not steered by it.
            typer.echo(printable(text) if sys.stdout.isatty() else text)
    else:
        print_candidate(console(), detail, gain, spent)


def _print_conversations(store: "KernelStore", prefix: str, *, as_json: bool, full: bool) -> None:
    """Print those about a candidate's task; of one without a candidate, by its campaign.

    Raises:
        InputError: neither a candidate's id nor a campaign's begins with `prefix`.
    """
    from kernelwright.agents.session.transcript_text import transcript_lines
    from kernelwright.campaign.history.ledger import conversations_about, conversations_in
    from kernelwright.service.view.wrapping import wrapped
    from kernelwright.store import CandidateDetail

    found = store.candidate_or_campaign(prefix)
    if isinstance(found, CandidateDetail):
        held = conversations_about(store, found.candidate.task.id)
        wrote = found.candidate
        about = f"{wrote.task.name}, the task of {wrote.id[:8]} by {wrote.author}"
    else:
        held = conversations_in(store, found.id)
        about = f"a task of the campaign {found.id[:8]}"
    if as_json:
        print_json(held)
    else:
        lines = list[str]()
        for key, talks in groupby(held, key=_subject):
            if len({_subject(talk) for talk in held}) > 1:
                lines += [f"# {_name(store, key)}", ""]
            lines += [line for talk in talks for line in (*transcript_lines(talk, full=full), "")]
        none = f"No model held a conversation about {about}: search with --model to have one."
        typer.echo(wrapped("\n".join(lines) or none, console().width))
    if not held:
        raise typer.Exit(FAILED)


def _subject(talk: "Transcript") -> str:
    """Return the task that was talked about; nothing for how functions are cut."""
    return "" if talk.purpose.role == "planner" else talk.purpose.task


def _name(store: "KernelStore", task: str) -> str:
    if not task:
        return "planning"
    summary = store.browse.task(task)
    return f"{summary.name} {summary.shapes}"


def history(
    campaign: Annotated[
        str | None, typer.Option(help="Only this campaign: the first digits of its id.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Only this task: the first digits of its fingerprint.")
    ] = None,
    status: Annotated[
        Status | None, typer.Option(help="Only verdicts of this kind.", show_choices=False)
    ] = None,
    limit: LimitOption = 50,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """List what was tried, newest first."""
    from kernelwright.campaign.history.resuming import handovers_of, history_of
    from kernelwright.service.view.listing import print_history
    from kernelwright.store import KernelStore

    with KernelStore(store, must_exist=True) as opened:
        entries = history_of(opened, campaign, task=task, status=status, limit=limit)
        notes = () if json else handovers_of(opened, entries)
    if json:
        print_json(entries)
    else:
        print_history(console(), entries, notes)
    if not entries:
        raise typer.Exit(FAILED)
