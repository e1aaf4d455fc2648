"""What a search is asked to do, and how far it may go."""

from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from kernelwright.agents.budget import UNLIMITED, Caps
from kernelwright.agents.message import RoleName
from kernelwright.agents.providers.price import Price
from kernelwright.agents.session.tools.caps import ToolCaps
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, DeviceName
from kernelwright.metal.device.threadgroup_memory import check_threadgroup_bytes
from kernelwright.metal.diagnostic import Record


class TeamSpec(Record):
    """How models take part in a search; what is left out shows what it brings."""

    tool_caps: ToolCaps = ToolCaps()
    """How much one conversation may have its tools do."""
    tries: bool = True
    """False where models write blind: what they submit is all that is tried."""
    archive: bool = True
    """False where nothing is shown of other islands, sibling tasks and earlier campaigns."""
    roles: tuple[RoleName, ...] = ("planner", "coder", "repairer")
    """Who is a model; the others are the offline agents."""


class SearchSpec(Record):
    """The settings of one search; the store keeps them as JSON."""

    name: str = ""
    """What people call the search; its functions' names by default."""
    graphs: tuple[str, ...] = ()
    """Fingerprints of what is searched; empty where a campaign's file says it, and in old runs."""
    device: DeviceName = "simulator"
    chip: str = ""
    """Of a fleet's workers, whose it must be, or the one that this machine's simulator stands for;
    empty means that of most workers, and none."""
    threadgroup_bytes: int = METAL_THREADGROUP_BYTES
    """What a threadgroup may take; with more than Metal's 32 KB kernels may fit no Mac."""
    candidates_per_task: int = Field(default=12, ge=1)
    batch: int = Field(default=4, ge=1)
    """Programs asked of the coder at a time."""
    repairs: int = Field(default=2, ge=0)
    """How often a failed program and its corrections are repaired."""
    patience: int = Field(default=8, ge=1)
    """Correct candidates in a row that may fail to lead before a task is left."""
    evaluations: int | None = Field(default=None, ge=1)
    """Cap on evaluations that are run; what the store knows already costs none."""
    seconds: float | None = Field(default=None, gt=0)
    jobs: int = Field(default=2, ge=1)
    """Candidates evaluated at once: on the simulator, or on the host beside the one being timed."""
    lease_s: float = 600.0
    most_deaths: int = Field(default=3, ge=1)
    """Runs that may die while a candidate is in flight before it is given up."""
    models: tuple[str, ...] = ()
    """Whom to ask, as `provider:name`; later ones step in where earlier ones fail."""
    base_url: str | None = None
    """Where the models are served, when not by their provider."""
    caps: Caps = UNLIMITED
    """What all model calls together may take."""
    task_caps: Caps = UNLIMITED
    """What the calls for one task may take."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """By `provider:name`; they win over the tables on disk."""
    calls_at_once: int = Field(default=4, ge=1)
    team: TeamSpec = TeamSpec()

    @model_validator(mode="after")
    def _suits_the_device(self) -> Self:
        check_threadgroup_bytes(self.device, self.threadgroup_bytes)
        return self

    def of(self, graphs: Sequence[str]) -> Self:
        """Return the spec of a search of these graphs, given as fingerprints."""
        return self.model_copy(update={"graphs": tuple(graphs)})
