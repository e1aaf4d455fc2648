"""A search over graphs that were captured elsewhere, such as the parts of a model."""

from collections.abc import Mapping
from functools import partial

from kernelwright import ir
from kernelwright.campaign.planning.capturing import Captured, CapturedFunction
from kernelwright.campaign.spec.subject import Subject
from kernelwright.ir.graph import Graph


def captured_graphs(graphs: Mapping[str, Graph], file: str) -> Captured:
    """Return canonical graphs, by name, as what a search is about; they come from `file`."""
    return Captured(
        tuple(
            CapturedFunction(Subject(name, partial(ir.interpret, graph), (), {}, file), graph)
            for name, graph in graphs.items()
        )
    )
