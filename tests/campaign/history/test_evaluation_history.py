"""What one campaign teaches the judges of the next."""

from pathlib import Path

import pytest

from kernelwright.campaign.execution.judge import (
    EvaluatorJudge,
    environment_of,
    judge_on,
    judges_on,
)
from kernelwright.campaign.history.evaluation_history import OwnMemory, StoredMemory
from kernelwright.campaign.judging.job_judge import EvaluatorJobJudge
from kernelwright.evaluator.attacks.corpus import bases, mutants, task_of
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.metal.kernel import Program
from kernelwright.store import KernelStore, NewTrial

TASK = task_of("rotate")
WRONG = next(m for m in mutants() if m.base == "rotate" and m.edit.expect[0] is Status.WRONG)
CONFIG = EvaluatorConfig(secret="memory", through=Stage.DETERMINISM)


def add_trial(store: KernelStore, judge: EvaluatorJudge, program: Program) -> None:
    environment = environment_of(judge.info)
    campaign = store.begin_campaign(name="c", spec="{}", environment=environment)
    store.add_trial(
        NewTrial(campaign_id=campaign.id, task=TASK, program=program, author="test", idea="")
    )


def test_a_case_that_caught_a_candidate_meets_those_of_the_next_campaign(tmp_path: Path) -> None:
    with KernelStore(str(tmp_path / "store.db")) as store:
        first = judge_on("simulator", CONFIG, StoredMemory(store))
        add_trial(store, first, WRONG.program)
        assert first.evaluate(TASK, WRONG.program).status is Status.WRONG
        first.close()
        assert len(StoredMemory(store).regressions(TASK)) == 1
        another = CONFIG.model_copy(update={"secret": "of the next campaign"})
        forgetful = judge_on("simulator", another)
        fewer = forgetful.evaluate(TASK, bases()["rotate"].program)
        forgetful.close()
        second = judge_on("simulator", another, StoredMemory(store))
        more = second.evaluate(TASK, bases()["rotate"].program)
        second.close()
    assert (more.is_correct, more.cases) == (True, fewer.cases + 1)


def test_candidates_are_counted_over_campaigns_and_once_each(tmp_path: Path) -> None:
    with KernelStore(str(tmp_path / "store.db")) as store:
        judge = judges_on("simulator", store)()
        for program in (WRONG.program, bases()["rotate"].program, WRONG.program):
            add_trial(store, judge, program)
        judge.close()
        assert StoredMemory(store).tried(TASK, WRONG.program) == 2


def test_without_a_store_every_new_program_counts() -> None:
    memory = OwnMemory()
    programs = (WRONG.program, bases()["rotate"].program, WRONG.program)
    assert [memory.tried(TASK, program) for program in programs] == [1, 2, 2]


def test_the_count_reaches_the_evaluator(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = judge_on("simulator", CONFIG)
    seen: list[int] = []
    assert isinstance(judge._judge, EvaluatorJobJudge)
    evaluate = judge._judge._evaluator.evaluate

    def watched(task: object, program: Program, *, tried: int) -> object:
        seen.append(tried)
        return evaluate(TASK, program, tried=tried)

    monkeypatch.setattr(judge._judge._evaluator, "evaluate", watched)
    for name in ("rotate", "softmax"):
        judge.evaluate(TASK, bases()[name].program)
    judge.close()
    assert seen == [1, 2]
