"""What a search found, as one record: the closing summary and the JSON of `search`."""

from kernelwright.campaign.event import CampaignEnded, FunctionRefused, LeftOperation
from kernelwright.campaign.gain import Gain, gain_of
from kernelwright.campaign.pursuit import Pursuit
from kernelwright.campaign.ranking import unique_bytes_moved
from kernelwright.campaign.savings import Traffic, traffic_of
from kernelwright.evaluator.evaluation import Status
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.diagnostic import Record
from kernelwright.store import Candidate, Rank


class FunctionReport(Record):
    """How a function was cut."""

    function: str
    inputs: str
    task_ids: tuple[str, ...]
    """One for each region, in graph order."""
    left: tuple[LeftOperation, ...]
    traffic: Traffic
    """Of the whole function, what is left to MLX included."""


class TaskReport(Record):
    """What became of one task."""

    task_id: str
    name: str
    signature: str
    tried: int
    reused: int
    failures: dict[Status, int]
    champion_id: str | None
    """The candidate's id; None when nothing was correct, or nothing survived confirmation."""
    refuted: int
    """Candidates that led and did not survive confirmation."""
    rank: Rank | None
    traffic: Traffic
    reason: str
    gain: Gain | None = None
    """The champion's; below 1 where MLX stays best."""

    @classmethod
    def of(cls, pursuit: Pursuit) -> "TaskReport":
        """Summarise a pursuit."""
        champion, task_id = pursuit.champion, pursuit.task.fingerprint
        counted = champion is not None and champion.evaluation.counters
        kernel = unique_bytes_moved(champion.evaluation) if champion and counted else None
        traffic = traffic_of(pursuit.task.graph).model_copy(update={"kernel": kernel})
        return cls(
            task_id=task_id,
            name=pursuit.task.name,
            signature=pursuit.signature,
            tried=pursuit.count,
            reused=pursuit.reused,
            failures=dict(pursuit.failures()),
            refuted=len(pursuit.refuted),
            champion_id=Candidate.id_of(task_id, champion.program_id) if champion else None,
            rank=champion.rank if champion else None,
            traffic=traffic,
            reason=pursuit.reason,
            gain=gain_of(champion.evaluation, traffic) if champion else None,
        )


class SearchReport(Record):
    """The whole search."""

    campaign_id: str
    store: str
    device: DeviceInfo
    functions: tuple[FunctionReport, ...]
    refused: tuple[FunctionRefused, ...]
    tasks: tuple[TaskReport, ...]
    evaluated: int
    """Evaluations that were run; the rest was known."""
    duration_s: float
    ended: CampaignEnded

    def traffic_of(self, function: FunctionReport) -> Traffic:
        """Count one call of a whole function, its champions in place and MLX for the rest."""
        tasks = {task.task_id: task for task in self.tasks}
        moved = function.traffic.planned
        for task_id in function.task_ids:
            task = tasks[task_id]
            found = task.traffic.moved if task.champion_id else task.traffic.best_of_mlx
            moved += found - task.traffic.planned
        return function.traffic.model_copy(update={"kernel": moved})
