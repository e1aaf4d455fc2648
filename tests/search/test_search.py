"""A search is asked and told, in any order, without a device or a store."""

import heapq
import random
from collections.abc import Sequence

import pytest

from kernelwright.agents.protocols import Proposal
from kernelwright.evaluator import Evaluation, Task
from kernelwright.search import Search, Suggestion, share_workers
from kernelwright.search.priority import SecondsToSave, in_given_order
from kernelwright.search.spec import SearchSpec
from kernelwright.search.strategy import RepairThenWrite
from kernelwright.search.task_search import TaskSearch
from tests.campaign.scripted import INFO, ScriptedCoder, ScriptedJudge, team
from tests.store.conftest import task_of


def _search(tasks: int = 2, workers: int = 1, coder: ScriptedCoder | None = None) -> Search:
    searches = [
        TaskSearch(task_of((4, 8 * (i + 1)), name=f"t{i}"), "softmax") for i in range(tasks)
    ]
    share_workers(searches, workers)
    strategy = RepairThenWrite(team(coder), INFO, SearchSpec())
    return Search(searches, strategy, INFO, order=in_given_order)


def _verdict(judge: ScriptedJudge, one: Suggestion) -> Evaluation:
    task, program = one.search.task, one.proposal.program
    return judge.confirm(task, program) if one.confirms else judge.evaluate(task, program)


def _run(search: Search, seed: int, workers: int) -> dict[str, list[str]]:
    """Let verdicts come in any order; return what was proposed for each task, in order."""
    draw, judge = random.Random(seed), ScriptedJudge()
    flying: list[Suggestion] = []
    proposed: dict[str, list[str]] = {}
    while True:
        asked = search.ask(workers - len(flying))
        for one in asked:
            proposed.setdefault(one.search.task.name, []).append(
                one.proposal.idea + " confirmed" * one.confirms
            )
        flying += asked
        if not flying:
            return proposed
        done = flying.pop(draw.randrange(len(flying)))
        search.tell(done, _verdict(judge, done))


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_the_order_of_verdicts_changes_nothing(workers: int) -> None:
    found = [_run(_search(workers=workers), seed, workers) for seed in range(8)]
    assert all(other == found[0] for other in found)


def test_every_task_ends_with_its_best_confirmed() -> None:
    search = _search()
    _run(search, 0, 2)
    assert search.is_over
    assert [s.champion.rank.value for s in search.tasks if s.champion] == [2.0, 2.0]
    assert {s.task.name for s in search.ended()} == {"t0", "t1"}
    assert list(search.ended()) == []


def test_a_task_that_had_all_its_candidates_is_confirmed_before_others_go_on() -> None:
    searches = [TaskSearch(task_of((4, 8 * (i + 1)), name=f"t{i}"), "softmax") for i in range(3)]
    strategy = RepairThenWrite(team(), INFO, SearchSpec(candidates_per_task=1))
    search, judge = Search(searches, strategy, INFO, order=in_given_order), ScriptedJudge()
    (first,) = search.ask(1)
    search.tell(first, _verdict(judge, first))
    confirmed, following = search.ask(1)
    assert confirmed.confirms
    assert confirmed.search is first.search
    # The last of the order is as good as forgotten where another task always comes before it.
    assert following.search is searches[1]
    search.tell(following, _verdict(judge, following))
    search = Search(searches[:2], strategy, INFO, order=lambda tasks, info: tasks[:0])
    (due,) = search.ask(1)
    assert due.confirms
    assert due.search is searches[1]


def test_a_search_that_is_stopped_confirms_what_it_has() -> None:
    search, judge = _search(tasks=1), ScriptedJudge()
    for one in search.ask(4):
        search.tell(one, _verdict(judge, one))
    search.stop("the cap is reached")
    (last,) = search.ask(0)
    assert last.confirms
    assert search.tell(last, _verdict(judge, last))
    assert search.tasks[0].reason == "the cap is reached"
    assert search.ask(4) == []


@pytest.mark.parametrize("is_free", [True, False])
def test_what_a_model_had_judged_is_proposed_when_a_search_is_stopped(is_free: bool) -> None:
    class Drafting(RepairThenWrite):
        def left(self, search: TaskSearch) -> list[Proposal]:
            found = self._team.coder.write(search.task, INFO, search.history, count=1)
            return list(found) if search.count < 3 else []

    searches = [TaskSearch(task_of((4, 8), name="t0"), "softmax")]
    search = Search(searches, Drafting(team(), INFO, SearchSpec()), INFO)
    judge = ScriptedJudge()
    for one in search.ask(1):
        search.tell(one, _verdict(judge, one))
    done: list[tuple[bool, bool]] = []
    while not search.is_over:
        search.stop("the cap is reached", takes_what_was_judged=is_free)
        for one in search.ask(0):
            search.tell(one, _verdict(judge, one))
            done.append((one.was_judged, one.confirms))
    assert done == [*[(True, False)] * (2 * is_free), (False, True)]


def test_what_is_abandoned_is_waited_for_by_nobody() -> None:
    search = _search(tasks=1)
    for one in search.ask(4):
        search.abandon(one)
    assert search.may_go_on


def test_a_strategy_that_fails_costs_its_task_alone() -> None:
    class Failing(ScriptedCoder):
        def write(self, task: Task, *rest: object, **how: object):  # type: ignore[no-untyped-def]  # noqa: ANN202
            if task.name == "t0":
                raise ValueError("no idea")
            return super().write(task, *rest, **how)  # type: ignore[arg-type]

    search = _search(coder=Failing())
    assert set(_run(search, 0, 2)) == {"t1"}
    assert "no idea" in search.tasks[0].reason


def test_a_copy_of_a_program_has_an_id_of_its_own() -> None:
    (one,) = _search(tasks=1).ask(1)[:1]
    program = one.proposal.program
    kernel = program.kernels[0].model_copy(update={"source": "other"})
    assert program.id != program.model_copy(update={"kernels": (kernel,)}).id
    assert program.id == program.model_copy().id


def test_a_task_is_weighed_again_when_its_verdicts_came() -> None:
    order = SecondsToSave()
    search, judge = _search(tasks=1), ScriptedJudge()
    (task,) = search.tasks
    before = order.rate(task, INFO)
    for one in search.ask(4):
        search.tell(one, _verdict(judge, one))
    assert order.rate(task, INFO) == before
    task.advance()
    assert order.rate(task, INFO) != before


def test_the_first_of_every_task_is_judged_before_a_second_of_any() -> None:
    search = _search(tasks=3)
    assert [one.search.task.name for one in search.ask(3)] == ["t0", "t1", "t2"]


def test_a_task_that_has_workers_to_itself_does_not_wait_for_its_first_verdict() -> None:
    assert len(_search(tasks=1, workers=4).ask(4)) >= 4


@pytest.mark.parametrize(("candidates", "is_cut_off"), [(1, False), (2, True)])
def test_a_stop_cuts_off_only_what_has_more_to_try(candidates: int, is_cut_off: bool) -> None:
    searches = [TaskSearch(task_of((4, 8), name="t0"), "softmax")]
    strategy = RepairThenWrite(team(), INFO, SearchSpec(candidates_per_task=candidates))
    search, judge = Search(searches, strategy, INFO), ScriptedJudge()
    for one in search.ask(1):
        search.tell(one, _verdict(judge, one))
    search.stop("the cap is reached")
    assert search.is_cut_off is is_cut_off
    reason = "the cap is reached" if is_cut_off else "1 candidate tried, as many as asked for"
    assert searches[0].reason == reason


Confirmed = list[tuple[float, str]]


def _confirmed_at(
    search: Search, seconds: Sequence[float], *, confirming_s: float, workers: int
) -> Confirmed:
    """Run in simulated time, candidates taking `seconds` in turn; return what was confirmed when.

    A confirmation begins like any other work: as it is asked for, or on an idle worker.
    """
    judge = ScriptedJudge(fragile=frozenset({"correct 1"}))
    left_s, now_s, found = list(seconds), 0.0, Confirmed()
    waiting: list[Suggestion] = []
    running: list[tuple[float, int, Suggestion]] = []
    number = 0
    while True:
        waiting += search.ask(workers - len(waiting))
        waiting += search.confirm_early(workers - len(running) - len(waiting))
        waiting.sort(key=lambda one: not one.confirms)
        while waiting and len(running) < workers:
            one = waiting.pop(0)
            takes_s = confirming_s if one.confirms else left_s.pop(0)
            heapq.heappush(running, (now_s + takes_s, number, one))
            number += 1
        if not running:
            return found
        now_s, _, done = heapq.heappop(running)
        search.tell(done, _verdict(judge, done))
        if done.confirms:
            found.append((now_s, done.proposal.idea))


def _one_task(*scripts: str, workers: int) -> Search:
    searches = [TaskSearch(task_of((4, 8), name="t0"), "softmax")]
    share_workers(searches, workers)
    spec = SearchSpec(candidates_per_task=len(scripts), repairs=0, patience=99)
    strategy = RepairThenWrite(team(ScriptedCoder(scripts)), INFO, spec)
    return Search(searches, strategy, INFO)


def test_a_leader_is_confirmed_while_its_task_waits_for_others() -> None:
    search = _one_task("correct 9", "wrong", workers=4)
    assert _confirmed_at(search, (45, 68), confirming_s=35, workers=4) == [(80, "correct 9")]
    assert search.is_over
    assert [s.task.name for s in search.ended()] == ["t0"]


def test_what_comes_later_and_is_better_is_confirmed_in_its_turn() -> None:
    search = _one_task("correct 9", "correct 3", workers=4)
    found = _confirmed_at(search, (45, 68), confirming_s=35, workers=4)
    assert found == [(80, "correct 9"), (115, "correct 3")]
    (task,) = search.tasks
    assert task.champion is not None
    assert task.champion.rank.value == 3.0
    assert list(search.ended()) == [task]


def test_what_comes_later_and_is_slower_takes_no_place_from_a_champion() -> None:
    search = _one_task("correct 3", "correct 9", workers=4)
    assert _confirmed_at(search, (45, 68), confirming_s=35, workers=4) == [(80, "correct 3")]
    assert search.tasks[0].survived == {search.tasks[0].champion.program_id}  # type: ignore[union-attr]


def test_a_leader_that_fails_early_gives_way_to_the_next() -> None:
    search = _one_task("correct 1", "correct 9", workers=4)
    found = _confirmed_at(search, (45, 46), confirming_s=35, workers=4)
    assert found == [(80, "correct 1"), (115, "correct 9")]
    (task,) = search.tasks
    assert (task.best, task.unconfirmed) == (task.champion and task.champion.rank, None)


def test_a_first_champion_is_confirmed_before_others_once_it_outlasted_a_batch() -> None:
    search = _one_task("correct 2", *(f"correct {n}" for n in range(10, 30)), workers=1)
    found = _confirmed_at(search, (10,) * 21, confirming_s=35, workers=1)
    assert found == [(50 + 35, "correct 2")]


def test_no_worker_confirms_what_may_be_beaten_while_there_are_candidates() -> None:
    search = _one_task(*(f"correct {n}" for n in range(30, 10, -1)), workers=2)
    found = _confirmed_at(search, (10,) * 20, confirming_s=35, workers=2)
    # The last candidate is under way when the one before it is confirmed.
    assert [idea for _, idea in found] == ["correct 12", "correct 11"]


def test_a_confirmation_that_is_taken_back_is_asked_for_again() -> None:
    search, judge = _one_task("correct 9", "wrong", workers=4), ScriptedJudge()
    first, second = search.ask(4)
    search.tell(first, _verdict(judge, first))
    (early,) = search.confirm_early(3)
    assert search.confirm_early(3) == []
    search.abandon(early)
    assert [s.confirms for s in search.confirm_early(1)] == [True]
    assert search.tasks[0].in_flight == [first.proposal, second.proposal]
