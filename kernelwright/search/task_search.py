"""One task under way: what was tried for it, in the order of proposal, and what is in flight."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import takewhile

from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.evaluator.evaluation import Evaluation, Status
from kernelwright.evaluator.task import Task
from kernelwright.search.ranking import is_confirmed, rank_of
from kernelwright.store import Candidate, Rank

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
    """The best of all verdicts that are there, those in flight among them, and not refuted."""
    best_program_id: str | None = None
    since_lead: int = 0
    """Right verdicts that came after that one."""
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
    confirming: str | None = None
    """The program whose confirmation was asked for and has no outcome yet."""
    refuted: set[str] = field(default_factory=set)
    """Programs that led and did not survive confirmation."""
    survived: set[str] = field(default_factory=set)
    """Programs that led and did."""
    champion: Champion | None = None
    """The best of those that survived."""
    reason: str = ""
    """Why nothing more is tried; empty while something may be."""
    _ranking: tuple[tuple[int, int, int], list[Attempt]] | None = None
    """What was ranked last, by how much of what there was to rank."""

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
        if rank is None:
            return False
        if self.best is not None and not _is_better(rank, self.best):
            self.since_lead += 1
            return False
        self.best, self.best_program_id, self.since_lead = rank, program_id, 0
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

    def next_to_confirm(self) -> Attempt | None:
        """Return the best right candidate unless it was confirmed, or too many before it failed.

        Of equally fast ones the choice does not depend on which was tried first.
        """
        leader = self._leader()
        is_open = leader is not None and leader.proposal.program.id not in self.survived
        return leader if is_open and not self.is_given_up else None

    def _leader(self) -> Attempt | None:
        """Return the best right candidate that nothing has refuted yet."""
        unrefuted = (a for a in self._ranked() if a.proposal.program.id not in self.refuted)
        return next(unrefuted, None)

    def _ranked(self) -> list[Attempt]:
        """Return every right candidate that has a verdict, the best first.

        Whether a leader is to be confirmed is asked far more often than there is a new verdict.
        """
        known = (len(self.history), len(self.in_flight), len(self.verdicts))
        if self._ranking is None or self._ranking[0] != known:
            self._ranking = known, self._rank()
        return self._ranking[1]

    def _rank(self) -> list[Attempt]:
        new = [
            Attempt(proposal=proposal, evaluation=self.verdicts[proposal.program.id])
            for proposal in self.in_flight
            if proposal.program.id in self.verdicts
        ]
        right = [(rank_of(attempt.evaluation), attempt) for attempt in (*self.history, *new)]
        keyed = [
            (self._place(rank, attempt.proposal.program.id), attempt)
            for rank, attempt in right
            if rank is not None
        ]
        return [attempt for _, attempt in sorted(keyed, key=lambda pair: pair[0])]

    def _place(self, rank: Rank, program_id: str) -> tuple[int, float, str]:
        """Return what a right candidate is ordered by, as the store orders champions."""
        return (*_key(rank), Candidate.id_of(self.task.fingerprint, program_id))

    def confirmed(self, program_id: str, evaluation: Evaluation) -> bool:
        """Take the verdict of a confirmation; True when the program survived it."""
        self.confirming = None
        rank = rank_of(evaluation)
        if rank is None or not is_confirmed(evaluation):
            self.refuted.add(program_id)
            self._lead_without(program_id)
            return False
        self.survived.add(program_id)
        known, place = self.champion, self._place(rank, program_id)
        if known is None or place < self._place(known.rank, known.program_id):
            self.champion = Champion(program_id, evaluation, rank)
        return True

    def _lead_without(self, program_id: str) -> None:
        """Let the next best lead where the best was refuted."""
        if program_id == self.best_program_id:
            leader = self._leader()
            self.best = rank_of(leader.evaluation) if leader else None
            self.best_program_id = leader.proposal.program.id if leader else None

    @property
    def is_given_up(self) -> bool:
        """True when the best candidates failed confirmation, so that no other is confirmed."""
        if len(self.refuted) < _MOST_REFUTED:
            return False
        best = {attempt.proposal.program.id for attempt in self._ranked()[:_MOST_REFUTED]}
        return best <= self.refuted

    @property
    def unconfirmed(self) -> Evaluation | None:
        """Return the best right verdict that waits for its confirmation; None once there is one."""
        if self.champion is not None or self.is_given_up:
            return None
        leader = self._leader()
        return leader.evaluation if leader else None

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
