"""The search goes on when models are silent, and says why when it ends."""

import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from kernelwright.agents.message import Spent
from kernelwright.agents.offline import OfflineCoder
from kernelwright.agents.protocols import Attempt, Plan, Proposal
from kernelwright.agents.providers.fault import AskedToWaitError, OutageError
from kernelwright.agents.roles.coder import Conclusion
from kernelwright.agents.roles.text.coder_prompt import NEW_IDEA, Start
from kernelwright.errors import BudgetError, ModelError, UnsupportedError
from kernelwright.evaluator.evaluation import Evaluation, Speedup, Status
from kernelwright.evaluator.task import Task
from kernelwright.ir import Graph
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Tunable
from kernelwright.search.bandit import ModelOffer
from kernelwright.search.bandit_strategy import BanditStrategy
from kernelwright.search.learner import NoLearning
from kernelwright.search.play import Batch
from kernelwright.search.spec import SearchSpec
from kernelwright.search.step import Credited, Step
from kernelwright.search.strategy import Done, Team, Wait
from kernelwright.search.task_search import TaskSearch
from tests.agents.loopback.scene import (
    BODY,
    DEVICE,
    FIXED_RACE,
    TASK,
    attempt,
    correct,
    draft,
    racing,
)

SLOW = correct().evaluation.model_copy(update={"predicted_us": 40.0})
"""Right, and far above the floor."""


class Offline:
    """Plans nothing, writes one program, repairs nothing."""

    def plan(self, graph: Graph, device: DeviceInfo) -> Plan:
        return Plan(regions=(), author="offline")

    def write(
        self, task: Task, device: DeviceInfo, history: Sequence[Attempt], *, count: int
    ) -> Sequence[Proposal]:
        return [] if history else [correct().proposal]

    def repair(self, task: Task, device: DeviceInfo, failed: Attempt) -> Proposal | None:
        return None


class Asked:
    """A model's coder that always ends the same way."""

    def __init__(self, ending: Exception | Sequence[Proposal]) -> None:
        self.ending = ending
        self.count = 0
        self.starts: list[tuple[Start, int]] = []

    def write(
        self,
        task: Task,
        device: DeviceInfo,
        history: Sequence[Attempt],
        *,
        count: int,
        start: Start = NEW_IDEA,
    ) -> Sequence[Proposal]:
        self.count += 1
        self.starts.append((start, len(history)))
        if isinstance(self.ending, Exception):
            raise self.ending
        return self.ending

    def owns(self, task: Task, history: Sequence[Attempt], program_id: str) -> bool:
        return False

    def awaits(self, task: Task, model: str = "") -> frozenset[str]:
        return frozenset()

    def speaker(self, task: Task, model: str) -> str:
        return model

    def conclude(self, task: Task, history: Sequence[Attempt]) -> Sequence[Conclusion]:
        return ()

    def cap(self, task: Task) -> str:
        return ""

    def left(self, task: Task, history: Sequence[Attempt]) -> Sequence[Proposal]:
        return ()

    def leave(self, task: Task, history: Sequence[Attempt], reason: str) -> None:
        self.reason = reason

    def spent(self, task: Task) -> Spent:
        return Spent(0.25 * self.count, 4.0 * self.count)


class Clock:
    """Time that passes when told to."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


Open = Callable[[Asked], BanditStrategy]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def wagers(clock: Clock) -> Iterator[Open]:
    opened: list[BanditStrategy] = []

    def make(coder: Asked) -> BanditStrategy:
        offline = Offline()
        team = Team(planner=offline, coder=offline, repairer=offline)
        opened.append(
            BanditStrategy(team, coder, DEVICE, SearchSpec(models=("openai:x",)), clock=clock)
        )
        return opened[-1]

    yield make
    for bandit in opened:
        bandit.close()


class Templates(Offline):
    """Writes as many programs as are asked for."""

    def write(
        self, task: Task, device: DeviceInfo, history: Sequence[Attempt], *, count: int
    ) -> Sequence[Proposal]:
        bodies = [BODY.replace("2.0f", f"{number}.0f") for number in range(2, count + 2)]
        return [
            attempt(draft(body, "A schedule."), Status.CORRECT, "right").proposal for body in bodies
        ]


def test_a_search_of_two_candidates_asks_its_model_before_the_first_verdict() -> None:
    templates, coder = Templates(), Asked([correct().proposal])
    spec = SearchSpec(models=("openai:x",), candidates_per_task=2, jobs=2)
    strategy = BanditStrategy(Team(templates, templates, templates), coder, DEVICE, spec)
    search = TaskSearch(TASK, "double", lag=2)
    first = strategy.next(search)
    assert isinstance(first, list)
    search.begin(first)
    assert isinstance(strategy.next(search), Wait)
    strategy.close()
    assert coder.count == 1


@pytest.mark.parametrize("candidates", [1, 2, 3, 4, 7])
def test_templates_never_take_the_last_candidate_before_a_model_was_asked(
    candidates: int,
) -> None:
    templates, coder = Templates(), Asked([racing().proposal])
    spec = SearchSpec(models=("openai:x",), candidates_per_task=candidates)
    strategy = BanditStrategy(Team(templates, templates, templates), coder, DEVICE, spec)
    search = TaskSearch(TASK, "double")
    while not isinstance(answer := strategy.next(search), Done):
        if isinstance(answer, Wait):
            continue
        for proposal in answer:
            search.history.append(Attempt(proposal=proposal, evaluation=SLOW))
    strategy.close()
    assert coder.count >= 1
    assert len(search.history) <= candidates


def judged(bandit: BanditStrategy, search: TaskSearch) -> Batch | Done | Wait:
    """The next batch that needs no thought, its programs judged correct."""
    while True:
        batch = bandit.next(search)
        if not isinstance(batch, list):
            return batch
        search.begin(batch)
        for proposal in batch:
            search.judged(proposal.program.id, SLOW, reused=False)
        search.advance(to_the_end=True)


def test_models_are_left_alone_after_an_outage_and_given_up_after_five(
    wagers: Open, clock: Clock
) -> None:
    coder = Asked(OutageError("openai:x stayed busy through every retry; try again later."))
    bandit, search = wagers(coder), TaskSearch(TASK, "affine")
    answer: Batch | Done | Wait = Wait()
    # The clock is the test's own; the thread that asks needs a moment of real time.
    for _ in range(20_000):
        answer = judged(bandit, search)
        clock.now_s += 1.0
        time.sleep(0.0005)
        if isinstance(answer, Done):
            break
    assert isinstance(answer, Done)
    assert "stayed busy" in answer.reason
    assert coder.count == 5
    assert clock.now_s > 30 + 60 + 120 + 240


@pytest.mark.parametrize(("wait_s", "asked"), [(99_999.0, 1), (200.0, 3)])
def test_a_server_that_asks_to_wait_is_waited_for_up_to_ten_minutes(
    wagers: Open, clock: Clock, wait_s: float, asked: int
) -> None:
    coder = Asked(AskedToWaitError("openai:x", wait_s, "slow down"))
    bandit, search = wagers(coder), TaskSearch(TASK, "affine")
    answer: Batch | Done | Wait = Wait()
    for _ in range(5_000):
        answer = judged(bandit, search)
        if isinstance(answer, Done):
            break
        clock.now_s += 1.0
        time.sleep(0.0005)
    assert isinstance(answer, Done)
    assert answer.reason.startswith("openai:x asks to wait ")
    assert search.history, "tuning went on"
    assert coder.count == asked


def test_a_spent_budget_ends_the_task_with_what_was_next(wagers: Open) -> None:
    coder = Asked(BudgetError("the next call could take $1.00; raise the cap to go on."))
    bandit, search = wagers(coder), TaskSearch(TASK, "affine")
    answer = judged(bandit, search)
    while isinstance(answer, Wait):
        answer = judged(bandit, search)
    assert isinstance(answer, Done)
    assert answer.reason.endswith("raise the cap to go on (next would have been: idea)")
    assert coder.count == 1


def test_what_no_waiting_mends_ends_the_search(wagers: Open) -> None:
    bandit, search = wagers(Asked(ModelError("refuses the key"))), TaskSearch(TASK, "affine")

    def wait() -> None:
        while isinstance(judged(bandit, search), Wait):
            time.sleep(0.001)

    with pytest.raises(ModelError, match="refuses the key"):
        wait()


@pytest.mark.parametrize("said", [[], [correct().proposal]])
def test_whoever_ends_a_conversation_is_not_asked_anew_before_there_is_a_verdict(
    wagers: Open, said: list[Proposal]
) -> None:
    coder = Asked(said)
    bandit, search = wagers(coder), TaskSearch(TASK, "affine")
    answer = judged(bandit, search)
    while isinstance(answer, Wait):
        answer = judged(bandit, search)
    assert answer == Done("every schedule tried, and no new idea")
    assert coder.count == 1


def test_a_models_program_is_evaluated_like_any_other(wagers: Open) -> None:
    bandit, search = wagers(Asked([racing().proposal])), TaskSearch(TASK, "affine")
    seen: list[str] = []
    for _ in range(10_000):
        batch = bandit.next(search)
        if isinstance(batch, Done):
            break
        if isinstance(batch, Wait):
            # The model answers on a thread of its own.
            time.sleep(0.001)
        if isinstance(batch, list):
            search.begin(batch)
            for proposal in batch:
                seen.append(proposal.idea)
                search.judged(proposal.program.id, SLOW, reused=False)
            search.advance(to_the_end=True)
    assert len(seen) == 2


def test_schedules_that_won_before_come_first_also_when_a_model_is_there(wagers: Open) -> None:
    written = OfflineCoder().write(TASK, DEVICE, (), count=3)
    search = TaskSearch(TASK, "affine", tuned=(written[-1].schedule,))
    batch = wagers(Asked([])).next(search)
    assert isinstance(batch, list)
    assert [p.schedule for p in batch] == [written[-1].schedule]


def judge_as(bandit: BanditStrategy, search: TaskSearch, evaluation: Evaluation) -> list[str]:
    """Run a task to its end; return the ideas in the order in which they were proposed."""
    ideas: list[str] = []
    while not isinstance(answer := bandit.next(search), Done):
        if isinstance(answer, list):
            search.begin(answer)
            for proposal in answer:
                ideas.append(proposal.idea)
                # What leaves something open is the fastest.
                faster = 0.8 if proposal.program.tunables else 1.0
                taken = (evaluation.predicted_us or 0.0) * faster
                found = evaluation.model_copy(
                    update={"program": proposal.program.id, "predicted_us": taken}
                )
                search.judged(proposal.program.id, found, reused=False)
            search.advance(to_the_end=True)
    return ideas


def test_nobody_is_asked_at_the_floor(wagers: Open) -> None:
    coder = Asked([racing().proposal])
    search = TaskSearch(TASK, "affine")
    fast = SLOW.model_copy(update={"predicted_us": 0.5})
    assert len(judge_as(wagers(coder), search, fast)) == 1
    assert coder.count == 0


def test_what_a_program_leaves_open_is_tuned_before_anybody_improves_on_it(wagers: Open) -> None:
    open_tunable = Tunable(name="N", choices=(2, 4, 8), value=4)
    proposal = correct().proposal
    tunable = proposal.program.model_copy(update={"tunables": (open_tunable,)})
    written = proposal.model_copy(update={"program": tunable, "idea": "Open."})
    coder = Asked([written])
    ideas = judge_as(wagers(coder), TaskSearch(TASK, "affine"), SLOW)
    first = ideas.index("Open.")
    assert ideas[first + 1 :] == ["Open. (N = 2)", "Open. (N = 8)"]
    # The template's program, the model's, and its two other values are judged by then.
    assert min(known for start, known in coder.starts if start.improve is not None) == 4


class Faulty(Offline):
    """Templates that fail whenever they are asked."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.count = 0

    def write(
        self, task: Task, device: DeviceInfo, history: Sequence[Attempt], *, count: int
    ) -> Sequence[Proposal]:
        self.count += 1
        raise self.error


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("a slip"), UnsupportedError("too deep for templates.")]
)
def test_templates_that_fail_keep_no_model_from_being_asked(error: Exception) -> None:
    templates, coder = Faulty(error), Asked([correct().proposal])
    spec = SearchSpec(models=("openai:x",), candidates_per_task=3)
    strategy = BanditStrategy(Team(templates, templates, templates), coder, DEVICE, spec)
    search = TaskSearch(TASK, "double")
    answer = judged(strategy, search)
    while isinstance(answer, Wait):
        answer = judged(strategy, search)
    strategy.close()
    assert coder.count >= 1
    assert templates.count == 1
    assert [a.proposal for a in search.history] == [correct().proposal]
    assert isinstance(answer, Done)
    assert re.match(r"templates cannot go on: .*(a slip|too deep)", answer.reason)


def test_models_that_fail_leave_templates_going(wagers: Open) -> None:
    bandit, search = wagers(Asked(ZeroDivisionError("a slip"))), TaskSearch(TASK, "affine")
    answer = judged(bandit, search)
    while isinstance(answer, Wait):
        answer = judged(bandit, search)
    assert isinstance(answer, Done)
    assert answer.reason == "models cannot go on: ZeroDivisionError: a slip"
    assert [a.proposal for a in search.history] == [correct().proposal]


class Leaving(Asked):
    """A coder that fails when a right program of its own was not submitted yet."""

    def left(self, task: Task, history: Sequence[Attempt]) -> Sequence[Proposal]:
        return (racing().proposal,)


def test_what_a_model_checked_is_tried_when_models_fail(wagers: Open) -> None:
    bandit, search = wagers(Leaving(ZeroDivisionError("a slip"))), TaskSearch(TASK, "affine")
    while not isinstance(judged(bandit, search), Done):
        pass
    assert racing().proposal in [a.proposal for a in search.history]


@pytest.mark.parametrize(("candidates", "lag"), [(1, 0), (1, 2), (4, 0), (4, 2)])
def test_a_model_goes_on_from_the_incumbent_which_is_no_candidate(
    candidates: int, lag: int
) -> None:
    incumbent = attempt(draft(FIXED_RACE, "Through a tile."), Status.CORRECT, "right")
    templates, coder = Templates(), Asked([correct().proposal])
    spec = SearchSpec(models=("openai:x",), candidates_per_task=candidates)
    strategy = BanditStrategy(Team(templates, templates, templates), coder, DEVICE, spec)
    search = TaskSearch(TASK, "double", lag=lag, incumbent=incumbent.proposal)
    assert play_out(strategy, search) == search.candidate_count + 1
    assert 1 <= search.candidate_count <= candidates
    assert search.history[0].proposal == incumbent.proposal
    start, known = coder.starts[0]
    assert known >= 1
    assert incumbent.proposal not in [a.proposal for a in start.inspirations]


def test_without_an_archive_nobody_goes_on_from_the_incumbent() -> None:
    templates, coder = Templates(), Asked([])
    spec = SearchSpec(models=("openai:x",), candidates_per_task=2)
    team = Team(templates, templates, templates)
    strategy = BanditStrategy(team, coder, DEVICE, spec, uses_archive=False)
    incumbent = attempt(draft(FIXED_RACE), Status.CORRECT, "right").proposal
    search = TaskSearch(TASK, "double", incumbent=incumbent)
    assert play_out(strategy, search) == search.candidate_count >= 1
    assert incumbent not in search.proposals()


def play_out(strategy: BanditStrategy, search: TaskSearch, evaluation: Evaluation = SLOW) -> int:
    """Find every proposal right and slow, to the end; return how many there were."""
    while True:
        search.advance()
        batch = strategy.next(search)
        if isinstance(batch, Wait):
            time.sleep(0.001)
        elif isinstance(batch, Done):
            if not search.in_flight:
                strategy.close()
                return len(search.history)
            search.is_draining = True
        else:
            search.begin(batch)
            for proposal in batch:
                search.judged(
                    proposal.program.id,
                    evaluation.model_copy(update={"program": proposal.program.id}),
                    reused=False,
                )


class Remembering(NoLearning):
    """Keeps what steps cost and gained."""

    def __init__(self) -> None:
        self.steps: list[Credited] = []

    def credited(self, task: Task, credited: Credited) -> None:
        self.steps.append(credited)


def test_replies_that_bring_no_program_count_at_what_they_cost() -> None:
    memory, coder = Remembering(), Asked([])
    spec = SearchSpec(models=("openai:x",), candidates_per_task=2)
    team = Team(Offline(), Offline(), Offline())
    strategy = BanditStrategy(team, coder, DEVICE, spec, learner=memory)
    play_out(strategy, TaskSearch(TASK, "double"))
    asked = [step for step in memory.steps if step.step is not Step.TUNE]
    assert len(asked) == coder.count >= 1
    assert all(step.dollars == pytest.approx(0.25 + 4 * 0.5 / 3600) for step in asked)


def test_a_step_is_its_models_that_wrote_the_program_and_not_whom_it_asked_first() -> None:
    body = BODY.replace("2.0f", "7.0f")
    written = attempt(draft(body, "An idea."), Status.CORRECT, "right").proposal
    memory = Remembering()
    coder = Asked([written.model_copy(update={"author": "openai:y"})])
    spec = SearchSpec(models=("openai:x", "openai:y"), candidates_per_task=2)
    team = Team(Offline(), Offline(), Offline())
    offers = (ModelOffer("openai:x", 0.1), ModelOffer("openai:y", 1.0))
    strategy = BanditStrategy(team, coder, DEVICE, spec, learner=memory, offers=offers)
    play_out(strategy, TaskSearch(TASK, "double"))
    step = next(step for step in memory.steps if step.step is Step.IDEA)
    assert step.model == "openai:y"


class Noting(Asked):
    """Whoever says what was learnt, which costs."""

    is_told = False

    def awaits(self, task: Task, model: str = "") -> frozenset[str]:
        return frozenset() if model or self.is_told else frozenset({"it"})

    def conclude(self, task: Task, history: Sequence[Attempt]) -> Sequence[Conclusion]:
        self.is_told = True
        return (Conclusion("openai:gpt-5", "It pays.", Spent(0.5, 2.0)),)


class Capped(Noting):
    """Whoever meets a cap where it is told its last verdict."""

    def cap(self, task: Task) -> str:
        return "the cap of 3 calls is reached" if self.is_told else ""


def test_a_cap_that_a_conversation_met_at_its_end_is_named() -> None:
    coder = Capped([correct().proposal])
    spec = SearchSpec(models=("openai:gpt-5",), candidates_per_task=2)
    strategy = BanditStrategy(Team(Offline(), Offline(), Offline()), coder, DEVICE, spec)
    search = TaskSearch(TASK, "affine")
    judge_as(strategy, search, SLOW)
    answer = strategy.next(search)
    assert isinstance(answer, Done)
    assert answer.cap == "the cap of 3 calls is reached"


def test_what_is_told_after_a_models_program_was_tuned_is_no_tuning() -> None:
    proposal = correct().proposal
    open_tunable = Tunable(name="N", choices=(2, 4, 8), value=4)
    tunable = proposal.program.model_copy(update={"tunables": (open_tunable,)})
    memory = Remembering()
    coder = Noting([proposal.model_copy(update={"program": tunable})])
    spec = SearchSpec(models=("openai:gpt-5",), candidates_per_task=4)
    team = Team(Offline(), Offline(), Offline())
    strategy = BanditStrategy(team, coder, DEVICE, spec, learner=memory)
    judge_as(strategy, TaskSearch(TASK, "affine"), SLOW)
    assert memory.steps[-2].step is Step.TUNE
    assert [(step.step, step.model) for step in memory.steps if not step.tries] == [(Step.IDEA, "")]


def test_schedules_that_are_judged_side_by_side_share_one_lead_over_mlx() -> None:
    memory, templates = Remembering(), Templates()
    told = Speedup(baseline="eager", kind="predicted", ratio=2.0)
    spec = SearchSpec(candidates_per_task=4)
    team = Team(templates, templates, templates)
    strategy = BanditStrategy(team, Asked([]), DEVICE, spec, learner=memory)
    search = TaskSearch(TASK, "double", lag=2)
    play_out(strategy, search, SLOW.model_copy(update={"speedups": (told,)}))
    assert len([step for step in memory.steps if step.step is Step.TUNE]) > 1
    assert sum(step.lead + step.gain for step in memory.steps) == pytest.approx(math.log(2.0))


class Unsubmitted(Asked):
    """A model that is at it when the time is over, with a right program that it checked."""

    def __init__(self, draft: Proposal) -> None:
        super().__init__([])
        self.draft, self.is_over = draft, threading.Event()

    def write(
        self,
        task: Task,
        device: DeviceInfo,
        history: Sequence[Attempt],
        *,
        count: int,
        start: Start = NEW_IDEA,
    ) -> Sequence[Proposal]:
        found = super().write(task, device, history, count=count, start=start)
        self.is_over.wait(20.0)
        return found

    def left(self, task: Task, history: Sequence[Attempt]) -> Sequence[Proposal]:
        return () if self.draft in [a.proposal for a in history] else (self.draft,)


def test_a_draft_that_is_proposed_at_the_end_is_its_steps_gain() -> None:
    body = BODY.replace("2.0f", "7.0f")
    written = attempt(draft(body, "An idea."), Status.CORRECT, "right").proposal
    memory, coder = Remembering(), Unsubmitted(written.model_copy(update={"author": "openai:x"}))
    spec = SearchSpec(models=("openai:x",), candidates_per_task=4)
    team = Team(Offline(), Offline(), Offline())
    offers = (ModelOffer("openai:x", 1.0),)
    strategy = BanditStrategy(team, coder, DEVICE, spec, learner=memory, offers=offers)
    search = TaskSearch(TASK, "affine")
    while isinstance(judged(strategy, search), list):
        pass
    while not coder.count:
        time.sleep(0.001)
    batch = strategy.left(search)
    assert [p.author for p in batch] == ["openai:x"]
    search.begin(batch)
    faster = SLOW.model_copy(update={"predicted_us": 10.0, "program": batch[0].program.id})
    search.judged(batch[0].program.id, faster, reused=False)
    search.advance(to_the_end=True)
    assert not strategy.left(search)
    strategy.leave(search, "the time is over")
    coder.is_over.set()
    strategy.close()
    (step,) = [s for s in memory.steps if s.model == "openai:x" and s.tries]
    assert step.step is Step.IDEA
    assert step.gain == pytest.approx(math.log(4.0))
    # What its replies took is charged beside.
    assert sum(s.paid for s in memory.steps if s.model == "openai:x") == pytest.approx(0.25)
