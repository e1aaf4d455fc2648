"""Candidates on their way: what waits, in which order it begins, and what begins alone."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from kernelwright.agents.protocols import Proposal
from kernelwright.search.search import Suggestion
from kernelwright.search.task_search import TaskSearch
from kernelwright.store import Trial

_LOOK_S = 1.0


@dataclass(frozen=True)
class Work:
    """A candidate on its way: the store holds its intent."""

    suggestion: Suggestion
    trial: Trial

    @property
    def search(self) -> TaskSearch:
        """Its task's search."""
        return self.suggestion.search

    @property
    def proposal(self) -> Proposal:
        """What was proposed."""
        return self.suggestion.proposal

    @property
    def confirms(self) -> bool:
        """True when the candidate was judged before and is to be confirmed."""
        return self.suggestion.confirms

    @property
    def candidate_id(self) -> str:
        """The candidate's id."""
        return self.trial.candidate_id


class Queue:
    """What is to be evaluated or confirmed.

    Quarantined candidates begin when nothing else is left, one at a time with nothing beside them.
    Their tasks wait with them: what is proposed next is what an undisturbed run proposes.
    """

    def __init__(self, is_quarantined: Callable[[str], bool]) -> None:
        self._is_quarantined = is_quarantined
        self._ready = deque[Work]()
        self._held = deque[Work]()
        self._elsewhere = deque[Work]()
        self._looked_at = 0.0

    def add(self, work: Work) -> None:
        """Let work wait its turn; a confirmation is what all before it was for, and goes first."""
        if self._is_quarantined(work.candidate_id):
            self._held.append(work)
        elif work.confirms:
            self._ready.insert(sum(other.confirms for other in self._ready), work)
        else:
            self._ready.append(work)

    def leave(self, work: Work) -> None:
        """Set work aside: another campaign is at its candidate."""
        self._elsewhere.append(work)

    def __len__(self) -> int:
        """Return how much waits for nothing but its turn."""
        return len(self._ready)

    @property
    def is_empty(self) -> bool:
        """True when nothing waits, wherever."""
        return not (self._ready or self._held or self._elsewhere)

    def next(self, running: Collection[Work], jobs: int) -> Work | None:
        """Return what may begin beside what runs."""
        room = 1 if any(self._is_quarantined(work.candidate_id) for work in running) else jobs
        return self._ready.popleft() if self._ready and len(running) < room else None

    def next_alone(self) -> Work | None:
        """Return a quarantined candidate, now that nothing runs and nothing else is ready."""
        return self._held.popleft() if self._held and not self._ready else None

    def due_elsewhere(self) -> Iterator[Work]:
        """Yield what was set aside, every second: its verdict may be there by now."""
        if self._elsewhere and time.monotonic() >= self._looked_at + _LOOK_S:
            self._looked_at = time.monotonic()
            for _ in range(len(self._elsewhere)):
                yield self._elsewhere.popleft()

    def drop(self, is_dropped: Callable[[Work], bool]) -> Iterator[Work]:
        """Take out what is not to be begun any more."""
        for waiting in (self._ready, self._held, self._elsewhere):
            for work in [work for work in waiting if is_dropped(work)]:
                waiting.remove(work)
                yield work
