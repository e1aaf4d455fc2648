"""The kernels that serve one way of calling a function, and their code."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import mlx.core as mx

from kernelwright import ir
from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.region import Region
from kernelwright.metal.device.array import to_numpy
from kernelwright.runtime.cutting import is_whole_better, wholes_of
from kernelwright.runtime.export.function.traced_call import Traced
from kernelwright.runtime.export.reference_code import (
    LAUNCH,
    is_printable,
    launching_source,
    printable,
)
from kernelwright.store import CandidateDetail

Lookup = Callable[[Sequence[Graph]], Mapping[str, Sequence[CandidateDetail]]]
"""Takes tasks' graphs; returns the kernels of each by its fingerprint, the best of a chip first."""


@dataclass(frozen=True)
class Variant:
    """What serves a call on a chip."""

    traced: Traced
    kernels: Mapping[Region, CandidateDetail]
    chip: str

    @property
    def argument_types(self) -> tuple[TensorType, ...]:
        """Return the types of the arrays that a call passes, also within objects."""
        traced = self.traced
        direct = len(traced.graph.inputs) - len(traced.slots)
        return traced.graph.input_types[: direct + traced.passed]

    @property
    def regions(self) -> int:
        """How many regions there are, with kernels and without."""
        return len(self.traced.regions)


def choose(
    traced: Traced, lookup: Lookup, *, admits: Callable[[CandidateDetail], bool]
) -> list[Variant]:
    """Return a variant for each chip that a region has a kernel for.

    What has no kernel for the chip itself takes one of another chip, as chips without any do.
    """
    tasks = dict(zip(traced.regions, traced.tasks, strict=True))
    wholes = wholes_of(traced.graph, traced.regions)
    tasks |= {whole: whole.extract() for whole in wholes}
    found = lookup(list(tasks.values()))
    chips: dict[str, dict[Region, CandidateDetail]] = {}
    for region, task in tasks.items():
        for detail in found.get(task.fingerprint, ()):
            if admits(detail):
                chip = detail.evaluations[0].evaluation.device.chip
                chips.setdefault(chip, {}).setdefault(region, detail)
    known = list(chips.values())
    return [
        _variant(traced, {r: k for o in [*known[::-1], own] for r, k in o.items()}, chip, wholes)
        for chip, own in chips.items()
    ]


def _variant(
    traced: Traced, found: Mapping[Region, CandidateDetail], chip: str, wholes: Sequence[Region]
) -> Variant:
    """Take the kernel of the whole graph or those of its parts, whichever are faster."""
    parts = {region: found.get(region) for region in traced.regions}
    verdicts = {r: d.evaluations[0].evaluation if d else None for r, d in parts.items()}
    for whole in (w for w in wholes if w in found):
        if is_whole_better(found[whole].evaluations[0].evaluation, verdicts, traced.graph):
            return Variant(replace(traced, regions=(whole,)), {whole: found[whole]}, chip)
    return Variant(traced, {r: d for r, d in parts.items() if d is not None}, chip)


def with_launches(variant: Variant, functions: Mapping[str, str]) -> Graph:
    """Return a variant's graph with a launch in the place of each region that has a kernel.

    Args:
        variant: whose graph.
        functions: the name of the launching function of each program, by its id.
    """
    graph = variant.traced.graph
    region_of = {i: region for region in variant.kernels for i in region.indices}
    waiting: list[Node] = []
    for index, node in enumerate(graph.nodes):
        region = region_of.get(index)
        if region is None:
            waiting.append(node)
        elif index == region.indices[0]:
            function = functions[variant.kernels[region].candidate.program_id]
            waiting.append(Node(LAUNCH, region.inputs, region.outputs, (("function", function),)))
    ready = {*graph.inputs, *graph.constant_of}
    ordered: list[Node] = []
    while waiting:
        fits = [n for n in waiting if ready.issuperset(n.inputs)]
        # One at a time keeps the order of the function's own lines.
        first = fits[0]
        waiting.remove(first)
        ordered.append(first)
        ready.update(first.outputs)
    return evaluated_constants(printable(_without_dead(replace(graph, nodes=tuple(ordered)))))


def evaluated_constants(graph: Graph) -> Graph:
    """Return a graph with what no input reaches as constants, where MLX code cannot say it."""
    known = set(graph.constant_of)
    before: list[Node] = []
    for node in graph.nodes:
        if node.op != LAUNCH and known.issuperset(node.inputs):
            known.update(node.outputs)
            before.append(node)
    if not any(not is_printable(node.op) for node in before):
        return graph
    read = {v for n in graph.nodes if n not in before for v in n.inputs}.union(graph.outputs)
    wanted = tuple(v for n in before for v in n.outputs if v in read)
    alone = replace(graph, inputs=(), names=(), nodes=tuple(before), outputs=wanted)
    with mx.stream(mx.cpu):
        arrays = ir.interpret(_without_dead(alone))
    made = tuple(
        (v, ir.Constant.of(to_numpy(a), graph.types[v].dtype))
        for v, a in zip(wanted, arrays, strict=True)
    )
    rest = tuple(n for n in graph.nodes if n not in before)
    return _without_dead(replace(graph, nodes=rest, constants=(*graph.constants, *made)))


def _without_dead(graph: Graph) -> Graph:
    live, kept = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if live.intersection(node.outputs):
            live.update(node.inputs)
            kept.append(node)
    constants = tuple((v, c) for v, c in graph.constants if v in live)
    return replace(graph, nodes=tuple(reversed(kept)), constants=constants)


def path_source(graph: Graph, name: str, summary: str, data: Mapping[ValueId, str]) -> str:
    """Return the function that computes a variant with kernels."""
    return launching_source(graph, name, summary, data)


def large_constants(graph: Graph) -> list[ValueId]:
    """List the constants that are not written into the code."""
    return [v for v, c in graph.constants if c.type.size > 16]


def described(types: Sequence[TensorType]) -> str:
    """Return types as on the command line."""
    return ", ".join(map(str, types))
