"""A graph run with programs in the place of some regions, and MLX for the rest."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.region import Region
from kernelwright.ir.trace.interpret import constant_array
from kernelwright.ir.trace.replay import MlxArray, replay

RunRegion = Callable[[Sequence[MlxArray]], Sequence[MlxArray]]
"""Takes the region's inputs in order, returns its outputs in order, unevaluated."""


@dataclass(frozen=True)
class Reading:
    """A program that reads other values than the nodes of its region do."""

    values: tuple[ValueId, ...]
    run: RunRegion
    """Takes the values in order."""


Replacement = RunRegion | Reading
_Step = tuple[tuple[ValueId, ...], tuple[ValueId, ...], RunRegion]


def stitch(graph: Graph, programs: Mapping[Region, Replacement]) -> Callable[..., list[MlxArray]]:
    """Return a function of the graph's inputs that runs each region by its program.

    The regions are disjoint and convex, as a planner leaves them. What nobody reads is not run.
    """
    steps = _needed(_in_order(graph, programs), graph.outputs)
    constants = {value: constant_array(constant) for value, constant in graph.constants}

    def run(*arrays: MlxArray) -> list[MlxArray]:
        values = {**constants, **dict(zip(graph.inputs, arrays, strict=True))}
        for read, made, function in steps:
            results = function([values[v] for v in read])
            values.update(zip(made, results, strict=True))
        return [values[v] for v in graph.outputs]

    return run


def _needed(steps: Sequence[_Step], outputs: Sequence[ValueId]) -> list[_Step]:
    """Drop the steps that nothing depends on, as of tables that a program does without."""
    read = {*outputs}
    kept: list[_Step] = []
    for step in reversed(steps):
        if read.intersection(step[1]):
            read.update(step[0])
            kept.append(step)
    return kept[::-1]


def _in_order(graph: Graph, programs: Mapping[Region, Replacement]) -> list[_Step]:
    """Sort regions and single nodes so that each comes after what it reads."""
    region_of = {i: region for region in programs for i in region.indices}
    waiting: list[_Step] = []
    placed: set[Region] = set()
    for index in range(len(graph.nodes)):
        region = region_of.get(index)
        if region is None:
            waiting.append(_single(graph, index))
        elif region not in placed:
            placed.add(region)
            program = programs[region]
            if isinstance(program, Reading):
                waiting.append((program.values, region.outputs, program.run))
            else:
                waiting.append((region.inputs, region.outputs, program))
    ready = {*graph.inputs, *graph.constant_of}
    steps: list[_Step] = []
    while waiting:
        later: list[_Step] = []
        for step in waiting:
            if ready.issuperset(step[0]):
                steps.append(step)
                ready.update(step[1])
            else:
                later.append(step)
        assert len(later) < len(waiting), "a region is not convex"
        waiting = later
    return steps


def _single(graph: Graph, index: int) -> _Step:
    node = graph.nodes[index]
    return node.inputs, node.outputs, lambda arrays: replay(graph, node, arrays)
