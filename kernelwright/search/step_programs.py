"""The programs that a step proposes: from models, from templates, or from tunable values."""

from collections.abc import Sequence

from kernelwright.agents.offline import tuned_before
from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.agents.providers.fault import OutageError
from kernelwright.agents.roles.reply.dedup import mark_of, signature
from kernelwright.agents.roles.text.coder_prompt import Start
from kernelwright.errors import BudgetError
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.search.archive import Archive
from kernelwright.search.bandit import Move, parents
from kernelwright.search.learner import Improver
from kernelwright.search.play import Batch, Play, fastest, slowness_of, written
from kernelwright.search.step import Step
from kernelwright.search.step_options import StepOptions
from kernelwright.search.strategy import Team
from kernelwright.search.task_search import TaskSearch
from kernelwright.search.tunables import tuned


class StepPrograms:
    """Has the team of a search write what a step stands for."""

    def __init__(
        self,
        team: Team,
        coder: Improver,
        device: DeviceInfo,
        options: StepOptions,
        *,
        uses_archive: bool,
    ) -> None:
        self._team = team
        self._coder = coder
        self._device = device
        self._options = options
        self._uses_archive = uses_archive

    def from_model(self, move: Move, search: TaskSearch, count: int) -> Batch:
        """Ask a model, which takes long.

        Raises:
            BudgetError: a cap is reached.
            OutageError: no server answers.
        """
        history = tuple(search.history)
        if move.step is Step.REPAIR:
            return self._repaired(search, history, count)
        start = self._start(move, history)
        proposed = self._coder.write(search.task, self._device, history, count=count, start=start)
        return list(proposed)

    def _start(self, move: Move, history: Sequence[Attempt]) -> Start:
        """Choose a parent and what else to show from the islands of the archive."""
        archive = Archive(history, slowness_of(history))
        parent = None
        if move.step is not Step.IDEA:
            parent = archive.parents[0] if self._uses_archive else fastest(history)
        inspirations = archive.inspirations(parent) if self._uses_archive else []
        if parent is None:
            # The best program is shown anyway.
            best = fastest(history)
            inspirations = [a for a in inspirations if a is not best]
        return Start(parent, tuple(inspirations), move.step is Step.COMBINE, move.model)

    def _repaired(self, search: TaskSearch, history: Sequence[Attempt], count: int) -> Batch:
        batch: Batch = []
        for attempt in self._options.repairable(search, history):
            if len(batch) >= count:
                break
            search.repaired.add(attempt.proposal.program.id)
            try:
                proposal = self._team.repairer.repair(search.task, self._device, attempt)
            except (BudgetError, OutageError):
                if not batch:
                    raise
                break
            if proposal is not None:
                batch.append(proposal)
        return batch

    def tuned(self, play: Play, search: TaskSearch) -> Batch:
        """Take a template's next schedules, or the best programs' other tunable values."""
        count = self._options.count(search)
        tried = search.tried()
        batch: Batch = []
        for attempt in parents(search.history, slowness_of(search.history)):
            batch += tuned(attempt, tried, count - len(batch))
        if len(batch) < count:
            # The coder does not know what is in flight, and proposes that first.
            wanted = count - len(batch) + len(search.in_flight)
            task, history = search.task, search.history
            batch += written(
                play, lambda: self._team.coder.write(task, self._device, history, count=wanted)
            )
        return fresh(batch, search)

    def recalled(self, play: Play, search: TaskSearch) -> Batch:
        """Return what won where ops, inputs and chip were the same, at the beginning."""
        if play.is_recalled or search.candidate_count:
            return []
        play.is_recalled = True
        found = written(play, lambda: tuned_before(search.task, self._device, search.tuned))
        return fresh(found, search)[: self._options.free_room(play, search)]

    def unsubmitted(self, search: TaskSearch) -> Batch:
        """Return what models have checked, and were kept from submitting."""
        return fresh(self._coder.left(search.task, search.history), search)


def fresh(proposals: Sequence[Proposal], search: TaskSearch) -> Batch:
    """Drop what differs in nothing that matters from something tried."""
    known = {mark_of(attempt) for attempt in search.history}
    known |= {signature(proposal.program) for proposal in search.in_flight}
    tried = search.tried()
    found: dict[str, Proposal] = {}
    for proposal in proposals:
        mark = signature(proposal.program)
        # Programs that differ in a tunable's value have one signature and two ids.
        is_tuned = bool(proposal.program.tunables)
        if proposal.program.id not in tried and (is_tuned or mark not in known):
            found.setdefault(proposal.program.id if is_tuned else mark, proposal)
    return list(found.values())
