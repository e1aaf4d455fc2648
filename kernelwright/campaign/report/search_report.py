"""What a search found, as one record: the closing summary and the JSON of `search`."""

from collections.abc import Sequence

from kernelwright.campaign.event import CampaignEnded, FunctionRefused, LeftOperation
from kernelwright.campaign.planning.function_work import FunctionWork
from kernelwright.campaign.planning.traffic import Traffic, traffic_of
from kernelwright.campaign.planning.whole_function import whole_gain
from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.gain import Gain, gain_of, predicted_chip
from kernelwright.evaluator.predicted_gain import predicted_gain
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.diagnostic import Record
from kernelwright.search.ranking import unique_bytes_moved
from kernelwright.search.task_search import Champion as Leader
from kernelwright.search.task_search import TaskSearch
from kernelwright.store import Candidate, Rank
from kernelwright.store.browsing import UnusableReplies


class FunctionReport(Record):
    """How a function was cut."""

    function: str
    place: str = ""
    """Where it is, as on the command line."""
    inputs: str
    task_ids: tuple[str, ...]
    """One for each region, in graph order."""
    left: tuple[LeftOperation, ...]
    traffic: Traffic
    """Of the whole function, what is left to MLX included."""
    work: FunctionWork
    gain: Gain | None = None
    """Of the whole function; None where no region has a champion."""

    @property
    def is_one_kernel(self) -> bool:
        """True where one region is the whole function."""
        return len(self.task_ids) == 1 and not self.work.rest.launches


class TaskReport(Record):
    """What became of one task."""

    task_id: str
    name: str
    signature: str
    tried: int
    reused: int
    failures: dict[Status, int]
    champion_id: str | None
    """The best candidate's id; None when nothing was correct, or nothing survived confirmation."""
    refuted: int
    """Candidates that led and did not survive confirmation."""
    rank: Rank | None
    traffic: Traffic
    reason: str
    gain: Gain | None = None
    """The best candidate's; it is a champion only where it beats MLX."""
    predicted: Gain | None = None
    """The same, predicted on the chip that times are predicted for."""
    unconfirmed: Gain | None = None
    """What is faster than MLX, and was cut short of its confirmation."""

    @classmethod
    def of(
        cls, search: TaskSearch, chip: str | None = None, *, known: "Leader | None" = None
    ) -> "TaskReport":
        """Summarise a search; `chip` chooses whose time is predicted.

        `known` is the store's champion, which leads where the search ended before it had its own.
        """
        champion, task = search.champion or known, search.task
        evaluation = champion.evaluation if champion else None
        counted = evaluation is not None and evaluation.counters
        kernel = unique_bytes_moved(evaluation) if evaluation and counted else None
        report = cls(
            task_id=task.fingerprint,
            name=task.name,
            signature=search.signature,
            tried=search.count,
            reused=search.reused,
            failures=dict(search.failures()),
            refuted=len(search.refuted),
            champion_id=Candidate.id_of(task.fingerprint, champion.program_id)
            if champion
            else None,
            rank=champion.rank if champion else None,
            traffic=traffic_of(task.graph).model_copy(update={"kernel": kernel}),
            reason=search.reason,
        )
        if evaluation is None:
            lost = loss_of(search)
            waits = {"unconfirmed": _unconfirmed(search, chip)}
            return report.model_copy(update={"gain": lost, "predicted": lost, **waits})
        gain = gain_of(evaluation, task.graph, chip)
        for_chip = chip or predicted_chip(evaluation.device)
        predicted = predicted_gain(evaluation, task.graph, for_chip)
        return report.model_copy(update={"gain": gain, "predicted": predicted or gain})

    @property
    def beats_mlx(self) -> bool:
        """True where there is a champion to take."""
        return self.gain is not None and self.gain.beats_mlx


def _unconfirmed(search: TaskSearch, chip: str | None) -> Gain | None:
    if (evaluation := search.unconfirmed) is None:
        return None
    gain = gain_of(evaluation, search.task.graph, chip)
    return gain if gain.beats_mlx else None


def loss_of(search: TaskSearch) -> Gain | None:
    """Return what the best right candidate of an ended task loses to MLX, as it was timed.

    Where time is measured, what is no faster than MLX is never a champion; without its times
    nobody would see that MLX is best.
    """
    best = search.best_right
    if not search.reason or search.champion or best is None or not best.device.measures_time:
        return None
    gain = gain_of(best, search.task.graph)
    return gain if gain.kind == "measured" and not gain.beats_mlx else None


class SearchReport(Record):
    """The whole search."""

    campaign_id: str
    store: str
    device: DeviceInfo
    functions: tuple[FunctionReport, ...]
    refused: tuple[FunctionRefused, ...]
    tasks: tuple[TaskReport, ...]
    unusable: tuple[UnusableReplies, ...] = ()
    """Replies of models that were of no use, by cause."""
    evaluated: int
    """Evaluations that were run; the rest was known."""
    duration_s: float
    ended: CampaignEnded

    @property
    def function_names(self) -> tuple[str, ...]:
        """The functions, each once, at however many shapes it was searched."""
        found = dict.fromkeys((f.place, f.function) for f in self.functions)
        return tuple(name for _, name in found)

    @property
    def nothing_searched(self) -> str:
        """Say why there was no task; nothing where there was one."""
        if self.tasks:
            return ""
        names = ", ".join(self.function_names)
        if not names:
            return "nothing was searched: no function could be traced"
        if any(function.left for function in self.functions):
            return f"nothing to search in {names}: MLX keeps every op of it"
        return f"nothing to search in {names}: it computes nothing and returns what it was given"

    def traffic_of(self, function: FunctionReport) -> Traffic:
        """Count one call of a whole function, its champions in place and MLX for the rest."""
        tasks = {task.task_id: task for task in self.tasks}
        moved = function.traffic.planned
        for task_id in function.task_ids:
            task = tasks[task_id]
            found = task.traffic.moved if task.beats_mlx else task.traffic.best_of_mlx
            moved += found - task.traffic.planned
        return function.traffic.model_copy(update={"kernel": moved})


def with_whole_gains(
    functions: Sequence[FunctionReport],
    tasks: Sequence[TaskReport],
    device: DeviceInfo,
    chip: str | None,
) -> tuple[FunctionReport, ...]:
    """Say of each function what it gains as a whole."""
    gains = {task.task_id: task.gain for task in tasks if task.gain}
    predicted = {task.task_id: task.predicted for task in tasks if task.predicted}
    return tuple(
        function.model_copy(
            update={
                "gain": whole_gain(
                    function.work,
                    function.task_ids,
                    gains,
                    predicted,
                    chip or predicted_chip(device),
                )
            }
        )
        for function in functions
    )
