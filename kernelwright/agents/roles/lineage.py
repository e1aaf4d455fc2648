"""How a failed program came about: from correction to correction, read from the history alone."""

from collections.abc import Sequence

from kernelwright.agents.offline.repairer import AUTHOR as OFFLINE
from kernelwright.agents.protocols import Attempt
from kernelwright.agents.roles.text.feedback import error_signature, is_gated
from kernelwright.evaluator.evaluation import Status

_HOPELESS = frozenset({Status.IMPLAUSIBLE, Status.CRASHED, Status.OUT_OF_MEMORY})
"""Verdicts that no honest correction can change, or that say nothing of the program's text."""


def is_repairable(attempt: Attempt) -> bool:
    """Say whether a correction makes sense at all."""
    evaluation = attempt.evaluation
    if is_gated(evaluation):
        return True
    return not evaluation.is_correct and evaluation.status not in _HOPELESS


def may_go_on(attempt: Attempt, history: Sequence[Attempt], rounds: int) -> bool:
    """Say whether a failure is worth another correction after those that led to it.

    Models get `rounds` corrections in a row, and none once an error comes again. What rules mend
    costs nothing and counts for nothing. A search that was killed knows this as well as before:
    the history holds it all.
    """
    before = failures_before(attempt, history)
    error = error_signature(attempt.evaluation)
    if any(error_signature(failed.evaluation) == error for failed in before):
        return False
    corrections = [attempt, *before][: len(before)]
    return sum(a.proposal.author != OFFLINE for a in corrections) < rounds


def failures_before(attempt: Attempt, history: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """Return the failed programs that an attempt corrects, one after another, the last first."""
    failed = {a.proposal.program.id: a for a in history if not a.evaluation.is_correct}
    line: list[Attempt] = []
    parent = attempt.proposal.parent
    while parent is not None and (found := failed.pop(parent, None)) is not None:
        line.append(found)
        parent = found.proposal.parent
    return tuple(line)
