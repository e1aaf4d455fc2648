"""What is proposed next depends on the order of proposal, never on how long a verdict took."""

import random

import mlx.core as mx
import pytest

from kernelwright.agents.offline import OfflineCoder
from kernelwright.agents.protocols import Attempt
from kernelwright.campaign import Subject, capture_subjects
from kernelwright.evaluator import Evaluation, Status, Task
from kernelwright.search.spec import SearchSpec
from kernelwright.search.strategy import Done, RepairThenWrite, Team
from kernelwright.search.task_search import TaskSearch
from tests.campaign.scripted import INFO, ScriptedRepairer, WholePlanner


def run(task: Task, *, lag: int, seed: int) -> tuple[list[str], int]:
    """Search with verdicts in a random order; return the schedules as proposed, and the width."""
    draw = random.Random(seed)
    search = TaskSearch(task, "softmax", lag=lag)
    team = Team(planner=WholePlanner(), coder=OfflineCoder(), repairer=ScriptedRepairer())
    strategy = RepairThenWrite(team, INFO, SearchSpec(candidates_per_task=24, patience=24))
    waiting: list[str] = []
    schedules: list[str] = []
    widest = 0
    while True:
        while search.is_ready:
            search.advance()
            batch = strategy.next(search)
            if isinstance(batch, Done):
                if not search.in_flight:
                    return schedules, widest
                search.is_draining = True
                continue
            search.begin(batch)
            schedules += [proposal.schedule for proposal in batch]
            waiting += [proposal.program.id for proposal in batch]
        widest = max(widest, len(waiting))
        program = waiting.pop(draw.randrange(len(waiting)))
        verdict = Evaluation(
            task=task.fingerprint,
            program=program,
            device=INFO,
            status=Status.CORRECT,
            summary="",
            predicted_us=float(int(program[:4], 16)),
        )
        search.judged(program, verdict, reused=False)


@pytest.fixture(scope="module")
def task() -> Task:
    subject = Subject("softmax", lambda x: mx.softmax(x, axis=-1), (mx.zeros((64, 2048)),), {}, "")
    return Task(capture_subjects([subject]).functions[0].graph, "softmax")


@pytest.mark.parametrize("lag", [2, 16])
def test_the_order_of_verdicts_changes_nothing(task: Task, lag: int) -> None:
    first, width = run(task, lag=lag, seed=1)
    assert len(first) == len(set(first)) > 20
    assert run(task, lag=lag, seed=2)[0] == first
    assert run(task, lag=lag, seed=3)[0] == first
    assert width >= max(lag, 1)


def test_what_is_in_flight_is_not_proposed_again_and_counts_as_tried(task: Task) -> None:
    without, _ = run(task, lag=0, seed=1)
    with_lag, _ = run(task, lag=8, seed=1)
    assert len(with_lag) == len(without)


def test_a_ranking_is_made_once_for_each_verdict(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    rank = TaskSearch._rank

    def note(self: TaskSearch) -> list[Attempt]:
        made.append(self.count)
        return rank(self)

    monkeypatch.setattr(TaskSearch, "_rank", note)
    search = TaskSearch(task, "softmax")
    proposals = OfflineCoder().write(task, INFO, [], count=3)
    for proposal in proposals:
        search.begin([proposal])
        verdict = Evaluation(
            task=task.fingerprint,
            program=proposal.program.id,
            device=INFO,
            status=Status.CORRECT,
            summary="",
            predicted_us=1.0,
        )
        search.judged(proposal.program.id, verdict, reused=False)
        for _ in range(3):
            search.next_to_confirm()
    assert made == [1, 2, 3]
