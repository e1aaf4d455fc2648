"""`kernelwright search`: from a file's functions to champions in the store."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.agents.budget import Caps
from kernelwright.agents.session.tools.caps import ToolCaps
from kernelwright.campaign import SearchSpec
from kernelwright.errors import UsageError
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES
from kernelwright.search.spec import TeamSpec
from kernelwright.service.console import console, error_console
from kernelwright.service.device_ahead import open_device_ahead
from kernelwright.service.exit_code import FAILED, INTERRUPTED
from kernelwright.service.interruption import ending_in_order
from kernelwright.service.option import (
    BaseUrlOption,
    BudgetOption,
    CallsOption,
    ChipOption,
    DeviceOption,
    FleetOption,
    JobsOption,
    JsonOption,
    ModelOption,
    StoreOption,
    ThreadgroupMemoryOption,
    TokensOption,
    print_json,
)
from kernelwright.service.target_argument import require_targets
from kernelwright.service.view.timeline import begin_timeline
from kernelwright.timeline import span

if TYPE_CHECKING:
    from kernelwright.campaign import Subject
    from kernelwright.campaign.spec.search_target import Recall

_DEFAULTS = SearchSpec()
_TOOLS = _DEFAULTS.team.tool_caps


def search(
    context: typer.Context,
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE.py[:function]...",
            help="What to make faster: a file, package.module[:function], or catalog:NAME[:f16].",
        ),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option("-i", "--input", help="An input's type, such as 'bf16[2048,4096]'; repeat."),
    ] = None,
    device: DeviceOption = None,
    threadgroup_memory: ThreadgroupMemoryOption = METAL_THREADGROUP_BYTES,
    candidates: Annotated[
        int, typer.Option(min=1, help="The most candidates to try for a task.")
    ] = _DEFAULTS.candidates_per_task,
    repairs: Annotated[
        int, typer.Option(min=0, help="How often a failed program is repaired.")
    ] = _DEFAULTS.repairs,
    evaluations: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Stop after so many candidates; confirming them counts as none.",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Stop after so long.", show_default=False)
    ] = None,
    jobs: JobsOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    budget: BudgetOption = None,
    tokens: TokensOption = None,
    calls: CallsOption = None,
    task_budget: Annotated[
        float | None,
        typer.Option(min=0, help="The most dollars for one task.", show_default=False),
    ] = None,
    task_tokens: Annotated[
        int | None, typer.Option(min=1, help="The most tokens for one task.", show_default=False)
    ] = None,
    task_calls: Annotated[
        int | None, typer.Option(min=1, help="The most calls for one task.", show_default=False)
    ] = None,
    task_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            help="Leave models alone so long after a task's first call.",
            show_default=False,
        ),
    ] = None,
    turns: Annotated[
        int, typer.Option(min=1, help="The most turns of one conversation with a model.")
    ] = _TOOLS.turns,
    tool_calls: Annotated[
        int, typer.Option(min=1, help="The most tool calls of one conversation.")
    ] = _TOOLS.calls,
    tool_evaluations: Annotated[
        int, typer.Option(min=0, help="The most programs that one conversation may have tried.")
    ] = _TOOLS.evaluations,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show no progress, only the result.")
    ] = False,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Show in the end where the seconds went.")
    ] = False,
    chip: ChipOption = None,
    fleet: FleetOption = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Plan, write, repair, evaluate and record kernels for the functions of a file."""
    require_targets(targets)
    if timeline:
        context.call_on_close(begin_timeline())
    if not (fleet or chip):
        open_device_ahead(device, threadgroup_memory)
    from kernelwright.campaign import Engine, capture_subjects, offline_team
    from kernelwright.campaign.execution.job_choice import choose_jobs, this_host
    from kernelwright.campaign.execution.run_settings import RunSettings
    from kernelwright.campaign.fleet.evaluators import evaluators_for
    from kernelwright.campaign.planning.forecast import forecast, size_warning
    from kernelwright.campaign.team.model_team import open_team
    from kernelwright.metal.device.registry import default_device
    from kernelwright.search.priority import SecondsToSave
    from kernelwright.service.export_outlook import export_remarks
    from kernelwright.service.searched_input import recall_from
    from kernelwright.service.view.progress import progress_view
    from kernelwright.service.view.summary import print_search_summary
    from kernelwright.store import KernelStore

    # Everything that can be wrong with the request is found before the store is opened.
    with span("capture"):
        captured = capture_subjects(_load(targets, inputs or [], recall_from(store)))
    device = device or default_device()
    graphs = [function.graph for function in captured.functions]
    # A fleet's workers say how many they take.
    choice = None if jobs or fleet else choose_jobs(this_host(device), device, graphs)
    spec = SearchSpec(
        device=device,
        chip=chip or "" if device == "simulator" and not fleet else "",
        threadgroup_bytes=threadgroup_memory,
        candidates_per_task=candidates,
        repairs=repairs,
        evaluations=evaluations,
        seconds=seconds,
        jobs=choice.jobs if choice else jobs or _DEFAULTS.jobs,
        models=tuple(model or ()),
        base_url=base_url,
        caps=Caps(dollars=budget, tokens=tokens, calls=calls),
        task_caps=Caps(
            dollars=task_budget, tokens=task_tokens, calls=task_calls, seconds=task_seconds
        ),
        team=TeamSpec(
            tool_caps=ToolCaps(turns=turns, calls=tool_calls, evaluations=tool_evaluations)
        ),
    )
    progress = error_console() if json else console()
    if choice is not None:
        progress.print(choice.words, style="quiet", markup=False, highlight=False)
    if (expected := forecast(graphs, spec)) is not None:
        progress.print(expected.sentence, highlight=False, soft_wrap=True)
    for remark in (r for function in captured.functions for r in function.remarks):
        progress.print(remark, style="warn", markup=False, soft_wrap=True)
    for remark in export_remarks(captured.functions):
        progress.print(remark, style="warn", markup=False, soft_wrap=True)
    for function in captured.functions if spec.device == "simulator" else ():
        if warning := size_warning(function.subject.name, function.graph):
            progress.print(warning, highlight=False, soft_wrap=True)
    with (
        KernelStore(store) as opened,
        progress_view(progress, spec.candidates_per_task, quiet=quiet) as view,
        open_team(opened, spec, listen=view.show) as team_factory,
    ):
        engine = Engine(
            opened,
            spec,
            offline_team(),
            evaluators_for(spec, opened, fleet=fleet),
            RunSettings(
                listen=view.show, team_factory=team_factory, order=SecondsToSave(), chip=chip
            ),
        )
        with ending_in_order(engine.stop):
            report = engine.run(captured)
    if json:
        print_json(report)
    else:
        print_search_summary(console(), report)
    if report.ended.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not any(task.champion_id for task in report.tasks):
        raise typer.Exit(FAILED)


def _load(targets: Sequence[str], inputs: Sequence[str], recall: "Recall") -> "list[Subject]":
    from kernelwright.campaign import load_each, load_subjects

    if inputs and len(targets) > 1:
        raise UsageError(
            f"expected one function for the inputs {', '.join(inputs)}, found "
            f"{len(targets)} targets; search them one by one."
        )
    return load_each(targets, lambda target: load_subjects(target, inputs, recall=recall))
