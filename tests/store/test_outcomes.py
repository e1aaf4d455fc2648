"""What became of runs' candidates is added up by the database, on every database."""

from kernelwright.evaluator.evaluation import Status
from kernelwright.store import Campaign, KernelStore, Rank
from tests.store.conftest import ENVIRONMENT, Evaluate, new_trial, program_of, task_of, verdict
from tests.store.test_browsing import pay


def test_verdicts_improvements_and_failures_of_one_run(
    store: KernelStore, campaign: Campaign, evaluate: Evaluate
) -> None:
    evaluate("a", cost=5.0)
    evaluate("b", cost=6.0)
    evaluate("c", cost=3.0)
    wrong = evaluate("d", status=Status.WRONG)
    evaluate("e", status=Status.WRONG)
    evaluate("f", status=Status.COMPILE_ERROR)
    mending = store.add_trial(
        new_trial(campaign, task_of((4, 8)), program_of("g"), parent=program_of("d").id)
    )
    assert store.lease(mending.id)
    right = verdict(task_of((4, 8)), program_of("g"))
    store.record(mending.id, right, rank=Rank(kind="predicted", value=4.0))
    (found,) = store.browse.verdicts([campaign.id])
    assert found.verdicts == {Status.CORRECT: 4, Status.WRONG: 2, Status.COMPILE_ERROR: 1}
    assert (found.tried, found.best) == (7, Rank(kind="predicted", value=3.0))
    better = store.browse.improvements([campaign.id])
    assert [one.rank.value for one in better] == [5.0, 3.0]
    failures = store.browse.failures([campaign.id])
    assert [(f.status, f.count, f.was_mended) for f in failures] == [
        (Status.WRONG, 2, True),
        (Status.COMPILE_ERROR, 1, False),
    ]
    assert failures[0].example.candidate_id == wrong
    assert store.browse.evaluations_begun([campaign.id]) == 7


def test_a_candidate_of_two_runs_counts_once_by_its_last_verdict(
    store: KernelStore, campaign: Campaign, evaluate: Evaluate
) -> None:
    evaluate("a", status=Status.WRONG)
    task, program = task_of((4, 8)), program_of("a")
    store.end_campaign(campaign.id, "interrupted")
    later = store.begin_campaign(name="evening", spec="{}", environment=ENVIRONMENT)
    trial = store.add_trial(new_trial(later, task, program))
    waiting = store.add_trial(new_trial(later, task, program_of("b")))
    runs = [campaign.id, later.id]
    (before,) = store.browse.verdicts(runs)
    assert (before.verdicts, before.tried) == ({Status.WRONG: 1}, 1)
    assert [t.candidate_id for t in store.browse.open_trials(runs)] == [
        trial.candidate_id,
        waiting.candidate_id,
    ]
    assert store.lease(trial.id)
    store.record(trial.id, verdict(task, program), rank=Rank(kind="predicted", value=2.0))
    (after,) = store.browse.verdicts(runs)
    assert (after.verdicts, after.tried) == ({Status.CORRECT: 1}, 1)
    turns = store.browse.turns_of(runs, [trial.candidate_id])
    assert [turn.status for turn in turns] == [Status.WRONG, Status.CORRECT]


def test_what_models_took_is_added_up_by_task_and_model(
    store: KernelStore, campaign: Campaign, evaluate: Evaluate
) -> None:
    evaluate("a", cost=5.0)
    task_id = task_of((4, 8)).fingerprint
    pay(store, campaign, task_id, 40)
    pay(store, campaign, task_id, 2)
    (spent,) = store.browse.spending([campaign.id])
    assert (spent.task_id, spent.model, spent.spend.calls) == (task_id, "openai:gpt", 2)
    assert (spent.spend.tokens, spent.spend.microdollars) == (20, 42)
