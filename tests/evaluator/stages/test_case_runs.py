"""The host judges a result while the device is at the next case."""

from dataclasses import dataclass, field
from threading import Event
from typing import cast

import pytest

from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.stages.case_runs import run_cases
from kernelwright.evaluator.stages.trial import Failure, Trial
from kernelwright.metal.device.executable import RunResult

PATIENCE_S = 20.0


@dataclass
class ScriptedTrial:
    """Says when it runs a case; fails at one."""

    fails_at: int = -1
    ran: list[Event] = field(default_factory=lambda: [Event() for _ in range(3)])

    def run(self, reference: object, *, seed: int) -> int:
        """Run the case."""
        self.ran[seed].set()
        if seed == self.fails_at:
            raise Failure(Status.CRASHED, "ran into it", lost_worker=True)
        return seed


def run(trial: ScriptedTrial, judge: object) -> None:
    cases = cast("list[Reference]", ["a", "b", "c"])
    run_cases(cast("Trial", trial), cases, judge)  # type: ignore[arg-type]


def test_a_case_is_judged_while_the_next_one_runs() -> None:
    trial, judged = ScriptedTrial(), list[int]()

    def judge(seed: int, reference: Reference, result: RunResult) -> None:
        assert seed == 2 or trial.ran[seed + 1].wait(PATIENCE_S), "the next one waits"
        judged.append(seed)

    run(trial, judge)
    assert judged == [0, 1, 2]


def test_the_first_wrong_case_is_told_and_none_is_judged_after_it() -> None:
    trial, judged = ScriptedTrial(), list[int]()

    def judge(seed: int, reference: Reference, result: RunResult) -> None:
        judged.append(seed)
        raise Failure(Status.WRONG, f"case {seed}")

    with pytest.raises(Failure) as caught:
        run(trial, judge)
    assert caught.value.summary == "case 0"
    assert judged == [0]
    assert not trial.ran[2].is_set()


def test_a_wrong_case_comes_before_the_crash_of_the_next_one_whose_loss_is_kept() -> None:
    def judge(seed: int, reference: Reference, result: RunResult) -> None:
        raise Failure(Status.WRONG, f"case {seed}")

    with pytest.raises(Failure) as caught:
        run(ScriptedTrial(fails_at=1), judge)
    assert (caught.value.status, caught.value.lost_worker) == (Status.WRONG, True)


def test_a_crash_after_right_cases_is_the_crash() -> None:
    def judge(seed: int, reference: Reference, result: RunResult) -> None:
        pass

    with pytest.raises(Failure) as caught:
        run(ScriptedTrial(fails_at=2), judge)
    assert caught.value.status is Status.CRASHED
