"""One task under way: what was tried for it, in the order in which it was proposed."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.campaign.ranking import is_confirmed, rank_of
from kernelwright.evaluator.evaluation import Evaluation, Status
from kernelwright.evaluator.task import Task
from kernelwright.store import Rank


@dataclass(frozen=True)
class Champion:
    """The best program that survived confirmation."""

    program_id: str
    evaluation: Evaluation
    rank: Rank


@dataclass
class Pursuit:
    """A task, its attempts so far and the batch that is being evaluated.

    The history grows by whole batches in the order of proposal, whatever order verdicts come
    back in: what is proposed next never depends on how many workers there are.
    """

    task: Task
    signature: str
    tuned: tuple[str, ...] = ()
    """Schedules that won where ops, inputs and chip were the same."""
    history: list[Attempt] = field(default_factory=list)
    repaired: set[str] = field(default_factory=set)
    """Programs that a repairer has been asked about, whatever came of it."""
    batch: list[Proposal] = field(default_factory=list)
    verdicts: dict[str, Evaluation] = field(default_factory=dict)
    best: Rank | None = None
    best_program_id: str | None = None
    since_best: int = 0
    reused: int = 0
    recalled: set[str] = field(default_factory=set)
    """Programs whose verdict the store knew already."""
    is_pending: bool = False
    """True while the next batch is being thought of."""
    ended: bool = False
    refuted: set[str] = field(default_factory=set)
    """Programs that led and did not survive confirmation."""
    champion: Champion | None = None
    reason: str = ""
    """Why nothing more is tried; empty while something may be."""

    @property
    def is_waiting(self) -> bool:
        """True while a verdict on the batch is outstanding."""
        return len(self.verdicts) < len(self.batch)

    @property
    def is_idle(self) -> bool:
        """True when the next batch may be asked for."""
        return not self.ended and not self.is_waiting

    def begin(self, proposals: list[Proposal]) -> None:
        """Start a batch."""
        self.batch = proposals
        self.verdicts = {}

    def judged(self, program_id: str, evaluation: Evaluation, *, reused: bool) -> bool:
        """Take a verdict, from a worker or from the store; True when the candidate leads now."""
        self.verdicts[program_id] = evaluation
        self.reused += reused
        if reused:
            self.recalled.add(program_id)
        rank = rank_of(evaluation)
        if rank is None or (self.best is not None and not _is_better(rank, self.best)):
            return False
        self.best, self.best_program_id = rank, program_id
        return True

    def close_batch(self) -> None:
        """Move the batch into the history."""
        led = any(p.program.id == self.best_program_id for p in self.batch)
        correct = sum(e.is_correct for e in self.verdicts.values())
        self.since_best = 0 if led else self.since_best + correct
        self.history.extend(
            Attempt(proposal=p, evaluation=self.verdicts[p.program.id]) for p in self.batch
        )
        self.batch, self.verdicts = [], {}

    def next_to_confirm(self) -> Proposal | None:
        """Return the best correct program that nothing has refuted yet."""
        ranked = [
            (_key(rank), attempt.proposal)
            for attempt in self.history
            if (rank := rank_of(attempt.evaluation)) is not None
            and attempt.proposal.program.id not in self.refuted
        ]
        return min(ranked, key=lambda pair: pair[0])[1] if ranked else None

    def confirmed(self, program_id: str, evaluation: Evaluation) -> bool:
        """Take the verdict of a confirmation; True when the program is the champion now."""
        rank = rank_of(evaluation)
        if rank is None or not is_confirmed(evaluation):
            self.refuted.add(program_id)
            return False
        self.champion = Champion(program_id, evaluation, rank)
        return True

    def abandon(self, proposals: Collection[Proposal]) -> None:
        """Take proposals that will not be evaluated out of the batch."""
        self.batch = [proposal for proposal in self.batch if proposal not in proposals]

    def failures(self) -> Counter[Status]:
        """Count the verdicts other than correct, by kind."""
        verdicts = [a.evaluation for a in self.history] + list(self.verdicts.values())
        return Counter(v.status for v in verdicts if not v.is_correct)

    @property
    def count(self) -> int:
        """How many verdicts there are."""
        return len(self.history) + len(self.verdicts)

    def tried(self) -> set[str]:
        """Return the ids of every program so far."""
        return {attempt.proposal.program.id for attempt in self.history}


def _is_better(rank: Rank, than: Rank) -> bool:
    return _key(rank) < _key(than)


def _key(rank: Rank) -> tuple[int, float]:
    return ("measured", "predicted", "traffic").index(rank.kind), rank.value
