"""A search begins with what earlier ones tuned for the same ops, inputs and chip."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx
import pytest

from kernelwright.campaign import Engine, SearchSpec, Subject, capture_subjects, offline_team
from kernelwright.evaluator import Evaluation, Stage, Status, Task
from kernelwright.evaluator.evaluation import StageResult
from kernelwright.metal import Program
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.store import KernelStore

X, WEIGHT = mx.zeros((64, 512)), mx.zeros((512,))


@dataclass
class WideJudge:
    """Finds everything right, and the widest threadgroup quickest."""

    chip: str = "one"
    asked: list[str] = field(default_factory=list)

    @property
    def info(self) -> DeviceInfo:
        return DeviceInfo(name="simulator", chip=self.chip, runtime="1", measures_time=False)

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        self.asked.append(program.id)
        return self._verdict(task, program, ())

    def confirm(self, task: Task, program: Program) -> Evaluation:
        gates = (Stage.HIDDEN, Stage.CONFIRMATION)
        stages = tuple(StageResult(stage=stage, passed=True, summary="") for stage in gates)
        return self._verdict(task, program, stages)

    def _verdict(self, task: Task, program: Program, stages: tuple[StageResult, ...]) -> Evaluation:
        threads = int(program.kernels[0].threadgroup[0])
        return Evaluation(
            task=task.fingerprint,
            program=program.id,
            device=self.info,
            status=Status.CORRECT,
            summary="right",
            stages=stages,
            predicted_us=1000 / threads,
        )

    def close(self) -> None:
        """Hold nothing."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KernelStore]:
    with KernelStore(str(tmp_path / "kernels.db")) as opened:
        yield opened


def norm(epsilon: float) -> Callable[[mx.array, mx.array], mx.array]:
    return lambda x, weight: mx.fast.rms_norm(x, weight, epsilon)


def search(
    store: KernelStore, epsilon: float, judge: WideJudge, x: mx.array = X
) -> tuple[list[str], str]:
    """Search once; return the schedules in the order of proposal, and the champion's."""
    subject = Subject(f"norm of {epsilon}", norm(epsilon), (x, WEIGHT), {}, "here.py")
    spec = SearchSpec(candidates_per_task=20, patience=20, jobs=1)
    report = Engine(store, spec, offline_team(), lambda: judge).run(capture_subjects([subject]))
    tried = [store.show(e.candidate_id) for e in store.history(campaign=report.campaign_id)][::-1]
    champion = next(d for d in tried if d.candidate.id == report.tasks[0].champion_id)
    return [d.candidate.schedule for d in tried], champion.candidate.schedule


def test_a_search_of_a_like_task_begins_with_the_schedule_that_won(store: KernelStore) -> None:
    first, won = search(store, 1e-5, WideJudge())
    assert first[0] != won
    second, _ = search(store, 1e-3, WideJudge())
    assert second[0] == won


@pytest.mark.parametrize(
    ("judge", "x"), [(WideJudge(chip="two"), X), (WideJudge(), mx.zeros((32, 512)))]
)
def test_another_chip_and_another_shape_begin_anew(
    store: KernelStore, judge: WideJudge, x: mx.array
) -> None:
    first, won = search(store, 1e-5, WideJudge())
    second, _ = search(store, 1e-3, judge, x)
    assert second[0] == first[0] != won


def test_the_same_search_again_proposes_what_it_did(store: KernelStore) -> None:
    search(store, 1e-5, WideJudge())
    first, _ = search(store, 1e-3, WideJudge())
    judge = WideJudge()
    second, _ = search(store, 1e-3, judge)
    assert second == first
    assert judge.asked == []
