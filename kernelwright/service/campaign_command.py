"""`kernelwright campaign`: nights over many functions, priced, run, stopped and taken up again."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from kernelwright.campaign import Engine, SearchReport, capture_subjects, judges_on, offline_team
from kernelwright.campaign.earlier import lasted_s
from kernelwright.campaign.event import Event
from kernelwright.campaign.forecast import forecast
from kernelwright.campaign.gain import gain_of
from kernelwright.campaign.interleave import BySavings
from kernelwright.campaign.model_team import hiring
from kernelwright.campaign.night import NightSpec, read_night, template
from kernelwright.campaign.planning import Captured
from kernelwright.campaign.resuming import (
    StopWatch,
    ask_to_stop,
    current,
    find_night,
    is_alive,
    nights,
    to_resume,
)
from kernelwright.errors import InputError
from kernelwright.evaluator.evaluation import Status
from kernelwright.ir import partition
from kernelwright.metal.diagnostic import Record
from kernelwright.runtime.export import export_module
from kernelwright.service.console import console
from kernelwright.service.option import JsonOption, StoreOption, print_json
from kernelwright.service.view.figure import counted, in_seconds, short
from kernelwright.service.view.progress import progress_view
from kernelwright.service.view.summary import print_search_summary
from kernelwright.store import Campaign, KernelStore

campaign_group = typer.Typer(
    help="Nights over many functions, that survive whatever happens.", no_args_is_help=True
)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE.toml", help="The night's file.")]
RunArgument = Annotated[
    str | None,
    typer.Argument(metavar="[CAMPAIGN]", help="An id's first digits, or a name; the latest."),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show no progress, only the result.")
]


class RunState(Record):
    """One line of `campaign status`."""

    id: str
    name: str
    device: str
    state: str
    """As in the store, or `dead` when its process is gone, `taken up` when resumed."""
    tried: int
    evaluated: int
    correct: int
    seconds: float
    dollars: float


@campaign_group.command()
def init(
    path: Annotated[Path, typer.Argument(metavar="FILE.toml", help="Where to.")] = Path(
        "nightly.toml"
    ),
) -> None:
    """Write a commented file to start from."""
    try:
        with path.open("x") as file:
            file.write(template())
    except FileExistsError as e:
        raise InputError(f"{path} exists already; name another file.") from e
    except OSError as e:
        raise InputError(f"{path} cannot be written: {e.strerror}.") from e
    console().print(Text.assemble(("wrote ", "label"), str(path)))
    console().print(
        Text.assemble(("next  ", "label"), (f"kernelwright campaign check {path}", "command"))
    )


@campaign_group.command()
def check(file: FileArgument) -> None:
    """Say what a night would do and what it may cost; nothing runs."""
    for spec in read_night(file):
        _describe(spec, _captured(spec))
    console().print(
        Text.assemble(("next  ", "label"), (f"kernelwright campaign run {file}", "command"))
    )


@campaign_group.command()
def run(file: FileArgument, quiet: QuietOption = False, store: StoreOption = None) -> None:
    """Search every function of a night's file, device after device, and export at the end."""
    for spec in read_night(file):
        _run(spec, store, quiet=quiet, resumes=False)


@campaign_group.command()
def resume(
    campaign: RunArgument = None, quiet: QuietOption = False, store: StoreOption = None
) -> None:
    """Go on where a campaign was killed or stopped; what it has used of its caps counts."""
    with KernelStore(store, must_exist=True) as opened:
        spec = to_resume(opened, campaign)
    for step in spec.to_the_end():
        _run(step, store, quiet=quiet, resumes=step == spec)


@campaign_group.command()
def stop(campaign: RunArgument = None, store: StoreOption = None) -> None:
    """Ask a campaign to end in order, from any terminal."""
    with KernelStore(store, must_exist=True) as opened:
        found = find_night(nights(opened), campaign)
        if not is_alive(found):
            raise InputError(f"campaign {short(found.id)} ({found.name}) does not run.")
        ask_to_stop(opened, found.id)
    console().print(f"asked {short(found.id)} ({found.name}) to stop; it ends within seconds")


@campaign_group.command()
def status(
    campaign: RunArgument = None, store: StoreOption = None, json: JsonOption = False
) -> None:
    """List campaigns: what runs, what was left behind, what each has tried and spent."""
    with KernelStore(store, must_exist=True) as opened:
        runs = nights(opened)
        chosen = [find_night(runs, campaign)] if campaign else runs[:20]
        newest = {run.id for run in current(runs)}
        states = [_state(opened, run, is_newest=run.id in newest) for run in chosen]
    if json:
        print_json(states)
        return
    table = Table(box=None, header_style="label", pad_edge=False)
    for column in ("campaign", "name", "device", "state", "tried", "right", "time", "spent"):
        table.add_column(column, no_wrap=True)
    for found in states:
        style = {"running": "good", "dead": "bad", "failed": "bad"}.get(found.state, "")
        table.add_row(
            Text(short(found.id), style="id"),
            found.name,
            found.device,
            Text(found.state, style=style),
            str(found.tried),
            f"{found.correct}",
            in_seconds(found.seconds),
            f"${found.dollars:.2f}",
        )
    console().print(table)
    if any(found.state in ("dead", "interrupted", "failed") for found in states[:1]):
        console().print(
            Text.assemble(
                ("next  ", "label"),
                (f"kernelwright campaign resume {short(states[0].id)}", "command"),
            )
        )


def _run(spec: NightSpec, url: str | None, *, quiet: bool, resumes: bool) -> None:
    captured = _captured(spec)
    priorities = {s.name: f.priority for f, found in spec.subjects().items() for s in found}
    with (
        KernelStore(url) as opened,
        hiring(opened, spec) as hire,
        progress_view(console(), spec.candidates_per_task, quiet=quiet) as view,
    ):
        watch = StopWatch(opened)

        def listen(event: Event) -> None:
            watch.show(event)
            view.show(event)

        engine = Engine(
            opened,
            spec,
            offline_team(),
            judges_on(spec.device),
            listen=listen,
            hire=hire,
            order=BySavings(priorities),
            resumes=resumes,
        )
        with _ending_in_order(engine), watch.calling(engine.stop):
            report = engine.run(captured)
    print_search_summary(console(), report)
    if report.ended.interrupted:
        console().print(
            Text.assemble(
                ("go on ", "label"),
                (f"kernelwright campaign resume {short(report.campaign_id)}", "command"),
            )
        )
        raise typer.Exit(130)
    with KernelStore(url) as opened:
        _export(opened, spec, report)


def _captured(spec: NightSpec) -> Captured:
    return capture_subjects(s for found in spec.subjects().values() for s in found)


def _describe(spec: NightSpec, captured: Captured) -> None:
    printed = console()
    tasks = sum(len(partition(f.graph)) for f in captured.functions)
    printed.print(
        Text.assemble(
            (spec.name, "task"),
            f" on {spec.device}: {counted(len(captured.functions), 'function')}, about "
            f"{counted(tasks, 'task')}, at most {tasks * spec.candidates_per_task} candidates",
        )
    )
    for function, found in spec.subjects().items():
        names = ", ".join(subject.name for subject in found)
        printed.print(f"  {function.target}: {names}, priority {function.priority:g}", markup=False)
    for refused in captured.refused:
        printed.print(f"  not {refused.function}: {refused.reason}", style="warn", markup=False)
    printed.print(Text.assemble(("ends   ", "label"), _limits(spec)))
    expected = forecast((f.graph for f in captured.functions), spec)
    cost = "no live model is asked, so $0.00" if expected is None else expected.sentence
    printed.print(Text.assemble(("costs  ", "label"), cost))
    if (folder := spec.export_folder) is not None:
        printed.print(
            Text.assemble(
                ("exports ", "label"),
                f"champions that gain at least {spec.minimum_effect:.0%}, to {folder}",
            )
        )


def _limits(spec: NightSpec) -> str:
    limits = [f"after {in_seconds(spec.seconds)}"] if spec.seconds else []
    limits += [f"after {spec.evaluations} evaluations"] if spec.evaluations else []
    return ", ".join([*limits, f"a task after {spec.patience} candidates without a gain"])


def _state(store: KernelStore, run: Campaign, *, is_newest: bool) -> RunState:
    trials = store.history(campaign=run.id, limit=1_000_000)
    calls = store.dialogue.calls(run.id)
    state: str = run.state
    if state == "running" and not is_alive(run):
        state = "dead"
    if state != "finished" and not is_newest:
        state = "taken up"
    return RunState(
        id=run.id,
        name=run.name,
        device=run.environment.device.name,
        state=state,
        tried=len(trials),
        evaluated=sum(t.state == "done" and not t.reused for t in trials),
        correct=sum(t.status in (Status.CORRECT, Status.PROMOTED) for t in trials),
        seconds=lasted_s(store, run),
        dollars=sum(c.outcome.cost_microdollars for c in calls if c.outcome) / 1_000_000,
    )


def _export(store: KernelStore, spec: NightSpec, report: SearchReport) -> None:
    folder = spec.export_folder
    if folder is None:
        return
    for task in report.tasks:
        if task.champion_id is None:
            continue
        detail = store.show(task.champion_id)
        won = gain_of(detail.evaluations[0].evaluation, task.traffic)
        if won.saved < spec.minimum_effect:
            console().print(f"not exported: {task.name} gains {won.words}", style="quiet")
            continue
        module = export_module(detail)
        module.write(folder / spec.device)
        console().print(Text.assemble(("exported ", "label"), f"{module.name}: {won.words}"))


@contextmanager
def _ending_in_order(engine: Engine) -> Iterator[None]:
    """Let the first Ctrl-C end the campaign in order, and a second one at once."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        engine.stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
