"""The coder that lowers schedules, in the order in which they are expected to be fast."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from kernelwright.agents.offline.tuner import expectations, ordered, promising
from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.errors import InputError, UnsupportedError
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower import lower, schedules, template_of
from kernelwright.metal.schedule import Schedule, parse, render

AUTHOR = "offline"


class OfflineCoder:
    """Proposes what lowering makes of a task, one schedule after the other."""

    def write(
        self, task: Task, device: DeviceInfo, history: Sequence[Attempt], *, count: int
    ) -> Sequence[Proposal]:
        """Propose untried schedules: those that may beat the best one so far come first."""
        try:
            space = promising(task.graph, schedules(task.graph, device), device)
        except UnsupportedError:
            return ()
        tried = {attempt.proposal.schedule for attempt in history}
        programs = {attempt.proposal.program.id for attempt in history}
        best = best_attempt(history)
        parent = best.proposal.program.id if best else None
        proposals: list[Proposal] = []
        left = [schedule for schedule in space if render(schedule) not in tried]
        expected = expectations(task.graph, left, device)
        for schedule in ordered(left, _costs(history), count, expected):
            if len(proposals) == count:
                break
            proposal = _proposal(task, schedule, parent)
            if proposal is not None and proposal.program.id not in programs:
                programs.add(proposal.program.id)
                proposals.append(proposal)
        return proposals


def tuned_before(task: Task, device: DeviceInfo, texts: Sequence[str]) -> list[Proposal]:
    """Write a task under schedules that won elsewhere, those that it does not have left out."""
    try:
        space = set(schedules(task.graph, device))
    except UnsupportedError:
        return []
    proposals = [_proposal(task, s, None) for s in _read(texts) if s in space]
    return [proposal for proposal in proposals if proposal is not None]


def _read(texts: Iterable[str]) -> Iterator[Schedule]:
    """Read schedules; decisions that came after they were written have their defaults."""
    for text in texts:
        with suppress(InputError):
            yield parse(text)


def _proposal(task: Task, schedule: Schedule, parent: str | None) -> Proposal | None:
    try:
        program = lower(task.graph, schedule)
    except UnsupportedError:
        # A graph that one schedule cannot serve may suit another.
        return None
    return Proposal(
        program=program,
        author=AUTHOR,
        idea=template_of(schedule).describe(schedule),
        schedule=render(schedule),
        parent=parent,
    )


def best_attempt(history: Sequence[Attempt]) -> Attempt | None:
    """Return the correct offline attempt with the highest measured or predicted speed, if any."""
    timed = [(cost, a) for a in history if (cost := _cost(a)) is not None]
    return min(timed, key=lambda pair: pair[0])[1] if timed else None


def _cost(attempt: Attempt) -> float | None:
    evaluation = attempt.evaluation
    if not evaluation.is_correct or not attempt.proposal.schedule:
        return None
    measured = [s for s in evaluation.samples if s.arm == "candidate" and s.nanoseconds]
    if measured:
        ordered = sorted(measured[0].nanoseconds)
        return ordered[len(ordered) // 2] / 1000
    return evaluation.predicted_us


def _costs(history: Sequence[Attempt]) -> dict[Schedule, float]:
    """Return what the schedules that proved correct cost, in the order of their trial."""
    costs: dict[Schedule, float] = {}
    for attempt in history:
        if (cost := _cost(attempt)) is not None:
            with suppress(InputError):
                costs[parse(attempt.proposal.schedule)] = cost
    return costs
