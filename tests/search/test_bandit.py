"""Steps are chosen by what they gained for what they cost; ideas keep their turns."""

import math

import pytest

from kernelwright.agents.protocols import Attempt
from kernelwright.evaluator.evaluation import Status
from kernelwright.metal.kernel import Tunable
from kernelwright.search.bandit import (
    Bandit,
    ModelOffer,
    Move,
    gain_of,
    lead_of,
    parents,
    repairable,
)
from kernelwright.search.step import Credited, Step
from kernelwright.search.tunables import neighbours, tuned
from tests.agents.loopback.scene import (
    BODY,
    attempt,
    correct,
    draft,
    racing,
    uncompiled,
    unproven,
    wrong_at_the_tail,
)

IDEA, IMPROVE, TUNE = Move(Step.IDEA), Move(Step.IMPROVE), Move(Step.TUNE)
MOVES = {Move(step) for step in Step}


def test_every_available_step_is_tried_once_first() -> None:
    bandit = Bandit()
    taken = []
    for _ in Step:
        move = bandit.choose(MOVES)
        assert move is not None
        taken.append(move)
        bandit.credit(move, gain=0.0, dollars=0.01, seconds=1.0)
    assert set(taken) == MOVES


def test_the_step_that_gains_most_for_its_cost_is_preferred() -> None:
    bandit = Bandit()
    for move in MOVES:
        bandit.credit(move, gain=0.2 if move == IMPROVE else 0.0, dollars=0.02, seconds=5)
    assert bandit.choose(MOVES) == IMPROVE


def test_a_step_whose_verdicts_are_outstanding_counts_as_tried() -> None:
    bandit = Bandit()
    first = bandit.choose({TUNE, IDEA})
    assert first == TUNE
    assert bandit.choose({TUNE, IDEA}, [TUNE]) == IDEA
    assert bandit.arms == {}


def test_a_dear_step_needs_a_larger_gain() -> None:
    bandit = Bandit()
    bandit.credit(IDEA, gain=0.2, dollars=2.0, seconds=5)
    bandit.credit(TUNE, gain=0.1, dollars=0.0, seconds=5)
    assert bandit.choose({IDEA, TUNE}) == TUNE


def test_a_fruitless_step_is_not_repeated_for_ever() -> None:
    bandit, taken = Bandit(), []
    for _ in range(20):
        move = bandit.choose({IDEA, TUNE})
        assert move is not None
        taken.append(move)
        bandit.credit(move, gain=0.0, dollars=0.01 if move == IDEA else 0.0, seconds=1)
    assert 3 <= taken.count(IDEA) <= 17


CHEAP, STRONG = ModelOffer("openai:small", 1.0), ModelOffer("anthropic:large", 20.0)


def asked(step: Step) -> set[Move]:
    return {Move(step, offer.name) for offer in (STRONG, CHEAP)}


def test_the_cheap_model_drafts_and_the_strong_one_improves_at_first() -> None:
    bandit = Bandit((STRONG, CHEAP))
    assert bandit.choose(asked(Step.IDEA)) == Move(Step.IDEA, CHEAP.name)
    assert bandit.choose(asked(Step.IMPROVE)) == Move(Step.IMPROVE, STRONG.name)


@pytest.mark.parametrize(("strong", "chosen"), [(0.5, STRONG), (0.01, CHEAP)])
def test_then_the_measured_gain_for_a_dollar_decides(strong: float, chosen: ModelOffer) -> None:
    bandit = Bandit((STRONG, CHEAP))
    for _ in range(4):
        bandit.credit(Move(Step.IMPROVE, STRONG.name), gain=strong, dollars=0.2, seconds=5)
        bandit.credit(Move(Step.IMPROVE, CHEAP.name), gain=0.01, dollars=0.01, seconds=5)
    assert bandit.choose(asked(Step.IMPROVE)) == Move(Step.IMPROVE, chosen.name)


def test_what_earlier_campaigns_learnt_counts_for_a_few_tries_only() -> None:
    bandit = Bandit((STRONG, CHEAP))
    learnt = [
        Credited(step=Step.IDEA, model=CHEAP.name, gain=0.0, dollars=0.02),
        Credited(step=Step.IDEA, model=STRONG.name, gain=0.6, dollars=0.1),
    ]
    bandit.remember(learnt * 50)
    assert bandit.choose(asked(Step.IDEA)) == Move(Step.IDEA, STRONG.name)
    assert bandit.arms[Move(Step.IDEA, STRONG.name)].tries == pytest.approx(4.0)
    for _ in range(20):
        bandit.credit(Move(Step.IDEA, STRONG.name), gain=0.0, dollars=0.2, seconds=5)
    assert bandit.choose(asked(Step.IDEA)) == Move(Step.IDEA, CHEAP.name)


def test_nothing_available_is_no_step() -> None:
    assert Bandit().choose(()) is None


@pytest.mark.parametrize(
    ("before", "after", "gain"),
    [(None, 3.0, 0.0), (4.0, None, 0.0), (4.0, 2.0, math.log(2)), (4.0, 3.99, 0.0), (4, 5, 0.0)],
)
def test_gain_is_a_verified_speed_up_beyond_noise(
    before: float | None, after: float | None, gain: float
) -> None:
    assert gain_of(before, after) == pytest.approx(gain)


def test_the_most_nearly_right_failure_is_repaired_first() -> None:
    history = [uncompiled(), racing(), wrong_at_the_tail(), correct(), unproven()]
    asked = {racing().proposal.program.id}
    order = [a.evaluation.status for a in repairable(history, asked, rounds=2)]
    assert order == [Status.UNPROVEN, Status.WRONG, Status.COMPILE_ERROR]


def test_improvement_takes_turns_among_ideas_near_the_best() -> None:
    def made(factor: str, parent: str | None = None) -> Attempt:
        return attempt(draft(BODY.replace("2.0", factor)), Status.CORRECT, "correct", parent=parent)

    fast, near, far = made("3.0"), made("4.0"), made("5.0")
    child = made("6.0", parent=fast.proposal.program.id)
    history = [fast, near, far, child]
    slowness = {
        a.proposal.program.id: us for a, us in zip(history, (10.0, 12.0, 90.0, 11.0), strict=True)
    }
    assert parents(history, slowness) == [near, fast]


def test_tuning_moves_one_value_at_a_time_nearest_first() -> None:
    program = correct().proposal.program.model_copy(
        update={
            "tunables": (
                Tunable(name="a", choices=(1, 2, 4, 8), value=2),
                Tunable(name="b", choices=(0, 1), value=0),
            )
        }
    )
    values = [tuple(t.value for t in p.tunables) for p in neighbours(program)]
    assert values == [(1, 0), (4, 0), (2, 1), (8, 0)]
    start = correct()
    start = start.model_copy(
        update={"proposal": start.proposal.model_copy(update={"program": program})}
    )
    tried = {next(neighbours(program)).id}
    proposals = tuned(start, tried, 2)
    assert [p.idea.split("(")[1] for p in proposals] == ["a = 4, b = 0)", "a = 2, b = 1)"]
    assert {p.parent for p in proposals} == {program.id}


def test_what_is_far_behind_the_best_or_came_from_it_is_not_repaired() -> None:
    best = correct()
    slow = draft(BODY.replace("2.0f", "2.00f"))
    timed = attempt(slow, Status.UNPROVEN, "gated", predicted_us=9.0)
    behind = attempt(slow, Status.CORRECT, "right", predicted_us=9.0)
    child = attempt(
        draft(BODY.replace("2.0f", "2.0g")),
        Status.COMPILE_ERROR,
        "wrong",
        parent=behind.proposal.program.id,
    )
    assert repairable([best, timed], (), rounds=2) == []
    assert repairable([best, behind, child], (), rounds=2) == []
    assert repairable([behind, child], (), rounds=2) == [child]


def test_the_first_right_program_leads_by_what_it_gains_over_mlx() -> None:
    told = [
        {
            "baseline": baseline,
            "kind": "predicted",
            "ratio": ratio,
            "lower": ratio,
            "upper": ratio,
            "confidence": 0.95,
        }
        for baseline, ratio in (("eager", 4.0), ("compile", 2.0))
    ]
    right = attempt(draft(BODY), Status.CORRECT, "right", speedups=told)
    assert lead_of([right, uncompiled()]) == pytest.approx(math.log(2.0))
    assert lead_of([correct()]) == lead_of([]) == 0.0
    slow = attempt(draft(BODY), Status.CORRECT, "right", speedups=[{**told[0], "ratio": 0.5}])
    assert lead_of([slow]) == 0.0
    credited = Bandit().credit(IDEA, gain=0.0, dollars=0.1, seconds=1.0, lead=lead_of([right]))
    assert credited.gain == 0.0
    assert credited.lead == pytest.approx(math.log(2.0))
