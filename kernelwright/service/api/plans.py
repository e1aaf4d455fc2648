"""The plans of a campaign, drawn from its log."""

from kernelwright.campaign.event import PlanDrawn
from kernelwright.campaign.planning.launch_graph import Flow
from kernelwright.campaign.planning.plan_record import plan_from
from kernelwright.campaign.planning.plan_summary import outline
from kernelwright.campaign.report.known_champions import known_gains
from kernelwright.errors import InputError
from kernelwright.service.api.campaigns import planned_functions, runs_of
from kernelwright.service.api.record import PlannedFunction
from kernelwright.service.view.plan_svg import draw_plan
from kernelwright.store import KernelStore


def planned(store: KernelStore, prefix: str) -> tuple[PlannedFunction, ...]:
    """Return how the functions of a campaign were cut, and which can be drawn."""
    drawn = _drawn(store, prefix)
    plans = planned_functions(store, runs_of(store, prefix))
    return tuple(
        PlannedFunction(plan=plan, has_graph=(plan.function, plan.inputs) in drawn)
        for plan in plans
    )


def plan_svg(store: KernelStore, prefix: str, number: int) -> str:
    """Draw a function's graph with its regions, and what the store's champions gain.

    Raises:
        InputError: there is no such plan, or its graph is not in the log.
    """
    runs = runs_of(store, prefix)
    plans = planned_functions(store, runs)
    if number >= len(plans):
        raise InputError(f"no plan {number} in the campaign; it has {len(plans)}.")
    plan = plans[number]
    drawn = _drawn(store, prefix).get((plan.function, plan.inputs))
    if drawn is None:
        raise InputError(f"no graph of {plan.function} is in the log; its plan was not kept.")
    known = known_gains(store, {task.id for task in plan.tasks}, runs[-1].environment.device)
    made = plan_from(plan, drawn)
    return draw_plan(Flow(made.graph, made.regions), outline(made, known))


def _drawn(store: KernelStore, prefix: str) -> dict[tuple[str, str], PlanDrawn]:
    found = [
        event.read(PlanDrawn)
        for run in runs_of(store, prefix)
        for event in store.events(run.id, kinds=(PlanDrawn.__name__,))
    ]
    return {(plan.function, plan.inputs): plan for plan in found}
