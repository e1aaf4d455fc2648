"""A case that has caught a program can be seen again, by itself."""

from pathlib import Path

import pytest

from kernelwright.errors import InputError
from kernelwright.evaluator.attacks.corpus import bases, mutants, task_of
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.replay import find_case, keep_case, replay

CONFIG = EvaluatorConfig(secret="replay", through=Stage.DETERMINISM)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.evaluator.replay.shared_cache", lambda: tmp_path)


def test_a_failure_names_a_case_that_fails_again_under_another_secret(cache: None) -> None:
    mutant = next(m for m in mutants() if m.name == "swiglu: gate ignored")
    with Evaluator("simulator", CONFIG) as evaluator:
        found = evaluator.evaluate(mutant.task, mutant.program)
        (kept,) = evaluator.regressions
    assert found.status is Status.WRONG
    assert found.case == kept.id
    keep_case(kept)
    again = replay(mutant.task, mutant.program, find_case(found.case))
    assert not again.holds
    assert again.lines[0].startswith("wrong: output 0")
    assert any(line.startswith("output 0 at [") for line in again.lines)
    assert any(line.startswith("input ") for line in again.lines)
    assert replay(task_of("swiglu"), bases()["swiglu"].program, kept).holds


def test_a_case_of_another_task_is_refused(cache: None) -> None:
    mutant = next(m for m in mutants() if m.name == "swiglu: gate ignored")
    with Evaluator("simulator", CONFIG) as evaluator:
        evaluator.evaluate(mutant.task, mutant.program)
        (kept,) = evaluator.regressions
    with pytest.raises(InputError, match="expected a case of task"):
        replay(task_of("softmax"), bases()["softmax"].program, kept)


@pytest.mark.parametrize("case_id", ["0123456789", "../../etc/passwd"])
def test_an_unknown_case_is_refused_in_one_sentence(cache: None, case_id: str) -> None:
    with pytest.raises(InputError, match="expected the id of a case"):
        find_case(case_id)
