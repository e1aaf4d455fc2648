"""The three roles, each a Protocol with an offline and a model-driven implementation."""

from collections.abc import Sequence
from typing import Protocol

from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph
from kernelwright.ir.region import Region
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.kernel import Program


class PlannedRegion(Record):
    """One part of a graph to fuse, by node index, and why."""

    indices: tuple[int, ...]
    strategy: str = ""
    """How to write it, in a sentence; reaches the coder."""
    benefit: str = ""
    """What fusing saves, in a sentence; reaches people."""


class Plan(Record):
    """How a graph is cut: what is fused, and what is left to MLX with the reason."""

    regions: tuple[PlannedRegion, ...]
    left: tuple[tuple[str, str], ...] = ()
    """(op, reason) for what no region covers."""
    author: str

    def cut(self, graph: Graph) -> tuple[Region, ...]:
        """Return the regions over `graph`."""
        return tuple(Region(graph, planned.indices) for planned in self.regions)


class Proposal(Record):
    """A program that somebody proposes for a task."""

    program: Program
    author: str
    """`offline`, or `provider:model`."""
    idea: str
    """What makes it different, in a sentence."""
    schedule: str = ""
    """The schedule it was lowered from, as compact text; empty for a model's program."""
    parent: str | None = None
    """Id of the program that this one repairs or improves."""
    lessons: tuple[str, ...] = ()
    """Ids of the lessons that its author was told."""


class Attempt(Record):
    """A proposal and what became of it; all that an agent may know of the past."""

    proposal: Proposal
    evaluation: Evaluation


class Planner(Protocol):
    """Chooses what to fuse."""

    def plan(self, graph: Graph, device: DeviceInfo) -> Plan:
        """Cut a canonical graph into legal, disjoint regions. Never fails: it may be empty."""


class Coder(Protocol):
    """Writes programs for a task."""

    def write(
        self, task: Task, device: DeviceInfo, history: Sequence[Attempt], *, count: int
    ) -> Sequence[Proposal]:
        """Propose up to `count` programs that `history` does not hold; none when out of ideas."""


class Repairer(Protocol):
    """Corrects one failed program."""

    def repair(self, task: Task, device: DeviceInfo, failed: Attempt) -> Proposal | None:
        """Return the whole corrected program, or None when it cannot help."""
