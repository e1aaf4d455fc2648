"""Which steps a task may take now, with which models, and for how many candidates."""

import math
from collections.abc import Sequence

from kernelwright.agents.protocols import Attempt
from kernelwright.agents.roles.text.coder_prompt import is_at_floor
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.plural import counted
from kernelwright.search.archive import Archive
from kernelwright.search.bandit import ModelOffer, Move, repairable
from kernelwright.search.learner import Improver
from kernelwright.search.model_silence import ModelSilence
from kernelwright.search.play import Play, fastest, slowness_of
from kernelwright.search.spec import SearchSpec
from kernelwright.search.step import Step
from kernelwright.search.task_search import TaskSearch
from kernelwright.search.tunables import tuned

WRITES = frozenset({Step.IDEA, Step.IMPROVE, Step.COMBINE})
ASKS_MODEL = WRITES | {Step.REPAIR}
_SHARES = 3
"""Parts into which a task's candidates go: one step may not take them all."""


class StepOptions:
    """What is open to a task, from what was tried for it and what the spec allows."""

    def __init__(
        self,
        coder: Improver,
        device: DeviceInfo,
        spec: SearchSpec,
        offers: Sequence[ModelOffer],
        silence: ModelSilence,
        *,
        uses_archive: bool,
    ) -> None:
        self._coder = coder
        self._device = device
        self._spec = spec
        self._offers = offers
        self._silence = silence
        self._uses_archive = uses_archive

    def available(self, play: Play, search: TaskSearch) -> set[Move]:
        """Return every step that may have something to offer."""
        steps = set(Step)
        if self.free_room(play, search) <= 0:
            steps.discard(Step.TUNE)
        archive = Archive(search.history, slowness_of(search.history))
        if not self._may_ask(play, search) or search.incumbent in search.in_flight:
            # A model goes on from the incumbent, once its verdict is known here.
            steps -= ASKS_MODEL
        if not archive.islands or _has_tunables_left(search):
            # What a program left open is tuned before anybody is asked to improve on it.
            steps -= {Step.IMPROVE, Step.COMBINE}
        elif not self._uses_archive or not archive.inspirations(fastest(search.history)):
            steps.discard(Step.COMBINE)
        if not self.repairable(search, search.history):
            steps.discard(Step.REPAIR)
        moves = {
            Move(step, offer.name)
            for step in steps & WRITES
            for offer in self._offers
            # A conversation goes on with its verdicts.
            if not self._coder.awaits(search.task, offer.name)
            & {p.program.id for p in search.in_flight}
        }
        return (moves | {Move(step) for step in steps - WRITES}) - play.dry

    def repairable(self, search: TaskSearch, history: Sequence[Attempt]) -> list[Attempt]:
        """Return the failures that nobody is at: authors mend their own while they are asked."""
        return [
            attempt
            for attempt in repairable(history, search.repaired, rounds=self._spec.repairs)
            if not self._coder.owns(search.task, history, attempt.proposal.program.id)
        ]

    def ending(self, search: TaskSearch) -> str:
        """Say why a task is left; empty while it is not."""
        if self.room(search) <= 0:
            return f"{counted(search.candidate_count, 'candidate')} tried, as many as asked for"
        if search.since_best >= self._spec.patience:
            return f"no gain in the last {counted(search.since_best, 'correct candidate')}"
        return ""

    def is_at_floor(self, search: TaskSearch) -> bool:
        """Say whether a task has a program that is as fast as its least work allows."""
        return is_at_floor(search.task, self._device, search.history)

    def count(self, search: TaskSearch) -> int:
        """How many programs a step may propose: few candidates are shared among the steps."""
        share = math.ceil(self._spec.candidates_per_task / _SHARES)
        return min(self.room(search), self._spec.batch, share)

    def room(self, search: TaskSearch) -> int:
        """How many candidates a task may still have."""
        return self._spec.candidates_per_task - search.candidate_count

    def free_room(self, play: Play, search: TaskSearch) -> int:
        """How many candidates are left to steps that cost nothing.

        The last one is kept for a model until it was asked: where candidates are few, it would be
        paid for the plan and never write.
        """
        kept = int(not play.is_asked and self._may_ask(play, search))
        return self.room(search) - kept

    def _may_ask(self, play: Play, search: TaskSearch) -> bool:
        return not (play.over or self._silence.lasts or self.is_at_floor(search))


def _has_tunables_left(search: TaskSearch) -> bool:
    best = fastest(search.history)
    is_judged = not search.in_flight
    return best is not None and is_judged and bool(tuned(best, search.tried(), 1))
