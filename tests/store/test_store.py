"""The store gives back what it was given, once, and only a better candidate is promoted."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from kernelwright.errors import InputError, StoreError
from kernelwright.evaluator import Status, Task
from kernelwright.evaluator.evaluation import EVALUATOR_VERSION
from kernelwright.ir.graph.nest import Nest, Output
from kernelwright.store import Announced, Campaign, Candidate, KernelStore, NewEvent, Rank
from tests.store.conftest import ENVIRONMENT, Evaluate, new_trial, program_of, task_of, verdict


def test_evaluation_survives_the_round_trip(store: KernelStore, evaluate: Evaluate) -> None:
    candidate = evaluate("out[0] = x[0];", cost=3.0)
    shown = store.show(candidate[:6])
    assert shown.program == program_of("out[0] = x[0];")
    assert shown.graph == task_of((4, 8)).graph
    assert shown.evaluations[0].evaluation == verdict(task_of((4, 8)), shown.program, samples=True)
    assert shown.champion_on[0].rank == Rank(kind="predicted", value=3.0)


def test_only_a_cheaper_candidate_becomes_champion(store: KernelStore, evaluate: Evaluate) -> None:
    evaluate("slow", cost=9.0)
    quick = evaluate("quick", cost=2.0)
    evaluate("medium", cost=5.0)
    evaluate("wrong", status=Status.WRONG)
    (champion,) = store.best()
    assert champion.candidate_id == quick


def test_of_equal_candidates_the_same_one_leads_whichever_came_first(
    store: KernelStore, evaluate: Evaluate
) -> None:
    found = [evaluate(body, cost=5.0) for body in ("a", "b", "c")]
    assert [champion.candidate_id for champion in store.best()] == [min(found)]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, 2),
        ({"op": "softmax"}, 1),
        ({"op": "Softmax", "dtype": "f16", "shape": "4,8"}, 1),
        ({"op": "rms_norm"}, 1),
        ({"op": "conv"}, 0),
        ({"dtype": "bf16"}, 0),
        ({"shape": "2048"}, 0),
        ({"device": "metal"}, 0),
        ({"limit": 1}, 1),
    ],
)
@pytest.mark.sampled(9)
def test_best_finds_by_op_dtype_shape_and_device(
    store: KernelStore, evaluate: Evaluate, asked: dict[str, str], found: int
) -> None:
    evaluate("a", cost=1.0)
    evaluate("b", cost=1.0, of=task_of((3,), name="residual_rms_norm", op="rms_norm"))
    assert len(store.best(**asked)) == found  # type: ignore[arg-type]


def test_an_intent_is_written_once(store: KernelStore, campaign: Campaign, task: Task) -> None:
    wanted = new_trial(campaign, task, program_of("a"))
    assert store.add_trial(wanted) == store.add_trial(wanted)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("block/layer 0 · mlp", "block/layer 0 · mlp"), ("other/y", "block/add+exp")],
)
def test_a_region_goes_by_the_latest_name_in_its_function(
    store: KernelStore, evaluate: Evaluate, name: str, shown: str
) -> None:
    evaluate("a", cost=9.0, of=task_of((4, 8), name="block/add+exp"))
    evaluate("b", cost=8.0, of=task_of((4, 8), name=name))
    (champion,) = store.best()
    assert champion.task.name == shown
    assert len(store.best(op="mlp")) == (shown == name)


def test_a_task_is_returned_as_its_function_does_it_now(
    store: KernelStore, campaign: Campaign, task: Task
) -> None:
    listed = replace(task.graph, results=Nest("list", (Output(0),)))
    other = Task(listed, "another")
    for changed, wanted in ((other, None), (Task(listed, task.name), listed.results)):
        store.add_trial(new_trial(campaign, task, program_of("a")))
        trial = store.add_trial(new_trial(campaign, changed, program_of("b")))
        assert store.show(trial.candidate_id).graph.results == wanted


def test_a_trial_is_recorded_once(store: KernelStore, campaign: Campaign, task: Task) -> None:
    program = program_of("a")
    trial = store.add_trial(new_trial(campaign, task, program))
    first = store.record(trial.id, verdict(task, program), rank=None)
    assert store.record(trial.id, verdict(task, program), rank=None) == first
    assert store.statistics().rows["evaluation"] == 1


def test_only_a_confirmation_crowns(store: KernelStore, campaign: Campaign, task: Task) -> None:
    program, rank = program_of("a"), Rank(kind="predicted", value=1.0)
    trial = store.add_trial(new_trial(campaign, task, program))
    store.record(trial.id, verdict(task, program), rank=rank)
    assert store.best() == ()
    store.begin_confirmation(trial.id)
    assert store.history()[0].state == "confirming"
    store.confirm(trial.id, verdict(task, program), rank=rank)
    assert store.best()[0].candidate_id == trial.candidate_id
    assert store.history()[0].state == "done"


def test_what_does_not_survive_confirmation_is_not_crowned(
    store: KernelStore, campaign: Campaign, task: Task
) -> None:
    program = program_of("a")
    trial = store.add_trial(new_trial(campaign, task, program))
    store.record(trial.id, verdict(task, program), rank=Rank(kind="predicted", value=1.0))
    store.begin_confirmation(trial.id)
    store.confirm(trial.id, verdict(task, program, status=Status.UNPROVEN), rank=None)
    assert store.best() == ()
    assert store.history()[0].status is Status.UNPROVEN


def test_a_finished_trial_is_not_leased_again(
    store: KernelStore, campaign: Campaign, task: Task
) -> None:
    program = program_of("a")
    trial = store.add_trial(new_trial(campaign, task, program))
    assert store.lease(trial.id)
    store.record(trial.id, verdict(task, program), rank=None)
    assert not store.lease(trial.id)


def test_a_lease_holds_against_others_until_it_expires(
    store: KernelStore, campaign: Campaign, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = store.add_trial(new_trial(campaign, task, program_of("a")))
    assert store.lease(trial.id, duration=timedelta(hours=1))
    monkeypatch.setattr("kernelwright.store.writer.owner_name", lambda: "elsewhere:1")
    assert not store.lease(trial.id)
    expired = store.add_trial(new_trial(campaign, task, program_of("b")))
    assert store.lease(expired.id, duration=timedelta(seconds=-1))
    monkeypatch.setattr("kernelwright.store.writer.owner_name", lambda: "elsewhere:2")
    assert store.lease(expired.id)


def test_known_answers_for_the_same_environment_only(
    store: KernelStore, evaluate: Evaluate, task: Task
) -> None:
    evaluate("a", cost=1.0)
    program = program_of("a")
    known = store.known(
        task.fingerprint, program.id, ENVIRONMENT, evaluator_version=EVALUATOR_VERSION
    )
    assert known is not None
    assert known.evaluation.is_correct
    other = ENVIRONMENT.model_copy(update={"mlx": "9.9"})
    assert (
        store.known(task.fingerprint, program.id, other, evaluator_version=EVALUATOR_VERSION)
        is None
    )
    assert (
        store.known(
            task.fingerprint, program.id, ENVIRONMENT, evaluator_version=EVALUATOR_VERSION + 1
        )
        is None
    )


def test_reuse_ends_the_trial_without_a_second_evaluation(
    store: KernelStore, evaluate: Evaluate, task: Task
) -> None:
    evaluate("a", cost=1.0)
    program = program_of("a")
    known = store.known(
        task.fingerprint, program.id, ENVIRONMENT, evaluator_version=EVALUATOR_VERSION
    )
    assert known is not None
    again = store.begin_campaign(name="again", spec="{}", environment=ENVIRONMENT)
    store.reuse(store.add_trial(new_trial(again, task, program)).id, known.id)
    newest = store.history(campaign=again.id[:8])[0]
    assert (newest.reused, newest.status) == (True, Status.CORRECT)
    assert store.statistics().rows["evaluation"] == 1


def test_a_champion_of_another_environment_gives_way(
    store: KernelStore, evaluate: Evaluate, task: Task
) -> None:
    evaluate("a", cost=1.0)
    newer = ENVIRONMENT.model_copy(update={"mlx": "0.33"})
    campaign = store.begin_campaign(name="later", spec="{}", environment=newer)
    program = program_of("b")
    trial = store.add_trial(new_trial(campaign, task, program))
    rank = Rank(kind="predicted", value=8.0)
    store.promote(store.record(trial.id, verdict(task, program), rank=rank))
    assert store.best()[0].candidate_id == trial.candidate_id


def test_lineage_runs_from_parent_to_first_ancestor(
    store: KernelStore, campaign: Campaign, task: Task
) -> None:
    parent: str | None = None
    for body in ("first", "second", "third"):
        trial = store.add_trial(new_trial(campaign, task, program_of(body), parent=parent))
        parent = program_of(body).id
    bodies = [c.program_id for c in store.show(trial.candidate_id).lineage]
    assert bodies == [program_of("second").id, program_of("first").id]


@pytest.mark.parametrize(
    ("prefix", "sentence"),
    [
        ("7f", "at least 4 hexadecimal digits"),
        ("7f", "look them up with `kernelwright best` or `kernelwright history`"),
        ("softmax", "hexadecimal digits"),
        ("0000000", "no candidate in the store"),
    ],
)
def test_an_id_that_means_nothing_gets_a_sentence(
    store: KernelStore, evaluate: Evaluate, prefix: str, sentence: str
) -> None:
    evaluate("a")
    with pytest.raises(InputError, match=sentence):
        store.show(prefix)


def test_an_ambiguous_prefix_lists_what_it_may_mean(
    store: KernelStore, evaluate: Evaluate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.store.queries.prefix.SHORTEST_PREFIX", 1)
    ids = [evaluate(f"body {i}") for i in range(17)]
    digit = next(d for d in "0123456789abcdef" if sum(i.startswith(d) for i in ids) > 1)
    with pytest.raises(InputError, match="begins several ids"):
        store.show(digit)


def test_reading_does_not_make_a_store(tmp_path: Path) -> None:
    path = tmp_path / "none" / "kernels.db"
    with pytest.raises(StoreError, match=r"there is no store at .* yet; run `kernelwright search"):
        KernelStore(str(path), must_exist=True)
    assert not path.parent.exists()


def test_a_campaign_ends_with_its_state_and_log(store: KernelStore, campaign: Campaign) -> None:
    store.log(campaign.id, "planned", '{"regions":2}')
    store.end_campaign(campaign.id, "interrupted")
    (ended,) = store.campaigns()
    assert ended.state == "interrupted"
    assert ended.ended_at is not None
    assert [e.kind for e in store.events(campaign.id)] == ["planned"]


def test_a_verdict_of_an_earlier_evaluator_is_stale_and_serves_nobody(
    store: KernelStore, campaign: Campaign, task: Task
) -> None:
    program = program_of("out[thread_position_in_grid.x] = x[thread_position_in_grid.x];")
    trial = store.add_trial(new_trial(campaign, task, program))
    earlier = verdict(task, program).model_copy(update={"evaluator_version": EVALUATOR_VERSION - 1})
    store.promote(store.record(trial.id, earlier, rank=Rank(kind="predicted", value=3.0)))
    assert [c.freshness for c in store.best()] == ["stale"]
    assert [c.freshness for c in store.show(trial.candidate_id).champion_on] == ["stale"]
    found = store.served([task.fingerprint], device="simulator", chip="test chip")
    assert not found


def test_several_intents_are_one_transaction(
    store: KernelStore, campaign: Campaign, task: Task
) -> None:
    wanted = [
        Announced(new_trial(campaign, task, program_of(body)), event=NewEvent("Proposed", body))
        for body in ("a", "b", "c")
    ]
    trials = store.add_trials(wanted)
    assert [t.candidate_id for t in trials] == [
        Candidate.id_of(task.fingerprint, one.new_trial.program.id) for one in wanted
    ]
    assert [event.body for event in store.events(campaign.id)] == ["a", "b", "c"]
    nobody = Announced(replace(wanted[0].new_trial, campaign_id="0" * 64, program=program_of("d")))
    more = Announced(new_trial(campaign, task, program_of("e")))
    with pytest.raises(StoreError):
        store.add_trials([more, nobody])
    assert len(store.history()) == 3


def test_verdicts_of_several_candidates_are_one_question(
    store: KernelStore, campaign: Campaign, evaluate: Evaluate
) -> None:
    found = [evaluate("a", cost=5.0), evaluate("b", status=Status.WRONG)]
    known = store.known_of([*found, "0" * 64], ENVIRONMENT, evaluator_version=EVALUATOR_VERSION)
    assert {id_: one.evaluation.status for id_, one in known.items()} == {
        found[0]: Status.CORRECT,
        found[1]: Status.WRONG,
    }
    assert store.known_of(found, ENVIRONMENT, evaluator_version=EVALUATOR_VERSION + 1) == {}
