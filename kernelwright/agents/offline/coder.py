"""The coder that lowers schedules, in the order in which they are expected to be fast."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from kernelwright.agents.offline.tuner import expectations, ordered, promising
from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.errors import InputError, UnsupportedError
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import (
    Attention,
    Banded,
    ColumnScan,
    ColumnSplit,
    Columnwise,
    Dense,
    Elementwise,
    Matmul,
    Matvec,
    Prefill,
    Rowwise,
    Scan,
    Schedule,
    Split,
    Staged,
    Tiled,
    Transposed,
    parse,
    render,
)

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
        idea=idea(schedule),
        schedule=render(schedule),
        parent=parent,
    )


def best_attempt(history: Sequence[Attempt]) -> Attempt | None:
    """Return the correct offline attempt with the highest measured or predicted speed, if any."""
    timed = [(cost, a) for a in history if (cost := _cost(a)) is not None]
    return min(timed, key=lambda pair: pair[0])[1] if timed else None


def idea(schedule: Schedule) -> str:
    """Say in a sentence what a schedule does."""
    match schedule:
        case Elementwise(vector=1, rows=1):
            return f"One element a thread, {schedule.threads} threads a threadgroup."
        case Elementwise():
            runs = f"{schedule.unroll} runs of " if schedule.unroll > 1 else ""
            below = f" in each of {schedule.rows} rows" if schedule.rows > 1 else ""
            return (
                f"{runs}{schedule.vector} neighbouring elements{below} a thread, "
                f"{schedule.threads} threads a threadgroup."
            )
        case Columnwise():
            kept = ", each keeping what it reads in registers" if schedule.cached else ""
            return f"Neighbouring threads on neighbouring results, {schedule.strips} strips{kept}."
        case ColumnSplit():
            return (
                f"{schedule.chunks} stretches a column reduced first, neighbouring threads on "
                "neighbouring results, what they left in a second kernel."
            )
        case Split():
            return (
                f"{schedule.chunks} chunks a row reduced first, their results in a second kernel."
            )
        case Staged():
            return (
                f"{schedule.parts} parts of each reduction first, what they left joined, the "
                "outputs from that."
            )
        case Tiled():
            return (
                f"{schedule.rows} whole rows in threadgroup memory, moved along memory, "
                f"{schedule.lanes} threads a row."
            )
        case Transposed():
            return (
                f"Tiles of {schedule.rows} x {schedule.columns} turned in threadgroup memory, "
                f"{schedule.vector} neighbours an access."
            )
        case Banded():
            side = (
                f"{schedule.teams} rows side by side" if schedule.teams > 1 else "a row at a time"
            )
            return (
                f"Bands of rows, {side} by {schedule.lanes} threads each, columns joined in "
                f"registers over {schedule.depth} rows and then over bands."
            )
        case Scan():
            return (
                f"{schedule.lanes} threads a row, {schedule.vector} elements each, joined by a "
                "prefix over the lanes and a carry from tile to tile."
            )
        case ColumnScan():
            return (
                f"Neighbouring threads on neighbouring results, {schedule.strips} strips of "
                f"{schedule.depth} elements each, joined by what they add up to."
            )
        case Attention():
            together = f"{schedule.queries} queries" if schedule.queries > 1 else "one query"
            shared = f", {schedule.chunks} threadgroups a query" if schedule.chunks > 1 else ""
            return (
                f"{together.capitalize()} a threadgroup of {schedule.simdgroups} simdgroups"
                f"{shared}, "
                f"{schedule.lanes} lanes a key, {schedule.keys} keys read ahead, online softmax."
            )
        case Prefill():
            queries = 8 * schedule.rows * schedule.simdgroups
            ahead = ", asked for ahead" if schedule.ahead else ""
            return (
                f"Tiles of {queries} queries on simdgroup matrices, {schedule.keys} keys and "
                f"values staged at a time by {schedule.simdgroups} simdgroups{ahead}, online "
                "softmax."
            )
        case Matvec():
            words = f"{schedule.words} words" if schedule.words > 1 else "one word"
            results = f"{schedule.results} results" if schedule.results > 1 else "One result"
            return f"{results} a simdgroup, {words} of packed digits a lane at a time."
        case Matmul():
            rows, columns = 8 * schedule.rows, 8 * schedule.columns * schedule.simdgroups
            return (
                f"Tiles of {rows} by {columns} results on simdgroup matrices, "
                f"{schedule.depth} terms staged at a time by {schedule.simdgroups} simdgroups."
            )
        case Dense():
            shared = f", {schedule.strips} simdgroups a sum" if schedule.strips > 1 else ""
            if schedule.chunks > 1:
                shared += f", {schedule.chunks} threadgroups a sum"
            own = f"{schedule.columns} columns a simdgroup" if schedule.columns > 1 else "tiles"
            ahead = f", {schedule.terms} terms read ahead" if schedule.terms > 1 else ""
            return (
                f"Every weight read once: {own}{shared}, {schedule.vector} neighbouring weights "
                f"a lane{ahead}, {schedule.teams} teams a threadgroup."
            )
        case Rowwise():
            return f"{_team(schedule)}, {_vector(schedule)}, {_memory(schedule)}."


def _team(schedule: Rowwise) -> str:
    if schedule.lanes == 1:
        return "One thread a row"
    if schedule.lanes == 32:
        together = f"{schedule.rows} rows" if schedule.rows > 1 else "one row"
        return f"One simdgroup a row, {together} a threadgroup"
    return f"One threadgroup of {schedule.lanes} threads a row"


def _vector(schedule: Rowwise) -> str:
    if schedule.vector == 1:
        return "neighbouring lanes on neighbouring elements"
    return f"{schedule.vector} neighbouring elements a lane"


def _memory(schedule: Rowwise) -> str:
    if schedule.online:
        return "maximum and sum found in one pass"
    return "values kept in registers" if schedule.cached else "values read again in each pass"


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
