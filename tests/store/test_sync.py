"""Stores share champions that were verified, chip by chip, and nothing twice."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from kernelwright.evaluator import Status, Task
from kernelwright.store import Campaign, Environment, KernelStore, NewEvent, Rank
from tests.store.conftest import ENVIRONMENT, Evaluate, new_trial, program_of, task_of, verdict

CHIP = ENVIRONMENT.device.chip


@pytest.fixture
def other(tmp_path: Path) -> Iterator[KernelStore]:
    with KernelStore(str(tmp_path / "team.db")) as opened:
        yield opened


def _crown(store: KernelStore, body: str, cost: float, environment: Environment) -> str:
    task, program = task_of((4, 8)), program_of(body)
    run = store.begin_campaign(name=f"night {body}", spec="{}", environment=environment)
    trial = store.add_trial(new_trial(run, task, program))
    assert store.lease(trial.id)
    found = verdict(task, program, samples=True).model_copy(update={"device": environment.device})
    store.promote(store.record(trial.id, found, rank=Rank(kind="predicted", value=cost)))
    return trial.candidate_id


def test_a_champion_goes_over_whole_and_once(
    store: KernelStore, other: KernelStore, evaluate: Evaluate, task: Task
) -> None:
    won = evaluate("a", cost=3.0)
    evaluate("b", cost=5.0)
    assert store.push(other).copied == (won,)
    assert store.push(other).copied == ()
    assert store.push(other).behind == 1
    here, there = store.show(won), other.show(won)
    assert (there.program, there.graph_json) == (here.program, here.graph_json)
    assert there.evaluations == here.evaluations
    (champion,) = other.best(op="softmax")
    assert (champion.candidate_id, champion.chip) == (won, CHIP)
    assert other.known(
        task.fingerprint, here.program.id, ENVIRONMENT,
        evaluator_version=here.evaluations[0].evaluation.evaluator_version,
    )  # fmt: skip


def test_the_better_one_stays_on_both_sides(store: KernelStore, other: KernelStore) -> None:
    slow, fast = _crown(store, "a", 9.0, ENVIRONMENT), _crown(other, "b", 2.0, ENVIRONMENT)
    assert store.push(other).copied == ()
    assert other.push(store).copied == (fast,)
    assert [c.candidate_id for c in store.best()] == [fast]
    assert slow not in [c.candidate_id for c in other.best()]


def test_chips_do_not_compete(store: KernelStore, other: KernelStore) -> None:
    device = ENVIRONMENT.device.model_copy(update={"chip": "another chip"})
    elsewhere = ENVIRONMENT.model_copy(update={"device": device})
    mine, theirs = _crown(store, "a", 9.0, ENVIRONMENT), _crown(other, "b", 2.0, elsewhere)
    assert other.push(store, chip=CHIP).copied == ()
    assert other.push(store, chip="another chip").copied == (theirs,)
    assert {(c.candidate_id, c.chip) for c in store.best()} == {
        (mine, CHIP),
        (theirs, "another chip"),
    }


def test_what_was_revoked_goes_nowhere(
    store: KernelStore, other: KernelStore, evaluate: Evaluate
) -> None:
    evaluate("a", cost=3.0)
    (champion,) = store.best()
    store.settle(champion, "revoked")
    done = store.push(other)
    assert (done.copied, done.unproven) == ((), 1)
    assert other.best() == ()


def test_what_came_from_elsewhere_is_no_newest_campaign(
    store: KernelStore, other: KernelStore, evaluate: Evaluate
) -> None:
    evaluate("a", cost=3.0)
    run = other.begin_campaign(name="mine", spec="{}", environment=ENVIRONMENT)
    store.push(other)
    assert other.campaigns()[0].id == run.id


def test_a_prune_forgets_lines_that_verdicts_repeat(
    store: KernelStore, campaign: Campaign, evaluate: Evaluate
) -> None:
    evaluate("a", status=Status.WRONG)
    for kind in ("CandidateJudged", "TaskEnded"):
        store.log(campaign.id, *NewEvent(kind, "{}"))
    assert store.prune(timedelta(seconds=-1)).events == 0  # The campaign may go on.
    store.end_campaign(campaign.id, "finished")
    assert store.prune(timedelta(seconds=-1), dry_run=True).events == 1
    assert store.prune(timedelta(seconds=-1)).events == 1
    assert [event.kind for event in store.events(campaign.id)] == ["TaskEnded"]


def test_a_prune_forgets_nothing_of_a_failed_campaign_that_was_resumed_and_capped(
    store: KernelStore, campaign: Campaign, evaluate: Evaluate
) -> None:
    evaluate("a", status=Status.WRONG)
    store.log(campaign.id, *NewEvent("CandidateJudged", "{}"))
    store.end_campaign(campaign.id, "failed")
    again = store.begin_campaign(
        name="again", spec="{}", environment=ENVIRONMENT, root_id=campaign.root_id
    )
    store.end_campaign(again.id, "capped")
    assert store.prune(timedelta(seconds=-1)).events == 0
