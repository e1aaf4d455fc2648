"""What a night would do: its functions, its limits and what it may cost."""

from collections.abc import Mapping

from rich.text import Text

from kernelwright.campaign.event import FunctionRefused
from kernelwright.campaign.planning.capturing import Captured
from kernelwright.campaign.planning.forecast import Forecast, forecast
from kernelwright.campaign.planning.wanted_calls import capture_campaign, joined
from kernelwright.campaign.report.wording import in_seconds
from kernelwright.campaign.spec.campaign_spec import WANTED, CampaignFunction, CampaignSpec
from kernelwright.metal.diagnostic import Record
from kernelwright.plan import partition
from kernelwright.plural import counted
from kernelwright.service.console import console
from kernelwright.service.view.figure import short
from kernelwright.store import KernelStore


class CheckedSearch(Record):
    """What one device's search of a night would do."""

    name: str
    device: str
    functions: tuple[str, ...]
    refused: tuple[FunctionRefused, ...]
    tasks: int
    most_candidates: int
    forecast: Forecast | None
    """None where no live model is asked."""


def captured_of(spec: CampaignSpec, url: str | None) -> Mapping[CampaignFunction, Captured]:
    """Capture the functions of one device's search; wanted calls come from the store."""
    if not any(f.target.startswith(WANTED) for f in spec.functions):
        return capture_campaign(spec, None)
    with KernelStore(url, must_exist=True) as opened:
        return capture_campaign(spec, opened)


def describe(spec: CampaignSpec, captured: Mapping[CampaignFunction, Captured]) -> CheckedSearch:
    """Print what one device's search would do, and return it."""
    printed = console()
    everything = joined(tuple(captured.values()))
    tasks = sum(len(partition(f.graph)) for f in everything.functions)
    printed.print(
        Text.assemble(
            (spec.name, "task"),
            f" on {spec.device}: {counted(len(everything.functions), 'function')}, about "
            f"{counted(tasks, 'task')}, at most "
            f"{counted(tasks * spec.candidates_per_task, 'candidate')}",
        )
    )
    for function, found in captured.items():
        target = _shortened(function.target)
        if found.functions:
            names = ", ".join(f.subject.name for f in found.functions)
            printed.print(f"  {target}: {names}, priority {function.priority:g}", markup=False)
        for refused in found.refused:
            printed.print(
                f"  {target}: refused: {refused.reason}",
                style="warn",
                markup=False,
            )
    printed.print(Text.assemble(("ends   ", "label"), _limits(spec)))
    expected = forecast((f.graph for f in everything.functions), spec)
    cost = "no live model is asked, so $0.00" if expected is None else expected.sentence
    printed.print(Text.assemble(("costs  ", "label"), cost))
    if (folder := spec.export_folder) is not None:
        printed.print(
            Text.assemble(
                ("exports ", "label"),
                f"champions that gain at least {spec.minimum_effect:.0%}, to {folder}",
            )
        )
    return CheckedSearch(
        name=spec.name,
        device=spec.device,
        functions=tuple(f.subject.name for f in everything.functions),
        refused=everything.refused,
        tasks=tasks,
        most_candidates=tasks * spec.candidates_per_task,
        forecast=expected,
    )


def _shortened(target: str) -> str:
    if not target.startswith(WANTED):
        return target
    return WANTED + short(target.removeprefix(WANTED))


def _limits(spec: CampaignSpec) -> str:
    limits = [f"after {in_seconds(spec.seconds)}"] if spec.seconds else []
    limits += [f"after {counted(spec.evaluations, 'evaluation')}"] if spec.evaluations else []
    return ", ".join(
        [*limits, f"a task after {counted(spec.patience, 'candidate')} without a gain"]
    )
