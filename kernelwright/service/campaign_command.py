"""`kernelwright campaign check`, `run` and `resume`: nights over many functions."""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from kernelwright.campaign.history.pausing import Pause
from kernelwright.campaign.spec.campaign_spec import CampaignWanted
from kernelwright.errors import DeviceError, InputError, KernelwrightError, UsageError
from kernelwright.service.console import console, output_for_json
from kernelwright.service.exit_code import FAILED, INTERRUPTED
from kernelwright.service.interruption import ending_in_order
from kernelwright.service.option import (
    FleetOption,
    JsonOption,
    RunArgument,
    StoreOption,
    print_json,
)
from kernelwright.service.view.figure import MLX_IS_BEST, short

if TYPE_CHECKING:
    from kernelwright.campaign import SearchReport
    from kernelwright.campaign.spec.campaign_spec import CampaignSpec
    from kernelwright.service.collaborator import Collaborators
    from kernelwright.store import KernelStore

FileArgument = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE.toml]", help="The night's file; --wanted needs none."),
]
WantedOption = Annotated[
    bool,
    typer.Option("--wanted", help="Take up what optimized functions asked for in vain, too."),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show no progress, only the result.")
]


def check(
    file: FileArgument = None,
    wanted: WantedOption = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Say what a night would do and what it may cost; nothing runs."""
    specs = _specs_of(file, store, wanted=wanted)
    from kernelwright.service.campaign_outlook import captured_of, describe

    check_export(specs[0])
    with output_for_json(json):
        checked = [describe(spec, captured_of(spec, store)) for spec in specs]
    if json:
        print_json(checked)
        return
    typed = " ".join([*([str(file)] if file else []), *(["--wanted"] if wanted else [])])
    _print_next("next  ", f"kernelwright campaign run {typed}")


def run(
    context: typer.Context,
    file: FileArgument = None,
    wanted: WantedOption = False,
    quiet: QuietOption = False,
    store: StoreOption = None,
    fleet: FleetOption = False,
    json: JsonOption = False,
) -> None:
    """Search every function of a night's file, device after device, and export at the end."""
    with output_for_json(json):
        specs = _specs_of(file, store, wanted=wanted)
        _run_all(
            specs,
            store,
            _collaborators(context),
            quiet=quiet,
            resumes=False,
            fleet=fleet,
            json=json,
        )


def resume(
    context: typer.Context,
    campaign: RunArgument = None,
    quiet: QuietOption = False,
    store: StoreOption = None,
    fleet: FleetOption = False,
    dollars: Annotated[float | None, typer.Option(min=0, help="A new cap on spending.")] = None,
    tokens: Annotated[int | None, typer.Option(min=1, help="A new cap on tokens.")] = None,
    calls: Annotated[int | None, typer.Option(min=1, help="A new cap on model calls.")] = None,
    evaluations: Annotated[int | None, typer.Option(min=1, help="A new cap on these.")] = None,
    hours: Annotated[float | None, typer.Option(min=0.001, help="A new cap on time.")] = None,
    json: JsonOption = False,
) -> None:
    """Go on where a campaign was paused, killed, stopped or capped.

    What it used of its caps counts; a cap given here takes the place of the one it began with.
    """
    from kernelwright.campaign.history.larger_caps import LargerCaps
    from kernelwright.campaign.history.resuming import (
        ask_to_go_on,
        find_paused,
        nights,
        shown_id,
        to_resume,
    )
    from kernelwright.campaign.history.run_state import state_of
    from kernelwright.store import KernelStore

    with KernelStore(store, must_exist=True) as opened:
        if (held := find_paused(opened, nights(opened), campaign)) is not None:
            ask_to_go_on(opened, held.id)
            if json:
                print_json([state_of(opened, held)])
            else:
                console().print(f"asked {short(shown_id(held))} ({held.name}) to go on")
            return
        larger = LargerCaps(
            dollars=dollars, tokens=tokens, calls=calls, evaluations=evaluations, hours=hours
        )
        found = to_resume(opened, campaign, larger)
    specs = found.spec.to_the_end()
    with output_for_json(json):
        _run_all(
            specs,
            store,
            _collaborators(context),
            quiet=quiet,
            resumes=True,
            root_id=found.root_id,
            fleet=fleet,
            json=json,
        )


def _specs_of(file: Path | None, url: str | None, *, wanted: bool) -> "tuple[CampaignSpec, ...]":
    """Return one search for each device, with the wanted calls named in each."""
    from kernelwright.campaign.spec.campaign_file import read_campaign_file, spec_of_wanted

    if file is None and not wanted:
        raise UsageError(
            "expected a night's file or --wanted, found neither; write a file with: "
            "kernelwright campaign init"
        )
    spec = read_campaign_file(file)[0] if file else spec_of_wanted()
    if wanted and spec.wanted is None:
        spec = spec.model_copy(update={"wanted": CampaignWanted()})
    if spec.wanted is None:
        return spec.to_the_end()
    from kernelwright.campaign.planning.unserved_calls import resolve_wanted
    from kernelwright.store import KernelStore

    with KernelStore(url, must_exist=True) as opened:
        return resolve_wanted(spec, opened).to_the_end()


def _run_all(
    specs: "Sequence[CampaignSpec]",
    url: str | None,
    collaborators: "Collaborators",
    *,
    quiet: bool,
    resumes: bool,
    root_id: str | None = None,
    fleet: bool = False,
    json: bool = False,
) -> None:
    """Let devices take turns; one that fails leaves the night to the others.

    What `resumes` is the first search.
    """
    from kernelwright.campaign import SearchReport

    check_export(specs[0])
    reports: list[SearchReport] = []
    try:
        failed = _turns(
            specs,
            url,
            collaborators,
            reports,
            quiet=quiet,
            resumes=resumes,
            root_id=root_id,
            fleet=fleet,
        )
    finally:
        if json and reports:
            print_json(reports)
    found = [task.champion_id for report in reports for task in report.tasks if task.champion_id]
    if failed or not found:
        raise typer.Exit(FAILED)


def _turns(
    specs: "Sequence[CampaignSpec]",
    url: str | None,
    collaborators: "Collaborators",
    reports: "list[SearchReport]",
    *,
    quiet: bool,
    resumes: bool,
    root_id: str | None,
    fleet: bool,
) -> int:
    """Run one search after another, adding each report; return how many did not end well."""
    failed = 0
    for place, spec in enumerate(specs):
        try:
            failed += not _run(
                spec,
                url,
                collaborators,
                reports,
                quiet=quiet,
                resumes=resumes and not place,
                root_id=None if place else root_id,
                fleet=fleet,
            )
        except DeviceError as e:
            if len(specs) == 1:
                raise
            console().print(f"{spec.device} is left out: {e}", style="bad", markup=False)
            failed += 1
    return failed


def _collaborators(context: typer.Context) -> "Collaborators":
    from kernelwright.service.collaborator import Collaborators

    return context.find_object(Collaborators) or Collaborators()


def _run(
    spec: "CampaignSpec",
    url: str | None,
    collaborators: "Collaborators",
    reports: "list[SearchReport]",
    *,
    quiet: bool,
    resumes: bool,
    root_id: str | None,
    fleet: bool,
) -> bool:
    """Run one device's search; False when the device was parked."""
    from kernelwright.campaign import Engine, offline_team
    from kernelwright.campaign.event import Event
    from kernelwright.campaign.execution.power_monitor import power_monitor_here, staying_awake
    from kernelwright.campaign.execution.retry_policy import DeviceCare
    from kernelwright.campaign.execution.run_settings import RunSettings
    from kernelwright.campaign.history.resuming import StopWatch
    from kernelwright.campaign.planning.wanted_calls import joined
    from kernelwright.campaign.team.model_team import open_team
    from kernelwright.search.priority import SecondsToSave
    from kernelwright.service.campaign_outlook import captured_of
    from kernelwright.service.view.progress import progress_view
    from kernelwright.service.view.summary import print_search_summary
    from kernelwright.store import KernelStore

    captured = captured_of(spec, url)
    priorities = {f.subject.name: n.priority for n, c in captured.items() for f in c.functions}
    pause = Pause()
    with (
        staying_awake(),
        collaborators.open_store(url) as opened,
        progress_view(console(), spec.candidates_per_task, quiet=quiet) as view,
        open_team(opened, spec, listen=view.show, rewire=collaborators.rewire) as team_factory,
    ):
        watch = StopWatch(opened, pause, lambda words: console().print(words, style="warn"))

        def listen(event: Event) -> None:
            watch.show(event)
            view.show(event)

        engine = Engine(
            opened,
            spec,
            offline_team(),
            collaborators.evaluators(spec, opened, fleet=fleet),
            RunSettings(
                listen=listen,
                team_factory=team_factory,
                order=SecondsToSave(priorities),
                resumes=resumes,
                pause=pause,
                care=DeviceCare(power_monitor=power_monitor_here()),
                root_id=root_id,
            ),
        )
        with ending_in_order(engine.stop), watch.calling(engine.stop):
            report = engine.run(joined(tuple(captured.values())))
    reports.append(report)
    print_search_summary(console(), report)
    if report.ended.interrupted:
        _print_next("go on ", f"kernelwright campaign resume {short(report.campaign_id)}")
        if not report.ended.parked:
            raise typer.Exit(INTERRUPTED)
    with KernelStore(url) as opened:
        return _exported(opened, spec, report) and not report.ended.parked


def _exported(store: "KernelStore", spec: "CampaignSpec", report: "SearchReport") -> bool:
    """Export, and say what kept it from being done: the champions are in the store all the same."""
    try:
        export_champions(store, spec, report, console().print)
    except KernelwrightError as e:
        words = f"not exported: {e} The champions are in the store: kernelwright export ID"
        console().print(words, style="bad", markup=False, soft_wrap=True)
        return False
    return True


def check_export(spec: "CampaignSpec") -> None:
    """See before a night that its exports can be written at its end.

    Raises:
        InputError: they cannot.
    """
    folder = spec.export_folder
    if folder is None:
        return
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for place in made:
            place.rmdir()
        if not made and not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as e:
        raise InputError(
            f"expected a folder that can be written under [export], found {str(folder)!r} "
            f"({e.strerror}); name another."
        ) from e


def export_champions(
    store: "KernelStore", spec: "CampaignSpec", report: "SearchReport", say: Callable[[Text], None]
) -> None:
    """Write the champions that gain enough into the night's folder, if it names one."""
    from kernelwright.runtime.export import export_into, fits_metal

    folder = spec.export_folder
    if folder is None:
        return
    for task in report.tasks:
        won = task.gain
        if task.champion_id is None or won is None:
            continue
        if not task.beats_mlx:
            say(Text(f"not exported: {task.name}: {MLX_IS_BEST}", style="quiet"))
            continue
        detail = store.show(task.champion_id)
        if won.saved < spec.minimum_effect:
            say(Text(f"not exported: {task.name} gains {won.words}", style="quiet"))
            continue
        if not fits_metal(detail):
            say(Text(f"not exported: {task.name} is not for Macs", style="quiet"))
            continue
        module = export_into(folder / spec.device, "module", [detail])
        module.write(folder / spec.device)
        say(Text.assemble(("exported ", "label"), f"{module.name}: {won.words}"))


def _print_next(label: str, command: str) -> None:
    console().print(Text.assemble((label, "label"), (command, "command")))
