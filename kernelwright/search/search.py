"""The search in ask/tell form: what to try next over many tasks, told one verdict at a time."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kernelwright.agents.protocols import Proposal
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.search.failure import described, is_machines
from kernelwright.search.priority import Order, SecondsToSave
from kernelwright.search.strategy import Done, Strategy, Wait
from kernelwright.search.task_search import TaskSearch
from kernelwright.timeline import span

_STANDS = 4
"""Right candidates that a task's first leader outlasts before it is confirmed ahead of others."""


@dataclass(frozen=True)
class Suggestion:
    """What to do next: evaluate a program for a task, or confirm its best one."""

    search: TaskSearch
    proposal: Proposal
    confirms: bool = False
    was_judged: bool = False
    """True where a model had it judged while it wrote, so that it costs next to nothing."""


class Search:
    """Chooses over tasks and, within a task, by a strategy; it does no IO and keeps no clock.

    Ask for as much as there is room for, evaluate it wherever and in whatever order, and tell
    every outcome, or abandon what will have none. The order of what is suggested for a task
    depends on the order of its proposals, never on how long an evaluation took.
    """

    def __init__(
        self,
        tasks: Sequence[TaskSearch],
        strategy: Strategy,
        device: DeviceInfo,
        *,
        order: Order | None = None,
    ) -> None:
        self.tasks = tasks
        self.is_capped = False
        """True once a task ended with more to try, which a larger cap would pay for."""
        self.is_cut_off = False
        """True once `stop` ended a task with more to try, or a function was not planned in time."""
        self.cap = ""
        """Which cap kept models from going on first; empty while none did."""
        self._strategy = strategy
        self._device = device
        self._order = order or SecondsToSave()
        self._to_do = deque[Suggestion]()
        self._ended = deque[TaskSearch]()

    def ask(self, room: int) -> list[Suggestion]:
        """Return what to do next: every confirmation that is due, and up to `room` candidates.

        A batch is never split, so that there may be a few more. Nothing means: wait for verdicts,
        for a strategy that `is_pending`, or for nobody when the search `is_over`.
        """
        ready = [search for search in self.tasks if search.is_ready] if room > 0 else []
        for search in ready:
            if self._strategy.is_spent(search):
                # It ends now, so that its champion does not wait for tasks that go on.
                self._batch(search)
        self._confirm_what_stands()
        asked = self._due()
        for search in self._order(ready, self._device):
            while room > 0 and search.is_ready:
                batch = self._batch(search)
                if not batch:
                    break
                asked += [Suggestion(search, proposal) for proposal in batch]
                room -= len(batch)
        return asked + self._due()

    def confirm_early(self, idle: int) -> list[Suggestion]:
        """Return confirmations of what leads now, for evaluators that nothing else is there for.

        That is where a task can be given no further candidate now, or none has beaten its leader
        for a batch. Where a better one comes meanwhile, it is confirmed in its turn, and only an
        idle evaluator's time was spent.
        """
        leading = [s for s in self.tasks if _leads_unconfirmed(s) and self._is_settled(s)]
        found: list[Suggestion] = []
        for search in self._order(leading, self._device):
            if len(found) < idle and (early := _confirmation(search, early=True)) is not None:
                found.append(early)
        return found

    def tell(self, done: Suggestion, evaluation: Evaluation, *, reused: bool = False) -> bool:
        """Take an outcome; True when a candidate leads its task now, or was confirmed."""
        search, program_id = done.search, done.proposal.program.id
        if not done.confirms:
            return search.judged(program_id, evaluation, reused=reused)
        survived = search.confirmed(program_id, evaluation)
        if search.ended:
            self._conclude(search)
        return survived

    def abandon(self, suggestion: Suggestion) -> None:
        """Take back what will not be evaluated."""
        if suggestion.confirms:
            suggestion.search.confirming = None
        else:
            suggestion.search.abandon([suggestion.proposal])

    def stop(self, reason: str, *, takes_what_was_judged: bool = True) -> None:
        """Suggest no new candidates; what leads a task that waits for nothing is confirmed.

        Args:
            reason: why.
            takes_what_was_judged: whether what models had judged, and did not submit, is one.
        """
        for search in self.tasks:
            if not search.is_idle:
                continue
            search.advance(to_the_end=True)
            left = self._strategy.left(search) if takes_what_was_judged else ()
            if left:
                search.begin(left)
                self._to_do.extend(Suggestion(search, one, was_judged=True) for one in left)
            else:
                ending = self._ending(search)
                self.is_cut_off |= not ending
                self._finish(search, ending or reason)

    def ended(self) -> Iterator[TaskSearch]:
        """Yield the tasks that ended since the last time, in that order."""
        while self._ended:
            yield self._ended.popleft()

    def ask_ahead(self, search: TaskSearch) -> list[Proposal] | None:
        """Ask for a task's next batch without putting it in flight; None while it is thought of."""
        batch = self._next(search)
        if isinstance(batch, Wait):
            return None
        return [] if isinstance(batch, Done) else batch

    @property
    def is_pending(self) -> bool:
        """True while a strategy is thinking of a batch."""
        return any(search.is_pending for search in self.tasks)

    @property
    def is_over(self) -> bool:
        """True when every task has ended and all that is due has been asked for."""
        return not self._to_do and all(search.ended for search in self.tasks)

    @property
    def may_go_on(self) -> bool:
        """True when some task waits for nothing, so that asking again may bring something."""
        return any(search.is_idle for search in self.tasks)

    def _due(self) -> list[Suggestion]:
        due = list(self._to_do)
        self._to_do.clear()
        return due

    def _batch(self, search: TaskSearch) -> list[Proposal]:
        """Put a task's next batch in flight; nothing where it waits, thinks or ends."""
        while search.is_ready:
            search.advance()
            batch = self._next(search)
            search.is_pending = isinstance(batch, Wait)
            if isinstance(batch, Wait):
                return []
            if not isinstance(batch, Done):
                search.begin(batch)
                return batch
            if not search.in_flight:
                self.is_capped |= batch.is_capped
                self.cap = self.cap or batch.cap
                self._finish(search, batch.reason)
                return []
            # What is in flight may be worth a repair, or another schedule.
            search.is_draining = True
        return []

    def _next(self, search: TaskSearch) -> list[Proposal] | Done | Wait:
        """Ask the strategy; where it fails, only this task is left."""
        try:
            with span("propose"):
                return self._strategy.next(search)
        except Exception as e:
            if is_machines(e):
                raise
            return Done(_failed(e))

    def _ending(self, search: TaskSearch) -> str:
        """Say why a task has nothing left to try; empty where it has."""
        try:
            return self._strategy.ending(search)
        except Exception as e:
            if is_machines(e):
                raise
            return _failed(e)

    def _finish(self, search: TaskSearch, reason: str) -> None:
        search.ended, search.reason = True, reason
        self._strategy.leave(search, reason)
        self._conclude(search)

    def _conclude(self, search: TaskSearch) -> None:
        """Have what leads an ended task confirmed, unless it was or too many leaders failed."""
        if search.confirming is not None:
            return
        confirmation = _confirmation(search)
        if confirmation is None:
            self._ended.append(search)
        else:
            self._to_do.append(confirmation)

    def _confirm_what_stands(self) -> None:
        """Have a task's first champion confirmed once its leader has outlasted a batch.

        Until then a task has nothing to show; later leaders wait for idle evaluators or its end.
        """
        for search in self.tasks:
            if search.champion is None and _leads_unconfirmed(search) and _stands(search):
                confirmation = _confirmation(search, early=True)
                self._to_do.extend([confirmation] if confirmation else [])

    def _is_settled(self, search: TaskSearch) -> bool:
        """Say whether a task waits for verdicts or models alone, or its leader stands."""
        is_asked_out = search.is_pending or search.is_draining or self._strategy.is_spent(search)
        return is_asked_out or _stands(search)


def _stands(search: TaskSearch) -> bool:
    """Say whether a leader has outlasted as many others as a batch holds or are in flight."""
    return search.since_lead >= max(search.lag, _STANDS)


def _leads_unconfirmed(search: TaskSearch) -> bool:
    """Say whether a task that goes on may have a leader to confirm; a glance, for every ask."""
    best = search.best_program_id
    return not search.ended and best is not None and search.confirming is None


def _confirmation(search: TaskSearch, *, early: bool = False) -> Suggestion | None:
    """Begin to confirm what leads a task; early only where it is faster than MLX."""
    leader = search.next_to_confirm()
    if leader is None or (early and not leader.evaluation.beats_mlx):
        return None
    search.confirming = leader.proposal.program.id
    return Suggestion(search, leader.proposal, confirms=True)


def _failed(error: Exception) -> str:
    return f"nothing more can be proposed: {described(error)}"


def share_workers(tasks: Iterable[TaskSearch], workers: int) -> None:
    """Where tasks are fewer than workers, let each keep its share of them busy.

    It is asked for more before the last verdicts are there.
    """
    found = list(tasks)
    lag = math.ceil(workers / len(found)) if found and len(found) < workers else 0
    for search in found:
        search.lag = lag
