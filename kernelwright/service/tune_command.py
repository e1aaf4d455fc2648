"""`kernelwright tune`: from a model to tokens per second with kernels in place."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.campaign import SearchSpec
from kernelwright.errors import InputError
from kernelwright.metal.device.base import DeviceName
from kernelwright.service.console import console, error_console
from kernelwright.service.interruption import ending_in_order
from kernelwright.service.option import (
    BaseUrlOption,
    DeviceOption,
    JobsOption,
    JsonOption,
    ModelOption,
    StoreOption,
    print_json,
    read_chip,
)
from kernelwright.service.target_argument import require_model

if TYPE_CHECKING:
    from kernelwright.campaign import SearchReport
    from kernelwright.runtime.models.choosing import Choice
    from kernelwright.runtime.models.target import Target
    from kernelwright.runtime.models.workload import Workload
    from kernelwright.service.view.tuning import TuneReport

_DEFAULTS = SearchSpec()


def tune(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|FILE",
            help="mlx-lm:REPO, a folder with weights, a config.json (random weights), "
            "file.py:model with example_inputs(), or a workload trace to search alone.",
        ),
    ],
    device: DeviceOption = None,
    prompt: Annotated[int, typer.Option(min=1, help="Tokens of the prompt.")] = 512,
    tokens: Annotated[
        int, typer.Option(min=1, help="Decode steps that follow a prompt in typical use.")
    ] = 256,
    batch: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Sequences at once; repeat for more.", show_default="1"),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(help="Write the workload trace to this file and stop.", show_default=False),
    ] = None,
    candidates: Annotated[
        int, typer.Option(min=0, help="The most candidates to try for a task; 0 installs only.")
    ] = _DEFAULTS.candidates_per_task,
    tasks: Annotated[
        int | None,
        typer.Option(min=1, help="The most tasks, most worth first.", show_default=False),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.1, help="Stop searching after so long.", show_default=False),
    ] = None,
    jobs: JobsOption = None,
    prompts: Annotated[
        int, typer.Option(min=0, help="Prompts whose greedy tokens are compared.")
    ] = 16,
    bitwise: Annotated[
        bool, typer.Option("--bitwise", help="Fail unless every logit is the same, bit for bit.")
    ] = False,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show no progress, only the result.")
    ] = False,
    chip: Annotated[
        str | None,
        typer.Option(
            "--chip",
            envvar="KERNELWRIGHT_CHIP",
            metavar="CHIP",
            callback=read_chip,
            help="Whose schedules the simulator tries.",
            show_default="the chip that the trace was recorded on",
        ),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Record what a model computes, search what pays, install it, and compare before and after."""
    require_model(target)
    from kernelwright.campaign.execution.job_choice import choose_jobs, this_host
    from kernelwright.metal.device.registry import default_device, open_device
    from kernelwright.runtime.models.choosing import choose
    from kernelwright.runtime.models.workload import check_replaceable
    from kernelwright.service.view.tuning import print_choices, print_tuning

    if record is not None:
        check_replaceable(record)
    name = device or default_device()
    found, workload = _workload(target, prompt, tokens, batch or [1])
    if record is not None:
        workload.save(record)
        console().print(
            f"wrote {record}: {len(workload.parts)} parts; search it with: "
            f"kernelwright tune {record}"
        )
        return
    choices = choose(workload, open_device(name) if found is not None else None)
    progress = error_console() if json else console()
    if not quiet:
        print_choices(progress, workload, choices)
    search = None
    if candidates:
        if jobs is None:
            graphs = (c.graph for c in choices if not c.refused)
            choice = choose_jobs(this_host(name), name, graphs)
            jobs = choice.jobs
            if not quiet:
                progress.print(choice.words, style="quiet", markup=False, highlight=False)
        spec = SearchSpec(
            name=f"tune {workload.model}"[:60],
            device=name,
            chip=(chip or workload.chip) if name == "simulator" else "",
            candidates_per_task=candidates,
            seconds=seconds,
            jobs=jobs,
            models=tuple(model or ()),
            base_url=base_url,
        )
        search = _search(choices[:tasks] if tasks else choices, spec, store, target, quiet=quiet)
    report = _proven(
        found, workload, name, store, search, tokens=tokens, prompts=prompts, bitwise=bitwise
    )
    if json:
        print_json(report)
    else:
        print_tuning(console(), report)
    same = report.sameness
    if same is not None and not (same.same_bits if bitwise else same.holds):
        raise typer.Exit(1)


def _workload(
    target: str, prompt: int, tokens: int, batches: Sequence[int]
) -> "tuple[Target | None, Workload]":
    """Record a model's workload, or read one that was recorded elsewhere."""
    from kernelwright.runtime.models.target import load_target
    from kernelwright.runtime.models.workload import (
        is_workload,
        load_workload,
        record_call,
        record_generation,
    )

    path = Path(target).expanduser()
    if is_workload(path):
        return None, load_workload(path)
    found = load_target(target)
    name, model, inputs = found.name, found.model, found.example_inputs
    try:
        if inputs is not None:
            return found, record_call(name, model, inputs)
        return found, record_generation(name, model, prompt=prompt, tokens=tokens, batches=batches)
    except (RuntimeError, ValueError) as e:
        raise InputError(
            f"{name} does not run on this machine: {str(e).partition(chr(10))[0]} Record it where "
            f"it runs (kernelwright tune {target} --record trace.json) and search the trace here, "
            "or give it weights that MLX multiplies here, such as float32."
        ) from e


def _search(
    choices: "Sequence[Choice]", spec: SearchSpec, store: str | None, file: str, *, quiet: bool
) -> "SearchReport | None":
    from kernelwright.campaign import Engine, offline_team
    from kernelwright.campaign.execution.run_settings import RunSettings
    from kernelwright.campaign.fleet.evaluators import evaluators_for
    from kernelwright.campaign.planning.given_graph import captured_graphs
    from kernelwright.campaign.team.model_team import open_team
    from kernelwright.search.priority import SecondsToSave
    from kernelwright.service.view.progress import progress_view
    from kernelwright.store import KernelStore

    wanted = {f"{i}:{c.name}"[:80]: c for i, c in enumerate(choices) if not c.refused}
    if not wanted:
        return None
    captured = captured_graphs({name: c.graph for name, c in wanted.items()}, file)
    most = max(choice.gain_us for choice in wanted.values()) or 1.0
    weights = {name: 1.0 + 9.0 * choice.gain_us / most for name, choice in wanted.items()}
    with (
        KernelStore(store) as opened,
        progress_view(console(), spec.candidates_per_task, quiet=quiet) as view,
        open_team(opened, spec, listen=view.show) as team_factory,
    ):
        engine = Engine(
            opened,
            spec,
            offline_team(),
            evaluators_for(spec, opened, fleet=False),
            RunSettings(listen=view.show, team_factory=team_factory, order=SecondsToSave(weights)),
        )
        with ending_in_order(engine.stop):
            return engine.run(captured)


def _proven(
    found: "Target | None",
    workload: "Workload",
    device: DeviceName,
    store: str | None,
    search: "SearchReport | None",
    *,
    tokens: int,
    prompts: int,
    bitwise: bool = False,
) -> "TuneReport":
    """Install what the store has, and compare the model with itself."""
    from kernelwright.metal.device.registry import open_device
    from kernelwright.runtime.models.accuracy import compare_accuracy, float32_once
    from kernelwright.runtime.models.install import optimize_model
    from kernelwright.runtime.models.proof import compare_tokens
    from kernelwright.runtime.models.speed import measure_speed
    from kernelwright.runtime.server import KernelServer
    from kernelwright.service.view.tuning import TuneReport

    speed, sameness, accuracy = None, None, None
    if found is not None and found.generates:
        server = KernelServer(store, device)
        # Unpacked weights multiply in another order than packed ones.
        server.unpacks_weights = not bitwise
        optimize_model(found.model, server)
        if open_device(device).info.measures_time:
            speed = measure_speed(found.model)
        if prompts:
            exact = float32_once(found.model)
            sameness = compare_tokens(found.model, prompts=prompts, tokens=tokens, exact_of=exact)
            if not sameness.same_bits:
                accuracy = compare_accuracy(found.model, exact_of=exact)
    elif found is not None and found.example_inputs is None:
        raise InputError("expected a model that generates, or example_inputs().")
    return TuneReport(
        model=workload.model, speed=speed, sameness=sameness, accuracy=accuracy, search=search
    )
