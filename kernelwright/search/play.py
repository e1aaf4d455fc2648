"""One task's bandit at work: its step, its verdicts to come, and what its past says."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from kernelwright.agents.message import Spent
from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.agents.roles.coder import Conclusion
from kernelwright.search.bandit import (
    Bandit,
    Move,
)
from kernelwright.search.failure import described, is_machines
from kernelwright.search.ranking import rank_of
from kernelwright.search.task_search import TaskSearch

Batch = list[Proposal]
NOTHING_SPENT = Spent()


@dataclass(frozen=True)
class Taken:
    """A step whose programs are being judged."""

    move: Move
    batch: Batch
    before: float | None
    """The best rank when the step began."""
    spent: Spent = NOTHING_SPENT
    """What the replies to it took."""


@dataclass
class Play:
    """One task's bandit, the step that is under way, and those whose programs are judged."""

    bandit: Bandit = field(default_factory=Bandit)
    move: Move | None = None
    thinking: Future[Batch] | None = None
    before: float | None = None
    taken: list[Taken] = field(default_factory=list)
    reached: float | None = None
    """The best rank that a step was credited with."""
    dry: set[Move] = field(default_factory=set)
    """Moves that had nothing to offer since the last verdicts."""
    over: str = ""
    """Why models are asked no more."""
    fault: str = ""
    """Why templates are tried no more, where writing them failed."""
    is_asked: bool = False
    """True once a model was asked for a program: its plan was paid for, too."""
    cap: str = ""
    """Which cap is reached, where that is for want of money, tokens, calls or time."""
    is_recalled: bool = False
    """True once the schedules that won before have been proposed."""
    telling: Future[Sequence[Conclusion]] | None = None
    """The last verdicts on their way to whoever wrote the programs."""
    told: bool = False
    wrote: dict[str, Move] = field(default_factory=dict)
    """The last step whose programs each author wrote."""
    spent: Spent = NOTHING_SPENT
    """What replies about the task had taken when the step began."""


def take(play: Play, batch: Batch, spent: Spent = NOTHING_SPENT) -> Batch:
    """Note that a step has brought programs, which are judged from now on, and what it took."""
    assert play.move is not None
    play.taken.append(Taken(play.move, batch, play.before, spent))
    return batch


def written(play: Play, write: Callable[[], Sequence[Proposal]]) -> Batch:
    """Return what templates propose; where they fail, nothing more, and models go on."""
    if play.fault:
        return []
    try:
        return list(write())
    except Exception as e:
        if is_machines(e):
            raise
        play.fault = f"templates cannot go on: {described(e)}"
        return []


def credited_from(play: Play, taken: Taken) -> float | None:
    """Return the rank that a step's programs have to beat; None where no program was right.

    Steps that were judged side by side began from the same one: what the first of them reached is
    no gain of the next.
    """
    return min((v for v in (taken.before, play.reached) if v is not None), default=None)


def best_value(search: TaskSearch) -> float | None:
    """Return the rank of the best that proposals may know of; None without one."""
    best = search.best_known
    return best.value if best is not None else None


def fastest(history: Sequence[Attempt]) -> Attempt | None:
    """Return the fastest right candidate."""
    slowness = slowness_of(history)
    correct = [a for a in history if a.evaluation.is_correct and a.proposal.program.id in slowness]
    return min(correct, key=lambda a: slowness[a.proposal.program.id], default=None)


def slowness_of(history: Sequence[Attempt]) -> dict[str, float]:
    """Return a number for each right program, smaller is faster."""
    ranks = {a.proposal.program.id: rank_of(a.evaluation) for a in history}
    return {program: rank.value for program, rank in ranks.items() if rank is not None}
