"""`kernelwright bench-agents`: what models and prompts are worth, on forty tasks."""

from pathlib import Path
from typing import Annotated

import typer

from kernelwright.agents.budget import Caps
from kernelwright.campaign.agent_bench import Level
from kernelwright.campaign.agent_bench.spec import BenchSpec
from kernelwright.campaign.agent_bench.variant import Variant
from kernelwright.errors import InputError
from kernelwright.file_write import write_file
from kernelwright.service.console import console, error_console
from kernelwright.service.option import (
    BaseUrlOption,
    BudgetOption,
    DeviceOption,
    JsonOption,
    ModelOption,
    TokensOption,
    print_json,
)
from kernelwright.service.output_file import write_output

_DEFAULTS = BenchSpec()


def bench_agents(
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    ablation: Annotated[
        list[Variant] | None,
        typer.Option("--ablation", help="Also run the team without one thing; repeat."),
    ] = None,
    ablations: Annotated[
        bool, typer.Option("--ablations", help="Also run the team without each thing in turn.")
    ] = False,
    level: Annotated[
        list[Level] | None, typer.Option("--level", help="Only tasks of a level; repeat.")
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option("--task", metavar="NAME", help="Only some tasks, by name; repeat."),
    ] = None,
    candidates: Annotated[
        int, typer.Option(min=1, help="The most candidates to try for a task.")
    ] = _DEFAULTS.candidates,
    device: DeviceOption = None,
    budget: BudgetOption = None,
    tokens: TokensOption = None,
    task_budget: Annotated[
        float | None,
        typer.Option(min=0, help="The most dollars for one task.", show_default=False),
    ] = None,
    folder: Annotated[
        Path,
        typer.Option(help="Where stores and scores are kept; a run that was cut short goes on."),
    ] = Path("bench-agents"),
    replay: Annotated[
        Path | None,
        typer.Option(
            help="Hold recorded conversations again: no key, no cost.", show_default=False
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(help="Write this run's conversations for --replay.", show_default=False),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            help="Write the report, with the prompts' versions, as JSON.", show_default=False
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the table as an SVG.", show_default=False)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measure models and prompts: solved, faster than the offline agents, tokens, dollars, minutes.

    Forty tasks in four levels, from elementwise to several phases, are searched with the models and
    with the offline agents alone; ablations leave out tools, thinking, the archive, or all roles
    but the coder.
    """
    from kernelwright.campaign.agent_bench import bench_tasks
    from kernelwright.campaign.agent_bench.plot import bench_plot
    from kernelwright.campaign.agent_bench.recording import Recording
    from kernelwright.campaign.agent_bench.run import Yardstick
    from kernelwright.campaign.agent_bench.score import TaskScore
    from kernelwright.campaign.agent_bench.variant import ABLATIONS
    from kernelwright.campaign.event import ModelRemarked
    from kernelwright.campaign.execution.judge import judges_on
    from kernelwright.metal.device.registry import default_device, open_device
    from kernelwright.service.view.agent_bench import print_bench_table, score_line

    chosen = tuple(dict.fromkeys((*(ablation or ()), *(ABLATIONS if ablations else ()))))
    recorded = None if replay is None else Recording.read(replay)
    models = tuple(model or ()) or (("anthropic:recorded",) if recorded is not None else ())
    if not models and chosen:
        raise InputError("expected --model for an ablation, found none; name whom to ask.")
    team = (Variant.FULL,) if models else ()
    spec = BenchSpec(
        models=models,
        base_url=base_url,
        variants=tuple(dict.fromkeys((Variant.OFFLINE, *team, *chosen))),
        device=device or default_device(),
        candidates=candidates,
        caps=Caps(dollars=budget, tokens=tokens),
        task_caps=Caps(dollars=task_budget),
    )
    progress = error_console() if json else console()

    def listen(found: TaskScore | ModelRemarked) -> None:
        line = score_line(found) if isinstance(found, TaskScore) else found.sentence
        progress.print(line, markup=False, highlight=False, soft_wrap=True)

    yardstick = Yardstick(
        spec=spec,
        folder=folder,
        make_judge=judges_on(spec.device),
        device=open_device(spec.device).info,
        replayed=recorded,
        listen=listen,
    )
    report = yardstick.run(bench_tasks(tuple(task or ()), tuple(level or ())))
    if record is not None:
        yardstick.recording.write(record)
    if save is not None:
        write_file(save, report.model_dump_json(indent=1) + "\n")
    if plot is not None:
        write_output(plot, bench_plot(report))
    if json:
        print_json(report)
    else:
        print_bench_table(console(), report)
