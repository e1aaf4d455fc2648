"""Whether a set of nodes may become one kernel, and if not, why not."""

from dataclasses import dataclass

from kernelwright.ir.graph import ValueId
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.region import Region
from kernelwright.metal.family.classify import Pattern, classify
from kernelwright.metal.limit import MAXIMUM_BUFFERS


@dataclass(frozen=True)
class Verdict:
    """Whether something is allowed; each reason against it is one sentence."""

    reasons: tuple[str, ...] = ()

    @property
    def is_legal(self) -> bool:
        """True when nothing speaks against it."""
        return not self.reasons

    def __str__(self) -> str:
        """Render in one line."""
        return "; ".join(self.reasons) or "legal"


def legality(region: Region, *, needs_template: bool = True) -> Verdict:
    """Judge a region: connected, convex, free of barriers, and of one kernel family.

    A kernel that somebody else writes needs no family: without `needs_template` only what no
    kernel could do speaks against a region.
    """
    if not region.indices:
        return Verdict(("the region is empty",))
    reasons = [
        f"{node.op} is a barrier" for node in region.nodes if op_named(node.op).kind is Kind.BARRIER
    ]
    if not is_connected(region):
        reasons.append("its nodes share no value, so they are several regions")
    if outside := path_outside(region):
        reasons.append(f"its result comes back through {outside}, which is not in it")
    buffers = len(region.inputs) + len(region.outputs)
    if buffers > MAXIMUM_BUFFERS:
        reasons.append(f"it needs {buffers} buffers, a Metal function takes {MAXIMUM_BUFFERS}")
    if not region.outputs:
        reasons.append("nothing outside reads what it makes")
    if needs_template and not reasons:
        family = classify(region.bare())
        if family.pattern is Pattern.NONE:
            reasons.append(family.reason)
    return Verdict(tuple(reasons))


def is_connected(region: Region) -> bool:
    """Say whether the nodes hang together through the values that they read and make."""
    joined: dict[ValueId, set[int]] = {}
    for index, node in zip(region.indices, region.nodes, strict=True):
        for value in (*node.inputs, *node.outputs):
            if region.graph.types[value].size > 1 or value not in region.graph.constant_of:
                joined.setdefault(value, set()).add(index)
    reached, frontier = {region.indices[0]}, [region.indices[0]]
    while frontier:
        node = region.graph.nodes[frontier.pop()]
        for value in (*node.inputs, *node.outputs):
            fresh = joined.get(value, set()) - reached
            reached |= fresh
            frontier.extend(fresh)
    return len(reached) == len(region.indices)


def path_outside(region: Region) -> str:
    """Name an op outside that reads from the region and feeds it: the region is not convex."""
    graph, inside = region.graph, set(region.indices)
    last = max(region.indices)
    tainted = {v for node in region.nodes for v in node.outputs}
    for index in range(min(region.indices), last + 1):
        node = graph.nodes[index]
        if index in inside:
            continue
        if any(v in tainted for v in node.inputs):
            tainted.update(node.outputs)
    made = {v for node in region.nodes for v in node.outputs}
    for node in region.nodes:
        for value in node.inputs:
            if value in tainted and value not in made:
                return graph.nodes[graph.producer_of[value]].op
    return ""
