"""Whoever keeps builds for other secrets gets the verdicts of one who compiles anew each time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.evaluator.attacks.corpus import bases, mutants, task_of
from kernelwright.evaluator.attacks.honest import HonestKernel, written_kernels
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Evaluation, Stage
from kernelwright.evaluator.task import Task
from kernelwright.metal.kernel import Program

_SLOW = pytest.mark.slow
SECRETS = ("first", "second")


def _symbolic() -> HonestKernel:
    return next(k for k in written_kernels() if k.program.is_generic and "any_row" in k.name)


def _broken(class_: str) -> tuple[Task, Program]:
    mutant = next(m for m in mutants() if m.edit.class_ == class_)
    return mutant.task, mutant.program


def _judged(evaluator: Evaluator, task: Task, program: Program) -> list[Evaluation]:
    found = []
    for secret in SECRETS:
        evaluator.start_over(EvaluatorConfig(secret=secret, through=Stage.CONFIRMATION))
        evaluation = evaluator.evaluate(task, program)
        stages = tuple(s.model_copy(update={"duration_s": 0.0}) for s in evaluation.stages)
        found.append(evaluation.model_copy(update={"duration_s": 0.0, "stages": stages}))
    return found


def _libraries(folder: Path) -> dict[Path, int]:
    """Return what was compiled, and which file it is: another build would be another file."""
    return {path: path.stat().st_ino for path in folder.glob("libraries/*/*.so")}


@pytest.fixture
def keeping(tmp_path: Path) -> Iterator[Evaluator]:
    with Evaluator() as evaluator:
        evaluator.keep_builds(tmp_path)
        yield evaluator


@pytest.mark.parametrize(
    ("task", "program"),
    [
        pytest.param(task_of("softmax"), bases()["softmax"].program, id="honest", marks=_SLOW),
        pytest.param(_symbolic().task, _symbolic().program, id="honest at every shape"),
        pytest.param(*_broken("S2"), id="wrong", marks=_SLOW),
        pytest.param(*_broken("S17"), id="racing"),
        pytest.param(*_broken("S22"), id="cheating", marks=_SLOW),
        pytest.param(*_broken("M10"), id="asking for its build"),
    ],
)
def test_kept_builds_change_no_verdict(keeping: Evaluator, task: Task, program: Program) -> None:
    with Evaluator() as evaluator:
        wanted = _judged(evaluator, task, program)
    assert _judged(keeping, task, program) == wanted


def test_a_program_is_compiled_once_for_all_secrets_and_processes(
    keeping: Evaluator, tmp_path: Path
) -> None:
    task, program = task_of("softmax"), bases()["softmax"].program
    _judged(keeping, task, program)
    built = _libraries(tmp_path)
    assert built
    keeping.renew()
    _judged(keeping, task, program)
    assert _libraries(tmp_path) == built


def test_without_a_folder_nothing_that_was_compiled_stays() -> None:
    task, program = task_of("softmax"), bases()["softmax"].program
    with Evaluator(config=EvaluatorConfig(secret="first")) as evaluator:
        evaluator.evaluate(task, program)
        worker = evaluator._workers.trial(program).worker
        assert (worker._scratch / "cache" / "libraries").is_dir()
        assert not _libraries(worker._scratch / "cache")
