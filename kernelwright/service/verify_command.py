"""`kernelwright verify`: anybody's kernel through the whole evaluator, stage by stage."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.errors import InputError, UsageError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Stage
from kernelwright.evaluator.submission import LaunchText, read_body, read_program, read_text
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, DeviceName
from kernelwright.metal.kernel import Program
from kernelwright.service.console import console, print_refused
from kernelwright.service.exit_code import FAILED
from kernelwright.service.option import (
    JsonOption,
    StoreOption,
    ThreadgroupMemoryOption,
    print_json,
)
from kernelwright.service.target_argument import require_target
from kernelwright.service.view.verdict import print_verdict

if TYPE_CHECKING:
    from kernelwright.evaluator.inputs.caught_case import CaughtCase

_TemplateOption = Annotated[
    str, typer.Option(help="A Metal body's template arguments: 'T=f16,N=4'.", show_default=False)
]
_HeaderOption = Annotated[
    Path | None,
    typer.Option(help="A file with what stands before a Metal body.", show_default=False),
]


def verify(
    program: Annotated[
        str,
        typer.Argument(
            metavar="FILE_OR_ID",
            help="A program's JSON, a kernel's Metal body (.metal), or an id from the store.",
            show_default=False,
        ),
    ],
    task: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py[:function]",
            help="What it must compute.",
            show_default=False,
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("-i", "--input", help="An input's type, such as 'bf16[2048,4096]'; repeat."),
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option("--grid", "-g", help="Threads of a Metal body: 4096 or 32,64."),
    ] = None,
    threadgroup: Annotated[
        str, typer.Option("--threadgroup", "-t", help="Threads of a threadgroup.")
    ] = "256",
    names: Annotated[
        str | None,
        typer.Option(help="Names in a Metal body: 'x,w->out'.", show_default=False),
    ] = None,
    template: _TemplateOption = "",
    header: _HeaderOption = None,
    device: Annotated[DeviceName, typer.Option(help="Where it runs.")] = "simulator",
    threadgroup_memory: ThreadgroupMemoryOption = METAL_THREADGROUP_BYTES,
    through: Annotated[
        Stage, typer.Option(help="The last stage to run.", show_choices=False)
    ] = Stage.CONFIRMATION,
    case: Annotated[
        str | None,
        typer.Option(help="Run only this case, which a verdict has named.", show_default=False),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Judge a kernel: static rules, sanitizer, correctness, determinism, speed, hidden gate.

    With --case only the named case runs, and what went in and came out at the failing place is
    printed. The exit status is 0 when it passes and 1 when it does not.
    """
    if task is not None:
        require_target(task)
    path = Path(program)
    if path.suffix in (".json", ".metal") or path.exists():
        chosen = _task_of(task, inputs or [], store)
        launch = _launch(path, grid, threadgroup, names, template, header)
        candidate = read_program(path) if launch is None else read_body(path, chosen.graph, launch)
    else:
        candidate, known = _from_store(program, store)
        chosen = _task_of(task, inputs or [], store) if task else known
    from kernelwright.evaluator.evaluate import Evaluator
    from kernelwright.evaluator.replay import keep_case, replay

    config = EvaluatorConfig(through=through, threadgroup_bytes=threadgroup_memory)
    if case is not None:
        kept = _kept_case(case, chosen, store)
        again = replay(chosen, candidate, kept, device=device, config=config)
        console().print("\n".join(again.lines), markup=False, highlight=False)
        raise typer.Exit(0 if again.holds else FAILED)
    with Evaluator(device, config) as evaluator:
        evaluation = evaluator.evaluate(chosen, candidate)
        for kept in evaluator.regressions:
            keep_case(kept)
    if json:
        print_json(evaluation)
    else:
        print_verdict(console(), evaluation, chosen.name)
        if evaluation.case:
            console().print(f"See it again: add --case {evaluation.case}", markup=False)
    if not evaluation.is_correct:
        raise typer.Exit(FAILED)


def _kept_case(case_id: str, task: Task, url: str | None) -> "CaughtCase":
    """Return a case from this machine's own, or from the store."""
    from kernelwright.evaluator.inputs.caught_case import CaughtCase
    from kernelwright.evaluator.replay import find_case
    from kernelwright.store import KernelStore

    try:
        return find_case(case_id)
    except InputError:
        with KernelStore(url) as opened:
            for body in opened.dialogue.regression_cases(task.fingerprint):
                found = CaughtCase.model_validate_json(body)
                if found.id == case_id:
                    return found
        raise


def _task_of(target: str | None, inputs: list[str], store: str | None) -> Task:
    from kernelwright.campaign import capture_subjects, load_subjects
    from kernelwright.service.searched_input import recall_from

    if target is None:
        raise UsageError("a file does not say what it must compute; add --task FILE.py:function.")
    subjects = load_subjects(target, inputs, recall=recall_from(store))
    captured = capture_subjects(subjects)
    functions = captured.functions
    if len(functions) != 1:
        found = ", ".join(f.subject.name for f in functions)
        raise InputError(f"expected one function in {target}, found {found}; name one after ':'.")
    print_refused(captured.refused)
    return Task(functions[0].graph, functions[0].subject.name)


def _launch(
    path: Path,
    grid: str | None,
    threadgroup: str,
    names: str | None,
    template: str,
    header: Path | None,
) -> LaunchText | None:
    """Return how a Metal body is launched; a program says that itself."""
    if path.suffix != ".metal":
        return None
    if grid is None:
        raise UsageError(f"{path} holds a kernel's body only; say how to launch it with --grid.")
    takes, _, gives = (names or "").partition("->")
    return LaunchText(
        grid=grid,
        threadgroup=threadgroup,
        inputs=_listed(takes),
        outputs=_listed(gives),
        template=template,
        header=read_text(header) if header else "",
    )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _from_store(prefix: str, url: str | None) -> tuple[Program, Task]:
    from kernelwright.store import KernelStore

    with KernelStore(url, must_exist=True) as opened:
        detail = opened.show(prefix)
    return detail.program, detail.reference
