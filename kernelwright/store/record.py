"""The frozen records that go into the store and come out of it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, NamedTuple, TypeVar

from pydantic import ValidationError

from kernelwright.digest import digest
from kernelwright.errors import StoreError
from kernelwright.evaluator.evaluation import Evaluation, Samples, Status
from kernelwright.evaluator.task import Task, candidate_id
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import DeviceInfo, DeviceName
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.kernel import Program

Read = TypeVar("Read", bound=Record)

CampaignState = Literal["running", "finished", "capped", "interrupted", "failed"]
"""Finished is done for good; capped ends by a cap, with work left for a larger one."""
TrialState = Literal["intended", "evaluating", "confirming", "done"]
Freshness = Literal["fresh", "stale", "revoked"]
RankKind = Literal["measured", "predicted", "traffic"]


class NewEvent(NamedTuple):
    """A line for a campaign's log."""

    kind: str
    body: str


class Environment(Record):
    """Where a verdict holds; another MLX, driver, compiler or chip is another environment."""

    device: DeviceInfo
    mlx: str
    system: str
    """Operating system, its version and the processor, such as `macOS 15.5 arm64`."""

    @property
    def id(self) -> str:
        """64 hex digits over the whole content."""
        return digest(self.model_dump_json())


class Rank(Record):
    """What candidates of a task are ordered by on one device; lower is better."""

    kind: RankKind
    """`measured` and `predicted` are microseconds, `traffic` is bytes moved."""
    value: float


class Campaign(Record):
    """One run of a search as the store knows it."""

    id: str
    root_id: str = ""
    """The first of the runs that continue one another: the campaign's own id."""
    name: str
    state: CampaignState
    spec: str
    """The campaign's settings as JSON."""
    environment: Environment
    owner: str
    """Host and process that runs it."""
    started_at: datetime
    heartbeat_at: datetime
    elapsed_s: float = 0.0
    """How long it went on, by a clock that nobody sets; as of its last heartbeat."""
    ended_at: datetime | None = None


class TaskSummary(Record):
    """What people know a task by."""

    id: str
    name: str
    signature: str
    dtype: str
    shapes: str
    """The inputs' types, such as `bf16[2048,4096], bf16[4096]`."""


class Candidate(Record):
    """A program proposed for a task."""

    id: str
    task: TaskSummary
    program_id: str
    author: str
    idea: str
    schedule: str
    parent_program_id: str | None
    campaign_id: str
    created_at: datetime

    @staticmethod
    def id_of(task_id: str, program_id: str) -> str:
        """Return the id that this program has as a candidate for this task."""
        return candidate_id(task_id, program_id)


class Trial(Record):
    """A campaign's intent to evaluate a candidate."""

    id: str
    campaign_id: str
    candidate_id: str
    state: TrialState
    attempts: int
    """Times that somebody began; above 1 an earlier worker did not come back."""
    lease_owner: str | None = None
    lease_expires_at: datetime | None = None
    evaluation_id: str | None = None


class KnownEvaluation(Record):
    """An evaluation with its place in the store."""

    id: str
    evaluation: Evaluation
    rank: Rank | None
    created_at: datetime


class ChampionSpeedup(Record):
    """How much faster a champion is than the fastest of MLX's own ways."""

    kind: Literal["measured", "predicted"]
    baseline: str
    ratio: float
    lower: float | None = None
    upper: float | None = None
    """The bounds of the interval, where it was measured."""


class Champion(Record):
    """The best candidate of a task on a device, one row of `best`."""

    task: TaskSummary
    candidate_id: str
    evaluation_id: str
    device: DeviceName
    chip: str
    freshness: Freshness
    rank: Rank
    speedup: ChampionSpeedup | None = None
    """None where nothing was compared."""
    status: Status
    author: str
    idea: str
    crowned_at: datetime


class HistoryEntry(Record):
    """One candidate's turn in one campaign, a row of `history`."""

    campaign_id: str
    candidate_id: str
    task: TaskSummary
    author: str
    idea: str
    state: TrialState
    status: Status | None
    summary: str
    rank: Rank | None
    reused: bool
    at: datetime


class CandidateDetail(Record):
    """Everything about one candidate, what `show` and `export` need."""

    candidate: Candidate
    program: Program
    graph_json: str
    lineage: tuple[Candidate, ...]
    """From its parent to its first ancestor, as far as the store knows them."""
    evaluations: tuple[KnownEvaluation, ...]
    """Newest first, samples included."""
    champion_on: tuple[Champion, ...]

    @property
    def graph(self) -> Graph:
        """The task's reference."""
        return Graph.from_json(self.graph_json)

    @property
    def standing(self) -> KnownEvaluation | None:
        """The verdict that its gain is of: a champion's own, measured before predicted.

        Other candidates have their newest one.
        """
        own = {c.evaluation_id for c in self.champion_on if c.freshness != "revoked"}
        promoted = [known for known in self.evaluations if known.id in own]
        promoted.sort(key=lambda known: not known.evaluation.device.measures_time)
        return next(iter([*promoted, *self.evaluations]), None)

    @property
    def reference(self) -> Task:
        """The task itself."""
        return Task(self.graph, self.candidate.task.name)


class Wanted(Record):
    """A call that no kernel could serve: what a campaign should look at tonight."""

    function: str
    fingerprint: str
    inputs: tuple[str, ...]
    """The types of the call's arrays, such as `bf16[2048,4096]`."""
    calls: int
    graph_json: str
    last_seen_at: datetime | None = None
    """None until a store keeps it."""


class StoreStatistics(Record):
    """How much a store holds."""

    url: str
    schema_version: str
    rows: Mapping[str, int]
    """By table, in the schema's order."""
    size_bytes: int | None
    """None for a database that is not a file."""


class LoggedEvent(Record):
    """A line of a campaign's log."""

    id: int
    """Grows with every line; the cursor of whoever reads on."""
    campaign_id: str
    at: datetime
    kind: str
    body: str

    def read(self, kind: type[Read]) -> Read:
        """Return what the line says, as the record that was written.

        Raises:
            StoreError: the line holds no such record.
        """
        try:
            return kind.model_validate_json(self.body)
        except ValidationError as e:
            raise StoreError(
                f"line {self.id} of the store's log holds no {self.kind} that can be read; "
                "restore a backup or choose another store with --store."
            ) from e


def with_samples(evaluation: Evaluation, samples: tuple[Samples, ...]) -> Evaluation:
    """Return the evaluation with its raw timings put back."""
    return evaluation.model_copy(update={"samples": samples})
