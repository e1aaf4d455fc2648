"""`kernelwright bench`: what a function takes on this machine, by MLX's ways and with kernels."""

from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.errors import InputError
from kernelwright.evaluator.gain import Gain
from kernelwright.service.console import console, error_console, print_refused
from kernelwright.service.option import (
    ChipOption,
    DeviceOption,
    JsonOption,
    StoreOption,
    print_json,
)
from kernelwright.service.target_argument import require_target
from kernelwright.store import has_store

if TYPE_CHECKING:
    from kernelwright.campaign import Subject
    from kernelwright.campaign.planning.capturing import CapturedFunction


def bench(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py[:function]",
            help="What to time, as for search; catalog:NAME, or catalog:NAME:f16, too.",
            show_default=False,
        ),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option("-i", "--input", help="An input's type, such as 'bf16[2048,4096]'; repeat."),
    ] = None,
    device: DeviceOption = None,
    rounds: Annotated[
        int, typer.Option(min=5, help="Turns that eager, compile, fast and ours take.")
    ] = 15,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="About how long one function is timed.")
    ] = 20.0,
    chip: ChipOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Time a function on this machine: eager, mx.compile, mx.fast and with the store's kernels.

    They take turns; each time is a median with its 95 % interval. Without a GPU, MLX is timed on
    the CPU, and what kernels should gain on a GPU is predicted and shown apart.
    """
    require_target(target)
    from kernelwright.campaign import capture_subjects, load_subjects
    from kernelwright.metal.device.registry import default_device, open_device
    from kernelwright.runtime.benchmark import BenchmarkCall, benchmark
    from kernelwright.service.searched_input import recall_from
    from kernelwright.service.view.benchmark import FunctionBenchmark, print_benchmark

    subjects = load_subjects(target, inputs or [], recall=recall_from(store))
    captured = capture_subjects(subjects)
    chosen = device or default_device()
    if (info := open_device(chosen).info).name != "simulator" and not info.measures_time:
        raise InputError(f"the device {chosen} measures no time; leave --device out.")
    reports = []
    for function in captured.functions:
        subject = function.subject
        measured = benchmark(
            BenchmarkCall(subject.function, subject.inputs, subject.keywords),
            store=store,
            device=chosen,
            rounds=rounds,
            seconds=seconds,
        ).model_copy(update={"function": subject.name})
        predicted = None if measured.is_gpu else _predicted(function, store, chip)
        is_known = measured.gain is not None or predicted is not None
        search = "" if is_known else _search_command(_place(subject, target), inputs or [])
        reports.append(FunctionBenchmark(measured=measured, predicted=predicted, search=search))
        if not json:
            print_benchmark(console(), reports[-1])
    if json:
        print_json(reports)
    remarks = [r for function in captured.functions for r in function.remarks]
    # They are of what kernels keep: MLX's own times are of the function as it is.
    for remark in remarks if any(not report.search for report in reports) else ():
        error_console().print(remark, style="warn", markup=False, soft_wrap=True)
    print_refused(captured.refused)


def _place(subject: "Subject", target: str) -> str:
    from kernelwright.campaign.spec.target_module import CATALOG

    return target if target.startswith(CATALOG) else subject.place


def _search_command(place: str, inputs: Sequence[str]) -> str:
    given = [word for text in inputs for word in ("-i", quote(text))]
    return " ".join(["kernelwright search", quote(place), *given])


def _predicted(function: "CapturedFunction", url: str | None, chip: str | None) -> Gain | None:
    """Return what the simulator's champions should gain; None where the store has none."""
    from kernelwright.campaign import offline_team
    from kernelwright.campaign.planning.capturing import plan_function
    from kernelwright.campaign.planning.plan_summary import outline
    from kernelwright.campaign.report.known_champions import known_gains
    from kernelwright.metal.device.registry import open_device
    from kernelwright.store import KernelStore

    if not has_store(url):
        return None
    info = open_device("simulator").info
    planned = plan_function(function, offline_team().planner, info)
    with KernelStore(url, must_exist=True) as opened:
        known = known_gains(opened, {t.task.fingerprint for t in planned.tasks}, info, chip)
    return outline(planned, known, chip).gain
