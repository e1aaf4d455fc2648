"""`kernelwright plan`: how a function would be cut into kernels, before anything is compiled."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.errors import InputError, UsageError
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, DeviceInfo, DeviceName
from kernelwright.service.console import console, error_console, print_refused
from kernelwright.service.option import (
    ChipOption,
    JsonOption,
    StoreOption,
    ThreadgroupMemoryOption,
    print_json,
)
from kernelwright.service.output_file import write_output
from kernelwright.service.target_argument import require_target
from kernelwright.store import has_store

if TYPE_CHECKING:
    from kernelwright.campaign.planning.plan_summary import KnownGains


def plan(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py[:function]",
            help="What to plan; catalog:NAME, or catalog:NAME:f16, is a ready task.",
            show_default=False,
        ),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option("-i", "--input", help="An input's type, such as 'bf16[2048,4096]'; repeat."),
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option("--svg", help="Draw the plan into this file.", show_default=False),
    ] = None,
    device: Annotated[
        DeviceName, typer.Option(help="Whose limits the kernels keep.")
    ] = "simulator",
    threadgroup_memory: ThreadgroupMemoryOption = METAL_THREADGROUP_BYTES,
    chip: ChipOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show a function's graph, its regions, and what they gain; nothing is compiled."""
    require_target(target)
    from kernelwright.campaign import capture_subjects, load_subjects, offline_team
    from kernelwright.campaign.planning.capturing import plan_function
    from kernelwright.campaign.planning.launch_graph import Flow
    from kernelwright.campaign.planning.plan_summary import outline
    from kernelwright.metal.device.registry import open_device
    from kernelwright.service.export_outlook import export_remarks
    from kernelwright.service.searched_input import recall_from
    from kernelwright.service.view.plan import print_plan
    from kernelwright.service.view.plan_svg import draw_plan

    if svg is not None and svg.suffix.lower() != ".svg":
        raise UsageError(f"expected a name that ends in .svg for the drawing, found {str(svg)!r}.")
    subjects = load_subjects(target, inputs or [], recall=recall_from(store))
    captured = capture_subjects(subjects)
    if svg is not None and len(captured.functions) > 1:
        names = ", ".join(f.subject.name for f in captured.functions)
        raise InputError(
            f"expected one function for {svg}, found {names}; name one, as "
            f"{captured.functions[0].subject.place}."
        )
    info, planner = open_device(device, threadgroup_memory).info, offline_team().planner
    plans = [plan_function(function, planner, info) for function in captured.functions]
    tasks = {planned.task.fingerprint for found in plans for planned in found.tasks}
    known = _known(store, tasks, info, chip)
    outlines = [outline(planned, known, chip) for planned in plans]
    if svg is not None:
        drawing = draw_plan(Flow(plans[0].graph, plans[0].regions), outlines[0])
        write_output(svg, drawing)
    if json:
        print_json(outlines)
        return
    for outlined in outlines:
        print_plan(console(), outlined)
    for remark in (r for function in captured.functions for r in function.remarks):
        error_console().print(remark, style="warn", markup=False, soft_wrap=True)
    for remark in export_remarks(captured.functions):
        error_console().print(remark, style="warn", markup=False, soft_wrap=True)
    print_refused(captured.refused)
    if svg is not None:
        console().print(f"\ndrawn   {svg}", style="quiet")


def _known(url: str | None, tasks: set[str], info: DeviceInfo, chip: str | None) -> "KnownGains":
    """Return what the store's champions gain; nothing where there is no store yet."""
    from kernelwright.campaign.planning.plan_summary import KnownGains
    from kernelwright.campaign.report.known_champions import known_gains
    from kernelwright.store import KernelStore

    if not has_store(url):
        return KnownGains()
    with KernelStore(url, must_exist=True) as opened:
        return known_gains(opened, tasks, info, chip)
