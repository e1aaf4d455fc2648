"""Copies, joined stores and forgotten rows: nothing is lost that anybody would miss."""

import shutil
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from kernelwright.errors import StoreError
from kernelwright.evaluator import Status, Task
from kernelwright.store import (
    Campaign,
    CampaignState,
    KernelStore,
    ModelCall,
    ModelOutcome,
    Rank,
    merge_stores,
)
from tests.store.conftest import (
    ENVIRONMENT,
    ON_SQLITE,
    Evaluate,
    new_trial,
    program_of,
    task_of,
    verdict,
)
from tests.store.test_wanting import call_of

NOW = timedelta(seconds=-1)
"""Older than this is everything."""


@ON_SQLITE
def test_a_backup_is_the_store_while_another_writes(
    store: KernelStore, evaluate: Evaluate, tmp_path: Path
) -> None:
    evaluate("a", cost=1.0)
    writer = sqlite3.connect(tmp_path / "kernels.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    size = store.backup(tmp_path / "copy.db")
    writer.close()
    assert size == (tmp_path / "copy.db").stat().st_size
    with KernelStore(str(tmp_path / "copy.db"), must_exist=True) as copied:
        assert copied.best() == store.best()
        assert copied.statistics().rows == store.statistics().rows


@ON_SQLITE
@pytest.mark.parametrize(
    ("target", "sentence"),
    [("kernels.db", "that is not there yet"), ("none/copy.db", "cannot be opened")],
)
def test_a_backup_that_cannot_be_written_is_one_sentence(
    store: KernelStore, tmp_path: Path, target: str, sentence: str
) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StoreError, match=sentence):
        store.backup(tmp_path / target)
    assert sorted(tmp_path.iterdir()) == before


def test_a_backup_of_a_server_is_a_store_in_a_file(
    store: KernelStore, evaluate: Evaluate, tmp_path: Path
) -> None:
    evaluate("a", cost=1.0)
    store.backup(tmp_path / "copy.db")
    with KernelStore(str(tmp_path / "copy.db"), must_exist=True) as copied:
        assert copied.best() == store.best()
        assert copied.statistics().rows == store.statistics().rows
    merged = merge_stores(store.url, str(tmp_path / "copy.db"), tmp_path / "merged.db")
    assert merged.added == {}
    assert merge_stores(str(tmp_path / "copy.db"), store.url, tmp_path / "again.db").added == {}


def test_a_store_in_memory_is_not_copied(tmp_path: Path) -> None:
    with (
        KernelStore("sqlite://") as store,
        pytest.raises(StoreError, match="expected a store in a SQLite file"),
    ):
        store.backup(tmp_path / "copy.db")


def filled(path: Path, costs: dict[str, float], *, of: Task) -> Path:
    """Make a store whose champion is the cheapest of `costs`."""
    with KernelStore(str(path)) as store:
        campaign = store.begin_campaign(name=path.stem, spec="{}", environment=ENVIRONMENT)
        for body, cost in costs.items():
            program = program_of(body)
            trial = store.add_trial(new_trial(campaign, of, program))
            rank = Rank(kind="predicted", value=cost)
            store.promote(store.record(trial.id, verdict(of, program, samples=True), rank=rank))
        store.log(campaign.id, "planned", path.stem)
    return path


def rows_of(path: Path) -> dict[str, int]:
    with KernelStore(str(path), must_exist=True) as store:
        return dict(store.statistics().rows)


def test_a_merge_has_every_row_of_both_once(tmp_path: Path) -> None:
    first = filled(tmp_path / "a.db", {"slow": 9.0, "shared": 5.0}, of=task_of((4, 8)))
    second = filled(tmp_path / "b.db", {"shared": 5.0, "quick": 2.0}, of=task_of((4, 8)))
    merged = merge_stores(str(first), str(second), tmp_path / "c.db")
    rows = rows_of(tmp_path / "c.db")
    assert (rows["campaign"], rows["evaluation"], rows["sample_set"], rows["trial"]) == (2, 4, 4, 4)
    assert (rows["candidate"], rows["program"], rows["task"], rows["champion"]) == (3, 3, 1, 1)
    assert (merged.added["candidate"], merged.added["evaluation"]) == (1, 2)
    with KernelStore(str(tmp_path / "c.db")) as store:
        (champion,) = store.best()
        assert store.show(champion.candidate_id).program == program_of("quick")


@pytest.mark.parametrize("order", [("a.db", "b.db"), ("b.db", "a.db")])
def test_the_better_champion_is_crowned_in_either_order(
    tmp_path: Path, order: tuple[str, str]
) -> None:
    filled(tmp_path / "a.db", {"slow": 9.0}, of=task_of((4, 8)))
    filled(tmp_path / "b.db", {"quick": 2.0}, of=task_of((4, 8)))
    merge_stores(str(tmp_path / order[0]), str(tmp_path / order[1]), tmp_path / "c.db")
    with KernelStore(str(tmp_path / "c.db")) as store:
        assert [c.rank.value for c in store.best(op="softmax", dtype="f16")] == [2.0]
        # The index of champions dates each by its own coronation.
        (champion,) = store.best()
    with sqlite3.connect(tmp_path / "c.db") as connection:
        dates = connection.execute(
            "SELECT DISTINCT crowned_at FROM champion_word UNION SELECT crowned_at FROM champion"
        ).fetchall()
    connection.close()
    assert [date for (date,) in dates] == [champion.crowned_at.strftime("%F %T.%f")]


def test_a_revoked_champion_does_not_come_back(tmp_path: Path) -> None:
    first = filled(tmp_path / "a.db", {"quick": 2.0}, of=task_of((4, 8)))
    second = shutil.copy(first, tmp_path / "b.db")
    with KernelStore(str(second)) as store:
        assert store.settle(store.best()[0], "revoked")
    merge_stores(str(first), str(second), tmp_path / "c.db")
    with KernelStore(str(tmp_path / "c.db")) as store:
        assert [c.freshness for c in store.best()] == ["revoked"]


def test_merging_again_adds_nothing(tmp_path: Path) -> None:
    first = filled(tmp_path / "a.db", {"slow": 9.0}, of=task_of((4, 8)))
    second = filled(tmp_path / "b.db", {"quick": 2.0}, of=task_of((2, 2)))
    merge_stores(str(first), str(second), tmp_path / "c.db")
    again = merge_stores(str(tmp_path / "c.db"), str(second), tmp_path / "d.db")
    assert again.added == {}
    assert rows_of(tmp_path / "d.db") == rows_of(tmp_path / "c.db")


def test_copies_that_went_separate_ways_keep_what_each_did(tmp_path: Path) -> None:
    first = tmp_path / "a.db"
    with KernelStore(str(first)) as store:
        campaign = store.begin_campaign(name="night", spec="{}", environment=ENVIRONMENT)
        store.log(campaign.id, "planned", "both")
        store.dialogue.begin_call(call("both"))
        store.want([call_of(2, 3)])
    second = Path(shutil.copy(first, tmp_path / "b.db"))
    for path in (first, second):
        with KernelStore(str(path)) as store:
            store.log(campaign.id, "tried", path.stem)
            store.dialogue.begin_call(call(path.stem))
    with KernelStore(str(second)) as store:
        store.dialogue.finish_call("both", ModelOutcome(reply="42"))
        store.want([call_of(2, 4)])
        store.end_campaign(campaign.id, "finished")
    merge_stores(str(first), str(second), tmp_path / "c.db")
    with KernelStore(str(tmp_path / "c.db")) as store:
        assert [e.body for e in store.events(campaign.id)] == ["both", "a", "b"]
        assert {r.call.id for r in store.dialogue.calls(campaign.id)} == set()
        assert store.dialogue.replies("same")[0].call.id == "both"
        assert store.statistics().rows["call"] == 3
        assert store.campaigns()[0].state == "finished"
        assert [w.calls for w in store.wanted()] == [7]


def call(id_: str) -> ModelCall:
    return ModelCall(
        id=id_, campaign_id=None, provider="p", model="m", role="coder",
        request_hash="same", request="{}",
    )  # fmt: skip


def test_a_merge_into_a_file_that_is_there_changes_nothing(tmp_path: Path) -> None:
    first = filled(tmp_path / "a.db", {"slow": 9.0}, of=task_of((4, 8)))
    before = first.read_bytes()
    with pytest.raises(StoreError, match="expected a file that is not there yet"):
        merge_stores(str(first), str(first), first)
    assert first.read_bytes() == before


Promoted = Callable[[], str]


@pytest.fixture
def promoted(store: KernelStore, campaign: Campaign, task: Task, evaluate: Evaluate) -> Promoted:
    """Crown a program whose parent was wrong, beside an unrelated wrong one."""

    def make() -> str:
        evaluate("ancestor", status=Status.WRONG)
        evaluate("useless", status=Status.WRONG)
        program = program_of("winner")
        parent = program_of("ancestor").id
        trial = store.add_trial(new_trial(campaign, task, program, parent=parent))
        rank = Rank(kind="predicted", value=1.0)
        store.promote(store.record(trial.id, verdict(task, program, samples=True), rank=rank))
        return trial.candidate_id

    return make


def test_pruning_spares_champions_and_their_ancestors(
    store: KernelStore, promoted: Promoted
) -> None:
    champion = promoted()
    pruned = store.prune(NOW)
    assert (pruned.candidates, pruned.evaluations, pruned.programs) == (1, 1, 1)
    shown = store.show(champion)
    assert [c.program_id for c in shown.lineage] == [program_of("ancestor").id]
    assert shown.evaluations[0].evaluation.samples
    assert store.statistics().rows["candidate"] == 2
    assert store.prune(NOW).candidates == 0


def test_pruning_keeps_correct_candidates_without_their_samples(
    store: KernelStore, evaluate: Evaluate
) -> None:
    evaluate("quick", cost=1.0)
    beaten = evaluate("slow", cost=2.0)
    assert store.prune(NOW).sample_sets == 1
    (kept,) = store.show(beaten).evaluations
    assert kept.evaluation.is_correct
    assert kept.evaluation.samples == ()


@pytest.mark.parametrize(("age", "dry_run"), [(timedelta(days=1), False), (NOW, True)])
def test_pruning_leaves_the_young_and_only_counts_when_asked(
    store: KernelStore, promoted: Promoted, age: timedelta, dry_run: bool
) -> None:
    promoted()
    before = store.statistics().rows
    assert store.prune(age, dry_run=dry_run).candidates == int(dry_run)
    assert store.statistics().rows == before


def test_pruning_leaves_what_is_still_being_tried(
    store: KernelStore, campaign: Campaign, evaluate: Evaluate, task: Task
) -> None:
    evaluate("again", status=Status.WRONG)
    second = store.begin_campaign(name="next", spec="{}", environment=ENVIRONMENT)
    store.add_trial(new_trial(second, task, program_of("again")))
    assert store.prune(NOW).candidates == 0


@pytest.mark.parametrize(
    ("state", "forgotten"),
    [("finished", 1), ("failed", 0), ("interrupted", 0), ("capped", 0)],
)
@pytest.mark.sampled(4)
def test_pruning_keeps_the_calls_of_what_can_be_resumed(
    store: KernelStore, campaign: Campaign, state: CampaignState, forgotten: int
) -> None:
    store.dialogue.begin_call(
        ModelCall(
            id="c1",
            campaign_id=campaign.id,
            provider="openai",
            model="m",
            role="coder",
            template_hash="",
            request_hash="",
            request="{}",
            reserved_microdollars=1,
        )
    )
    store.end_campaign(campaign.id, state)
    assert store.prune(NOW).calls == forgotten
    assert len(store.dialogue.calls(campaign.id)) == 1 - forgotten
