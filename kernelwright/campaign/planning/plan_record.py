"""A plan as a run's log keeps it, from which it is drawn again without the user's code."""

from kernelwright.campaign.event import FunctionPlanned, PlanDrawn
from kernelwright.campaign.planning.capturing import FunctionPlan, cut_tasks
from kernelwright.campaign.spec.subject import Subject
from kernelwright.errors import InputError
from kernelwright.ir import Region, read_graph

MOST_CHARACTERS = 1_000_000
"""Graphs with large constants are not kept: nobody could read their picture either."""


def record_of(plan: FunctionPlan) -> PlanDrawn | None:
    """Return a plan's graph and cut; None where the graph is too large to be kept."""
    graph = plan.graph.to_json()
    if len(graph) > MOST_CHARACTERS:
        return None
    return PlanDrawn(
        function=plan.event.function,
        inputs=plan.event.inputs,
        graph=graph,
        regions=tuple(tuple(region.indices) for region in plan.regions),
    )


def plan_from(planned: FunctionPlanned, drawn: PlanDrawn) -> FunctionPlan:
    """Return a plan as it was made; its function cannot be called."""
    graph = read_graph(drawn.graph)
    regions = tuple(Region(graph, indices) for indices in drawn.regions)
    subject = Subject(planned.function, _not_here, (), {}, planned.place)
    return FunctionPlan(
        subject=subject,
        graph=graph,
        regions=regions,
        tasks=cut_tasks(subject, graph, regions),
        left=planned.left,
        author=planned.author,
    )


def _not_here(*arrays: object) -> object:
    raise InputError("expected a function of the user's, found one that a log tells of.")
