"""Pages, trees and sums of a store, on every database."""

import re
import sqlite3
from collections.abc import Callable

import pytest
from sqlalchemy import Engine, event

from kernelwright.campaign.report.spend import spending
from kernelwright.evaluator.evaluation import Status
from kernelwright.store import Campaign, KernelStore, ModelCall, ModelOutcome
from kernelwright.store.browsing import CandidateOrder, TrialFilter
from tests.store.conftest import Evaluate, new_trial, program_of, task_of


def pay(
    store: KernelStore, campaign: Campaign, task_id: str, microdollars: int, failure: str = ""
) -> None:
    call = ModelCall(
        id=f"{microdollars:064x}",
        campaign_id=campaign.id,
        task_id=task_id,
        provider="openai",
        model="gpt",
        role="coder",
        request_hash="0" * 64,
        request="{}",
    )
    store.dialogue.begin_call(call)
    outcome = ModelOutcome(
        failure=failure, input_tokens=7, output_tokens=3, cost_microdollars=microdollars
    )
    store.dialogue.finish_call(call.id, outcome)


def test_the_task_table_adds_up_trials_verdicts_and_spend(
    store: KernelStore, campaign: Campaign, evaluate: Evaluate
) -> None:
    other = task_of((4, 16), name="wide")
    evaluate("a", cost=5.0)
    best = evaluate("b", cost=3.0)
    evaluate("c", status=Status.WRONG)
    evaluate("d", of=other, status=Status.WRONG)
    store.add_trial(new_trial(campaign, other, program_of("waits")))
    pay(store, campaign, other.fingerprint, 40)
    pay(store, campaign, other.fingerprint, 2)
    for runs in (None, [campaign.id]):
        narrow, wide = store.browse.tasks(runs)
        assert (narrow.tried, narrow.right, narrow.champion_id) == (3, 2, best)
        assert narrow.best is not None
        assert narrow.best.value == 3.0
        assert (wide.tried, wide.right, wide.best, wide.champion_id) == (1, 0, None, None)
        assert (wide.spend.calls, wide.spend.tokens, wide.spend.microdollars) == (2, 20, 42)
    assert store.browse.tasks(["0" * 64]) == ()
    assert store.browse.tasks(device=("metal", "M4"))[0].champion_id is None


def test_totals_are_those_of_the_runs_that_are_asked_for(
    store: KernelStore, campaign: Campaign, evaluate: Evaluate
) -> None:
    evaluate("a", cost=5.0)
    evaluate("b", status=Status.WRONG)
    store.add_trial(new_trial(campaign, task_of((4, 8)), program_of("c")))
    pay(store, campaign, task_of((4, 8)).fingerprint, 9)
    totals = store.browse.totals([campaign.id])
    assert (totals.tried, totals.evaluated) == (2, 2)
    assert store.browse.right_candidates([campaign.id]) == 1
    assert (totals.under_way, totals.waiting) == (0, 1)
    assert totals.spend.microdollars == 9
    assert [p.dollars for p in store.browse.payments([campaign.id])] == [9e-6]
    nothing = store.browse.totals(["0" * 64])
    assert (nothing.tried, nothing.evaluated, nothing.spend.calls) == (0, 0, 0)


def test_a_call_without_a_whole_reply_is_told_at_most(
    store: KernelStore, campaign: Campaign
) -> None:
    of = task_of((4, 8))
    store.keep_task(of)
    pay(store, campaign, of.fingerprint, 9)
    for name, failure in (("killed", ""), ("reset", "dropped: the connection broke")):
        call = ModelCall(
            id=name,
            campaign_id=campaign.id,
            task_id=of.fingerprint,
            provider="openai",
            model="gpt",
            role="coder",
            request_hash="1" * 64,
            request='{"worst": {"tokens": 500}}',
            reserved_microdollars=70,
        )
        store.dialogue.begin_call(call)
        if failure:
            outcome = ModelOutcome(
                reply='{"cost": {"tokens": 500}}', failure=failure, cost_microdollars=70
            )
            store.dialogue.finish_call(name, outcome)
    totals = store.browse.totals([campaign.id])
    for spend in (totals.spend, store.dialogue.spending()[of.fingerprint]):
        assert (spend.calls, spend.known_microdollars, spend.microdollars) == (3, 9, 149)
    assert sum(p.dollars for p in store.browse.payments([campaign.id])) == pytest.approx(149e-6)
    (row,) = spending(store, [campaign.id], {})
    assert (row.known_tokens, row.tokens) == (10, 1010)
    assert (row.calls, row.paid) == (
        3,
        "$0.0001, at most $0.0001 more for 2 calls without a whole reply",
    )


def test_a_reply_that_came_whole_and_was_empty_has_a_known_bill(
    store: KernelStore, campaign: Campaign
) -> None:
    of = task_of((4, 8))
    store.keep_task(of)
    pay(store, campaign, of.fingerprint, 9, failure="empty reply: the reply is empty")
    assert store.browse.calls_without_bill([campaign.id]) == ()
    spend = store.browse.totals([campaign.id]).spend
    assert (spend.tokens, spend.known_microdollars, spend.microdollars) == (10, 9, 9)
    assert [p.known_dollars for p in store.browse.payments([campaign.id])] == [9e-6]


@pytest.mark.parametrize("order", ["at", "rank", "status", "author", "idea", "task"])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.sampled(12)
def test_pages_join_to_the_whole(
    store: KernelStore,
    campaign: Campaign,
    evaluate: Evaluate,
    order: CandidateOrder,
    descending: bool,
) -> None:
    for cost, body in enumerate("abcde"):
        evaluate(body, cost=float(cost) or None)
    wanted = TrialFilter(run_ids=(campaign.id,))
    whole = store.browse.trials(wanted, order=order, descending=descending)
    parts = [
        store.browse.trials(wanted, order=order, descending=descending, offset=at, limit=2)
        for at in (0, 2, 4)
    ]
    assert [entry for part in parts for entry in part.items] == list(whole.items)
    assert {part.total for part in parts} == {whole.total} == {5}
    ids = store.browse.trial_ids(wanted, order=order, descending=descending)
    assert store.browse.trials_by_id(ids) == whole.items
    if order == "rank":
        assert whole.items[-1].rank is None


def test_words_are_looked_for_as_they_are_written(store: KernelStore, evaluate: Evaluate) -> None:
    candidate = evaluate("a", cost=1.0)

    def found(text: str) -> int:
        return store.browse.trials(TrialFilter(text=text)).total

    assert [found(t) for t in ("ROW PER", candidate[:9], "%", "_", "'", "\\")] == [1, 1, 0, 0, 0, 0]
    assert [t.task.name for t in store.browse.find_tasks("SOFT")] == ["row_softmax"]
    assert store.browse.find_tasks("%") == ()


def test_the_tree_holds_every_candidate_once(
    store: KernelStore, campaign: Campaign, evaluate: Evaluate
) -> None:
    task = task_of((4, 8))
    root = evaluate("root", cost=2.0)
    child = store.add_trial(
        new_trial(campaign, task, program_of("child"), parent=program_of("root").id)
    ).candidate_id
    orphan = store.add_trial(
        new_trial(campaign, task, program_of("orphan"), parent=program_of("unknown").id)
    ).candidate_id
    first = store.browse.children(task.fingerprint)
    assert {(n.id, n.children, n.is_champion) for n in first} == {
        (root, 1, True),
        (orphan, 0, False),
    }
    (below,) = store.browse.children(task.fingerprint, root)
    assert (below.id, below.parent_id, below.status) == (child, root, None)
    assert store.browse.children(task.fingerprint, child) == ()


def test_a_log_is_read_on_from_its_end(store: KernelStore, campaign: Campaign) -> None:
    for number in range(5):
        store.log(campaign.id, "Line", str(number))
    ends = store.browse.last_event_ids([campaign.id])
    store.log(campaign.id, "Line", "later")
    assert [e.body for e in store.browse.latest_events(ends, limit=2)] == ["3", "4"]
    assert store.browse.event_count(ends) == 5
    assert [e.body for e in store.browse.events_after(campaign.id, ends[campaign.id])] == ["later"]
    assert store.browse.end_of_log() > ends[campaign.id]
    assert store.browse.latest_events({}) == ()
    assert store.browse.event_count({}) == 0


def _plans(words: str, ask: Callable[[], object]) -> list[str]:
    """Return how SQLite reads what the statements with some words ask for."""
    plans: list[str] = []

    def explain(
        connection: object,
        cursor: sqlite3.Cursor,
        statement: str,
        given: tuple[str, ...],
        *_: object,
    ) -> None:
        if words in statement:
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", given)
            plans.extend(row[3] for row in cursor.fetchall())

    event.listen(Engine, "before_cursor_execute", explain)
    try:
        ask()
    finally:
        event.remove(Engine, "before_cursor_execute", explain)
    return plans


@pytest.mark.parametrize(
    "ask",
    [
        lambda store, run: store.browse.tasks(),
        lambda store, run: store.browse.tasks([run]),
        lambda store, run: store.browse.totals([run]),
        lambda store, run: store.browse.verdicts([run]),
        lambda store, run: store.browse.right_candidates([run]),
    ],
    ids=["tasks", "tasks of a run", "totals", "verdicts", "right"],
)
@pytest.mark.sampled(5)
def test_a_sum_reads_no_rows_of_trials_and_evaluations(
    ask: Callable[[KernelStore, str], object],
    store: KernelStore,
    campaign: Campaign,
    evaluate: Evaluate,
) -> None:
    if store.url.startswith("postgresql"):
        pytest.skip("only SQLite says how it will read")
    evaluate("a")
    plans = _plans("count(", lambda: ask(store, campaign.id))
    # A verdict's row is some ten thousand bytes long; an index holds what is summed.
    read = [p for p in plans if re.match("(SCAN|SEARCH) (trial|evaluation)\\b", p)]
    assert read
    assert [p for p in read if "COVERING INDEX" not in p] == []


def test_the_newest_trial_of_a_campaign_is_found_without_sorting(
    store: KernelStore, campaign: Campaign, evaluate: Evaluate
) -> None:
    if store.url.startswith("postgresql"):
        pytest.skip("only SQLite says how it will read")
    evaluate("a")
    plans = _plans("FROM trial", lambda: store.history(campaign=campaign.id, limit=1))
    assert plans
    assert [p for p in plans if "TEMP B-TREE FOR ORDER BY" in p] == []
