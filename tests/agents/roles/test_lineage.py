"""Lines of corrections end where they lead nowhere, whoever remembers them."""

from collections.abc import Sequence

import pytest

from kernelwright.agents.protocols import Attempt
from kernelwright.agents.roles.lineage import failures_before, is_repairable, may_go_on
from kernelwright.evaluator.evaluation import Status
from tests.agents.loopback.scene import BODY, attempt, correct, draft, racing, unproven


def line(*errors: str, authors: Sequence[str] = ()) -> list[Attempt]:
    """A first draft and its corrections, each failing in its own way."""
    made: list[Attempt] = []
    for number, error in enumerate(errors):
        parent = made[-1].proposal.program.id if made else None
        source = BODY.replace("2.0", f"{number + 3}.0")
        failed = attempt(draft(source), Status.COMPILE_ERROR, error, parent=parent)
        if authors:
            author = {"author": authors[number]}
            failed = failed.model_copy(
                update={"proposal": failed.proposal.model_copy(update=author)}
            )
        made.append(failed)
    return made


def test_failures_are_followed_back_to_the_first_draft() -> None:
    history = [correct(), *line("a", "b", "c"), racing()]
    assert failures_before(history[3], history) == (history[2], history[1])
    assert failures_before(history[1], history) == ()


def test_a_line_of_corrections_ends_after_its_rounds() -> None:
    history = line("a", "b", "c", "d")
    assert [may_go_on(a, history, 2) for a in history] == [True, True, False, False]
    assert not may_go_on(history[0], history, 0)


def test_a_line_of_corrections_ends_when_its_error_comes_again() -> None:
    history = line("a", "b", "a")
    assert [may_go_on(a, history, 9) for a in history] == [True, True, False]


def test_what_rules_mend_counts_for_no_round() -> None:
    history = line("a", "b", "c", authors=("openai:x", "offline", "openai:x"))
    assert [may_go_on(a, history, 1) for a in history] == [True, True, False]


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        (racing(), True),
        (unproven(), True),
        (correct(), False),
        (attempt(draft(BODY), Status.IMPLAUSIBLE, "too fast"), False),
    ],
    ids=["racing", "unproven", "correct", "implausible"],
)
def test_only_what_a_correction_can_change_is_repaired(failed: Attempt, expected: bool) -> None:
    assert is_repairable(failed) is expected
