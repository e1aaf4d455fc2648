"""The suite's numbers come from the product's own engine and its confirmed champions."""

import mlx.core as mx
import pytest

from benchmarks.suite import search as suite
from benchmarks.suite.workload import Workload
from kernelwright.evaluator import Evaluation, Task
from kernelwright.evaluator.evaluation import Stage, StageResult, Status
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import schedules
from kernelwright.metal.schedule import render
from tests.campaign.scripted import INFO

SOFTMAX = Workload("softmax", "softmax", lambda x: mx.softmax(x, axis=-1), ("T[8,64]",), "none")


class QuickJudge:
    """Finds everything right, the later the faster; the fastest does not survive confirmation."""

    info = INFO
    judged: list[str]

    def __init__(self) -> None:
        self.judged = []

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        self.judged.append(program.id)
        return self._verdict(task, program)

    def confirm(self, task: Task, program: Program) -> Evaluation:
        holds = program.id != self.judged[-1]
        passed = StageResult(stage=Stage.CONFIRMATION, passed=holds, summary="")
        status = Status.CORRECT if holds else Status.UNPROVEN
        return self._verdict(task, program).model_copy(
            update={"stages": (passed,), "status": status}
        )

    def close(self) -> None:
        pass

    def _verdict(self, task: Task, program: Program) -> Evaluation:
        return Evaluation(
            task=task.fingerprint,
            program=program.id,
            device=INFO,
            status=Status.CORRECT,
            summary="right",
            predicted_us=9.0 - self.judged.index(program.id),
        )


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> suite.Searched:
    judge = QuickJudge()
    monkeypatch.setattr(suite, "judges_on", lambda device, store: lambda: judge)
    return suite.search(SOFTMAX, Dtype.FLOAT16, INFO, 3)


def test_a_workload_takes_what_the_engine_has_confirmed(searched: suite.Searched) -> None:
    chosen = {row.predicted_us: row.is_chosen for row in searched.schedules}
    assert chosen == {9.0: False, 8.0: True, 7.0: False}, "whatever the order of the verdicts"
    (region,) = searched.champions
    assert region.extract().output_types == searched.graph.output_types


def test_results_name_schedules_so_that_they_can_be_built_again(searched: suite.Searched) -> None:
    (region,) = searched.champions
    named = [
        render(schedule)
        for row in searched.schedules
        for schedule in schedules(region.extract(), INFO)
        if suite.is_named(schedule, row.schedule)
    ]
    assert len(named) == len(set(named)) == 3
