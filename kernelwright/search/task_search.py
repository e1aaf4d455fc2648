"""One task under way: what was tried for it, in the order of proposal, and what is in flight."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import takewhile

from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.evaluator.evaluation import Evaluation, Status
from kernelwright.evaluator.task import Task
from kernelwright.search.ranking import is_confirmed, rank_of
from kernelwright.store import Rank

_MOST_REFUTED = 3
"""Leaders that may fail confirmation before a task is left to MLX."""


@dataclass(frozen=True)
class Champion:
    """The best program that survived confirmation."""

    program_id: str
    evaluation: Evaluation
    rank: Rank


@dataclass
class TaskSearch:
    """A task, its attempts so far and the proposals whose verdicts are outstanding.

    Proposals are asked for while up to `lag` earlier ones are in flight, and with the verdicts of
    all but those: what is proposed next depends on the order of proposal and on `lag`, and never
    on how long an evaluation took. With a lag of 0 each batch waits for the last.
    """

    task: Task
    signature: str
    tuned: tuple[str, ...] = ()
    """Schedules that won where ops, inputs and chip were the same."""
    incumbent: Proposal | None = None
    """The store's champion of this very task when the search began, which models go on from."""
    lag: int = 0
    calls: int = 1
    """How often the searched functions call it."""
    history: list[Attempt] = field(default_factory=list)
    repaired: set[str] = field(default_factory=set)
    """Programs that a repairer has been asked about, whatever came of it."""
    in_flight: list[Proposal] = field(default_factory=list)
    """Proposed and not in the history yet, in order."""
    verdicts: dict[str, Evaluation] = field(default_factory=dict)
    """Of programs in flight."""
    best_known: Rank | None = None
    """The best of the history, which proposals may know of."""
    best: Rank | None = None
    best_program_id: str | None = None
    since_best: int = 0
    """Correct candidates at the history's end that did not lead."""
    gains: int = 0
    """How often a candidate beat the best before it."""
    reused: int = 0
    recalled: set[str] = field(default_factory=set)
    """Programs whose verdict the store knew already."""
    is_pending: bool = False
    """True while the next batch is being thought of."""
    is_draining: bool = False
    """True when nothing more was proposed before every verdict is there."""
    ended: bool = False
    refuted: set[str] = field(default_factory=set)
    """Programs that led and did not survive confirmation."""
    champion: Champion | None = None
    reason: str = ""
    """Why nothing more is tried; empty while something may be."""

    @property
    def is_waiting(self) -> bool:
        """True while a verdict is outstanding."""
        return any(p.program.id not in self.verdicts for p in self.in_flight)

    @property
    def is_idle(self) -> bool:
        """True when nothing is in flight and more may be asked for."""
        return not self.ended and not self.is_waiting

    @property
    def is_ready(self) -> bool:
        """True when the next batch may be asked for."""
        return not self.ended and self._judged_in_order() >= self._due()

    def begin(self, proposals: Collection[Proposal]) -> None:
        """Put a batch in flight."""
        self.in_flight.extend(proposals)
        self.is_draining = False

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

    def advance(self, *, to_the_end: bool = False) -> None:
        """Move what the next proposals may know of into the history."""
        count = len(self.in_flight) if to_the_end else self._due()
        before = self.best_known
        for proposal in self.in_flight[:count]:
            evaluation = self.verdicts.pop(proposal.program.id)
            self.history.append(Attempt(proposal=proposal, evaluation=evaluation))
            rank = rank_of(evaluation)
            if rank is None:
                continue
            if before is None or _is_better(rank, before):
                self.gains += before is not None
                before, self.since_best = rank, 0
            else:
                self.since_best += 1
        self.best_known = before
        del self.in_flight[:count]

    def _due(self) -> int:
        """Return how many of the proposals in flight the next ones may know of."""
        return max(len(self.in_flight) - (0 if self.is_draining else self.lag), 0)

    def _judged_in_order(self) -> int:
        judged = (p.program.id in self.verdicts for p in self.in_flight)
        return sum(1 for _ in takewhile(bool, judged))

    def next_to_confirm(self) -> Proposal | None:
        """Return the best correct program that nothing has refuted yet.

        Of equally fast ones the choice does not depend on which was tried first.
        """
        best = self._best_unrefuted((a.proposal, a.evaluation) for a in self.history)
        return best[0] if best else None

    def _best_unrefuted(
        self, judged: Iterable[tuple[Proposal, Evaluation]]
    ) -> tuple[Proposal, Evaluation] | None:
        ranked = [
            ((_key(rank), proposal.program.id), (proposal, evaluation))
            for proposal, evaluation in judged
            if (rank := rank_of(evaluation)) is not None and proposal.program.id not in self.refuted
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

    @property
    def is_given_up(self) -> bool:
        """True when so many leaders failed confirmation that no other is confirmed."""
        return len(self.refuted) >= _MOST_REFUTED

    @property
    def unconfirmed(self) -> Evaluation | None:
        """Return the best right verdict that waits for its confirmation; None once there is one."""
        if self.champion is not None or self.is_given_up:
            return None
        told = [(a.proposal, a.evaluation) for a in self.history]
        known = self.verdicts
        new = [(p, known[p.program.id]) for p in self.in_flight if p.program.id in known]
        best = self._best_unrefuted((*told, *new))
        return best[1] if best else None

    @property
    def best_right(self) -> Evaluation | None:
        """Return the verdict on the best right candidate, before any confirmation."""
        ranked = [(r, a) for a in self.history if (r := rank_of(a.evaluation)) is not None]
        best = min(ranked, key=lambda pair: _key(pair[0]), default=None)
        return best[1].evaluation if best else None

    def abandon(self, proposals: Collection[Proposal]) -> None:
        """Take out proposals that will not be evaluated."""
        left = [proposal for proposal in self.in_flight if proposal not in proposals]
        self.in_flight = left

    def failures(self) -> Counter[Status]:
        """Count the verdicts other than correct, by kind."""
        verdicts = [a.evaluation for a in self.history] + list(self.verdicts.values())
        return Counter(v.status for v in verdicts if not v.is_correct)

    @property
    def count(self) -> int:
        """How many verdicts there are."""
        return len(self.history) + len(self.verdicts)

    def tried(self) -> set[str]:
        """Return the ids of every program so far, in flight or judged."""
        return {proposal.program.id for proposal in self.proposals()}

    def proposals(self) -> list[Proposal]:
        """Return everything that was proposed, in order."""
        return [*(attempt.proposal for attempt in self.history), *self.in_flight]

    @property
    def candidate_count(self) -> int:
        """How many candidates were proposed; the incumbent was there before, and is none."""
        known = self.incumbent.program.id if self.incumbent else ""
        return sum(proposal.program.id != known for proposal in self.proposals())


def _is_better(rank: Rank, than: Rank) -> bool:
    return _key(rank) < _key(than)


def _key(rank: Rank) -> tuple[int, float]:
    return ("measured", "predicted", "traffic").index(rank.kind), rank.value
