"""What to try next for a task: repairs of what failed, then new programs, until it is enough."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelwright.agents.offline import tuned_before
from kernelwright.agents.protocols import Attempt, Coder, Planner, Proposal, Repairer
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.plural import counted
from kernelwright.search.spec import SearchSpec
from kernelwright.search.task_search import TaskSearch


def paced(count: int, search: TaskSearch) -> int:
    """Return how many programs that cost nothing to write may be in a task's next batch.

    Batches grow with what was tried: 1, 1, 2, 4. Whether the next evaluation is worth more here or
    on another task depends on the verdicts on the first.
    """
    return min(count, max(len(search.proposals()), 1))


@dataclass(frozen=True)
class Team:
    """Who proposes in a search."""

    planner: Planner
    coder: Coder
    repairer: Repairer


@dataclass(frozen=True)
class Done:
    """Nothing more shall be tried, and why."""

    reason: str
    cap: str = ""
    """Which cap kept models from going on, in a sentence; empty where none did."""
    is_capped: bool = False
    """True when there is more to try, which a larger cap would pay for."""


@dataclass(frozen=True)
class Wait:
    """Somebody is still thinking; ask again soon."""


class Strategy(Protocol):
    """Decides what a task's next batch is. It sees the past and nothing else."""

    def next(self, search: TaskSearch) -> list[Proposal] | Done | Wait:
        """Return programs that the history does not hold, at least one, or why there are none.

        Never waits for a model: it is called while others evaluate, and says `Wait` instead.
        """

    def left(self, search: TaskSearch) -> Sequence[Proposal]:
        """Return programs that lead a task, judged while they were written, and never proposed."""

    def leave(self, search: TaskSearch, reason: str) -> None:
        """Take note that nothing more is asked for a task, and why; waits for nobody."""

    def is_spent(self, search: TaskSearch) -> bool:
        """Say whether a task has had every candidate that it may have."""

    def ending(self, search: TaskSearch) -> str:
        """Say why a task that is stopped has nothing left to try; empty where it has.

        Asks no model.
        """


class RepairThenWrite:
    """Repairs each failure a few times, then asks the coder for more, while that helps."""

    def __init__(self, team: Team, device: DeviceInfo, spec: SearchSpec) -> None:
        self._team = team
        self._device = device
        self._spec = spec

    def next(self, search: TaskSearch) -> list[Proposal] | Done:
        """Return the next batch."""
        room = self._room(search)
        if room <= 0:
            return Done(
                f"{counted(len(search.proposals()), 'candidate')} tried, as many as asked for"
            )
        if repaired := self._repairs(search, room):
            return repaired
        if search.since_best >= self._spec.patience:
            return Done(f"no gain in the last {search.since_best} correct candidates")
        count = paced(min(room, self._spec.batch), search)
        written = self._recalled(search)
        # The coder does not know what is in flight, and proposes that first.
        wanted = count + len(search.in_flight)
        written += self._team.coder.write(search.task, self._device, search.history, count=wanted)
        if fresh := _fresh(written, search):
            return fresh[:count]
        if not search.proposals():
            return Done("no template fits it yet; MLX keeps it")
        return Done("every schedule tried")

    def left(self, search: TaskSearch) -> Sequence[Proposal]:
        """Return nothing: templates are proposed as they are written."""
        return ()

    def leave(self, search: TaskSearch, reason: str) -> None:
        """Do nothing: nobody holds a conversation."""

    def is_spent(self, search: TaskSearch) -> bool:
        """Say whether a task has had every candidate that it may have."""
        return self._room(search) <= 0

    def ending(self, search: TaskSearch) -> str:
        """Say why a task that is stopped has nothing left to try; empty where it has."""
        answer = self.next(search)
        return answer.reason if isinstance(answer, Done) else ""

    def _room(self, search: TaskSearch) -> int:
        return self._spec.candidates_per_task - len(search.proposals())

    def _recalled(self, search: TaskSearch) -> list[Proposal]:
        """Return what was tuned before, at the beginning; the coder goes on from there."""
        if search.proposals():
            return []
        return tuned_before(search.task, self._device, search.tuned)

    def _repairs(self, search: TaskSearch, room: int) -> list[Proposal]:
        repaired: list[Proposal] = []
        for attempt in search.history:
            program_id = attempt.proposal.program.id
            if attempt.evaluation.is_correct or program_id in search.repaired:
                continue
            if len(repaired) >= room:
                break
            search.repaired.add(program_id)
            if _generation(attempt, search.history) >= self._spec.repairs:
                continue
            proposal = self._team.repairer.repair(search.task, self._device, attempt)
            if proposal is not None:
                repaired.append(proposal)
        return _fresh(repaired, search)


def _fresh(proposals: Iterable[Proposal], search: TaskSearch) -> list[Proposal]:
    tried = search.tried()
    fresh = {p.program.id: p for p in proposals if p.program.id not in tried}
    return list(fresh.values())


def _generation(attempt: Attempt, history: Iterable[Attempt]) -> int:
    """Count the repairs that led to an attempt."""
    by_program = {a.proposal.program.id: a for a in history if not a.evaluation.is_correct}
    generation = 0
    parent = attempt.proposal.parent
    while parent is not None and parent in by_program and generation < len(by_program):
        generation += 1
        parent = by_program[parent].proposal.parent
    return generation
