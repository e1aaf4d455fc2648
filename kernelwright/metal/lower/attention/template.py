"""Few queries against a cache of keys and values."""

from kernelwright.ir.graph import Graph
from kernelwright.metal.lower.attention.program import attention_program
from kernelwright.metal.lower.attention.space import attention_layout
from kernelwright.metal.lower.resource import WORKING_REGISTERS, Footprint
from kernelwright.metal.lower.template import Template
from kernelwright.metal.schedule import Attention


def _footprint(graph: Graph, schedule: Attention) -> Footprint:
    layout = attention_layout(graph, schedule)
    return Footprint(WORKING_REGISTERS + layout.registers, layout.threadgroup_bytes)


def _describe(schedule: Attention) -> str:
    together = f"{schedule.queries} queries" if schedule.queries > 1 else "one query"
    shared = f", {schedule.chunks} threadgroups a query" if schedule.chunks > 1 else ""
    return (
        f"{together.capitalize()} a threadgroup of {schedule.simdgroups} simdgroups{shared}, "
        f"{schedule.lanes} lanes a key, {schedule.keys} keys read ahead, online softmax."
    )


ATTENTION = Template(
    schedule=Attention,
    build=attention_program,
    footprint=_footprint,
    describe=_describe,
    strategy="Keys read once for several queries: online softmax, and the parts merged at the end.",
)
