"""Caps hold whatever is in flight."""

import math
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from kernelwright.agents.budget import Budget, Caps, Cost
from kernelwright.errors import BudgetError

CALL = Cost(dollars=0.4, tokens=1000, calls=1)


def test_calls_in_flight_count_at_their_worst() -> None:
    budget = Budget(Caps(dollars=1.0))
    first, second = budget.reserve(CALL), budget.reserve(CALL)
    assert first is not None
    assert second is not None
    assert budget.reserve(CALL) is None
    budget.settle(first, Cost(dollars=0.1, calls=1))
    assert budget.reserve(CALL) is not None


@pytest.mark.parametrize(
    ("caps", "named"),
    [
        (
            Caps(dollars=0.5),
            "the cap of $0.50 is reached: $0.40 spent so far, and the next call could take $0.40.",
        ),
        (
            Caps(tokens=1500),
            (
                "the cap of 1500 tokens is reached: 1000 tokens spent so far, and the next call "
                "could take 1000 tokens."
            ),
        ),
        (Caps(calls=1), "the cap of 1 call is reached."),
    ],
)
def test_a_call_that_cannot_fit_is_refused_with_the_cap(caps: Caps, named: str) -> None:
    budget = Budget(caps)
    held = budget.reserve(CALL)
    assert held is not None
    budget.settle(held, CALL)
    with pytest.raises(BudgetError, match=f"^{re.escape(named)}$"):
        budget.reserve(CALL)


def test_a_cap_tells_what_was_billed_from_what_calls_without_a_bill_may_cost() -> None:
    budget = Budget(Caps(dollars=1.0, tokens=9000))
    budget.restore([("a", CALL, 1.0), ("a", CALL.as_assumed, 1.0)])
    with pytest.raises(BudgetError) as refused:
        budget.reserve(CALL)
    assert str(refused.value) == (
        "the cap of $1.00 is reached: $0.40 spent, at most $0.40 more for 1 call without a whole "
        "reply, and the next call could take $0.40."
    )
    spent = budget.spent("a")
    assert (spent.known_dollars, spent.known_tokens) == (CALL.dollars, CALL.tokens)


def test_a_call_that_is_taken_up_is_assumed_no_more() -> None:
    budget = Budget(Caps(dollars=1.0))
    budget.restore([("a", CALL.as_assumed, 1.0)])
    held = budget.take_up(CALL, "a")
    assert budget.spent() == Cost()
    budget.settle(held, Cost(dollars=0.1, tokens=200, calls=1))
    assert budget.spent() == Cost(dollars=0.1, tokens=200, calls=1)


def test_a_call_that_cost_nothing_has_no_bill_to_wait_for() -> None:
    assert Cost(calls=1).as_assumed == Cost(calls=1)


def test_each_task_has_caps_of_its_own() -> None:
    budget = Budget(per_task=Caps(calls=1))
    held = budget.reserve(CALL, "a")
    assert held is not None
    budget.settle(held, CALL)
    assert budget.reserve(CALL, "b") is not None
    with pytest.raises(BudgetError, match="the task's cap of 1 call is reached"):
        budget.reserve(CALL, "a")


def test_time_is_a_cap_too() -> None:
    now = [100.0]
    budget = Budget(Caps(seconds=60), clock=lambda: now[0])
    now[0] = 150.0
    assert budget.seconds_left() == pytest.approx(10)
    now[0] = 160.0
    with pytest.raises(BudgetError, match="the cap of 1 min is reached"):
        budget.reserve(CALL)


def test_an_earlier_run_counts() -> None:
    budget = Budget(Caps(calls=5))
    budget.restore([("a", CALL, 1.0), ("b", CALL, 1.0)])
    assert budget.spent().calls == 2
    assert budget.spent("a").calls == 1


def test_the_seconds_of_an_earlier_run_count_for_each_task() -> None:
    budget = Budget(Caps(seconds=100), Caps(seconds=60), clock=lambda: 0.0)
    budget.restore([("a", CALL, 25.0), ("a", CALL, 25.0), ("b", CALL, 5.0)], elapsed_s=30.0)
    assert [budget.seconds_left(task) for task in ("a", "b", "")] == [10, 55, 70]


def test_threads_together_never_exceed_a_cap() -> None:
    budget = Budget(Caps(calls=50))

    def spend(_: int) -> int:
        try:
            held = budget.reserve(CALL)
        except BudgetError:
            return 0
        if held is None:
            return 0
        budget.settle(held, CALL)
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(spend, range(400))) == 50
    assert budget.spent().calls == 50


def test_an_infinite_cap_is_none_and_no_number_is_refused() -> None:
    assert Caps(dollars=math.inf, seconds=math.inf, tokens=10).limits == ("10 tokens",)
    with pytest.raises(ValueError, match="expected a number, found nan"):
        Caps(dollars=math.nan)
