"""A plan as a flow of units: kernels of its own and launches of MLX, with views seen through."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelwright.ir import Graph, Kind, Region, op_named
from kernelwright.ir.graph import ValueId
from kernelwright.plan import mlx_kernels
from kernelwright.plan.mlx.fusion import compile_launches


@dataclass(frozen=True)
class Unit:
    """What is launched together: a region, or nodes that `mx.compile` runs as one kernel."""

    label: str
    """`R1`, `R2`, … for regions, `m1`, `m2`, … for what is left to MLX."""
    nodes: tuple[int, ...]
    """Nodes that compute something; views that launch nothing are not among them."""
    region: Region | None = None
    fast: str = ""
    """The function of `mx.fast` that computes it; empty where there is none."""
    launches: int = 1


@dataclass(frozen=True)
class Flow:
    """The units of a plan, and what they read from each other."""

    graph: Graph
    regions: tuple[Region, ...]

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """Return regions and launches of MLX in an order in which they can run."""
        count = {"R": 0, "m": 0}
        units = []
        for nodes in self._order:
            region = self._region_of.get(nodes)
            kind = "R" if region else "m"
            count[kind] += 1
            label = f"{kind}{count[kind]}"
            fast, launches = self._fast_of.get(nodes, ""), self._compiled.get(nodes, 1)
            units.append(Unit(label, nodes, region, fast, launches))
        return tuple(units)

    @cached_property
    def unit_of(self) -> dict[int, Unit]:
        """Units by the nodes that they compute."""
        return {i: unit for unit in self.units for i in unit.nodes}

    @cached_property
    def _region_of(self) -> dict[tuple[int, ...], Region]:
        return {_working(self.graph, region.indices): region for region in self.regions}

    @cached_property
    def _rest(self) -> frozenset[int]:
        covered = {i for region in self.regions for i in region.indices}
        return frozenset(range(len(self.graph.nodes))).difference(covered)

    @cached_property
    def _fast_of(self) -> dict[tuple[int, ...], str]:
        """Names of what MLX at its best leaves to `mx.fast`, by the nodes."""
        parts = mlx_kernels(self.graph, self._rest)
        return {_working(self.graph, part.indices): name for part, name in parts.items()}

    @cached_property
    def _compiled(self) -> dict[tuple[int, ...], int]:
        """Groups that are left to `mx.compile`, with what each launches."""
        by_fast = {i for part in mlx_kernels(self.graph, self._rest) for i in part.indices}
        return compile_launches(self.graph, self._rest - by_fast)

    @cached_property
    def _group_of(self) -> dict[int, tuple[int, ...]]:
        groups = (*self._region_of, *self._fast_of, *self._compiled)
        return {i: group for group in groups for i in group}

    @cached_property
    def _order(self) -> tuple[tuple[int, ...], ...]:
        """Order groups so that each follows what it reads; else the graph's order decides."""
        waiting = sorted(set(self._group_of.values()), key=lambda group: (group[-1], group))
        done: dict[tuple[int, ...], None] = {}
        while waiting:
            # What mx.fast computes need not be convex: another part of it may come between.
            ready = next((g for g in waiting if self._makers(g) <= done.keys()), waiting[0])
            waiting.remove(ready)
            done[ready] = None
        return tuple(done)

    def _makers(self, nodes: tuple[int, ...]) -> set[tuple[int, ...]]:
        values = (v for i in nodes for v in self.reads(i))
        makers = (self.graph.producer_of.get(v) for v in values)
        return {self._group_of[m] for m in makers if m in self._group_of}.difference({nodes})

    def reads(self, index: int) -> tuple[ValueId, ...]:
        """Return the arrays that a node reads, each as it was made: views are seen through."""
        found = (self.origin(value) for value in self.graph.nodes[index].inputs)
        return tuple(dict.fromkeys(found))

    def origin(self, value: ValueId) -> ValueId:
        """Return the array that a value shows: what a unit makes, an input or a constant."""
        while (maker := self.graph.producer_of.get(value)) is not None:
            if maker in self._group_of or not self.graph.nodes[maker].inputs:
                break
            value = self.graph.nodes[maker].inputs[0]
        return value

    def views_between(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """Return the views through which some nodes read what they do."""
        found: set[int] = set()
        frontier = [v for i in nodes for v in self.graph.nodes[i].inputs]
        while frontier:
            maker = self.graph.producer_of.get(frontier.pop())
            if maker is None or maker in self._group_of or maker in found:
                continue
            found.add(maker)
            frontier.extend(self.graph.nodes[maker].inputs)
        return tuple(sorted(found))

    def sources(self, unit: Unit) -> tuple[Unit, ...]:
        """Return the units whose results a unit reads, in the order in which they run."""
        makers = self._makers(unit.nodes)
        return tuple(other for other in self.units if other.nodes in makers)


def _working(graph: Graph, indices: Sequence[int]) -> tuple[int, ...]:
    """Leave out views, which launch nothing, but of a region that is made of them: it copies."""
    working = (i for i in indices if op_named(graph.nodes[i].op).kind is not Kind.VIEW)
    return tuple(working) or tuple(indices)
