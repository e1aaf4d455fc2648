"""A plan put into words and figures: its kernels, what stays with MLX, and why."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kernelwright.campaign.event import LeftOperation
from kernelwright.campaign.planning.capturing import FunctionPlan, PlannedTask
from kernelwright.campaign.planning.function_work import FunctionWork
from kernelwright.campaign.planning.launch_graph import Flow, Unit
from kernelwright.campaign.planning.traffic import Traffic, traffic_of
from kernelwright.campaign.planning.whole_function import whole_gain
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.gain import Gain, gain_between
from kernelwright.evaluator.speed.prediction import flops_of, perfect_time, predict_baselines
from kernelwright.ir import Graph, Region
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.perf import find_profile
from kernelwright.plan import Traffic as Count
from kernelwright.plan import best_baseline, cost, legality, planned_traffic


class Work(Record):
    """Bytes to and from memory and kernel launches of one call."""

    nbytes: int
    launches: int

    @classmethod
    def of(cls, count: Count) -> "Work":
        """Take the totals of a count."""
        return cls(nbytes=count.nbytes, launches=count.launches)


class RegionOutline(Record):
    """One kernel of the plan."""

    label: str
    name: str
    """By the user's own line or variable."""
    operation: str
    task_id: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    eager: Work
    mlx: Work
    """MLX at its best: the fastest of eager, `mx.compile` and `mx.fast`."""
    planned: Work
    limit: Gain
    """What a perfect kernel would gain over MLX, predicted."""
    gain: Gain | None
    """The store's champion's; None without one."""
    live_values: int
    """Most values that one thread holds at once."""
    threadgroup_bytes: int
    recomputed_flops: int


class Step(Record):
    """What a kernel of the plan computes, or one of MLX's."""

    label: str
    """`R1`, `R2`, … for kernels of the plan, `m1`, `m2`, … for MLX's."""
    ops: tuple[str, ...]
    """In graph order, views left out."""
    reads: tuple[str, ...]
    """Names of inputs and labels of earlier steps."""
    launches: int
    """One, or as many as MLX needs: a mean is a sum and a product."""


class Seam(Record):
    """Two neighbours that are not one kernel, and why not."""

    source: str
    target: str
    reason: str


class PlanOutline(Record):
    """One function's plan."""

    function: str
    inputs: str
    author: str
    nodes: int
    steps: tuple[Step, ...]
    """In an order in which they can run."""
    regions: tuple[RegionOutline, ...]
    left: tuple[LeftOperation, ...]
    seams: tuple[Seam, ...]
    traffic: Traffic
    work: FunctionWork
    limit: Gain | None
    """What the function as a whole would gain with perfect kernels; None without regions."""
    gain: Gain | None
    """What it gains with the store's champions; None without one."""


@dataclass(frozen=True)
class KnownGains:
    """What is known of a plan's tasks, by their ids."""

    gains: Mapping[str, Gain] = field(default_factory=dict)
    """As they are shown."""
    predicted: Mapping[str, Gain] = field(default_factory=dict)
    """Predicted on the chip that times are predicted for."""


def outline(
    plan: FunctionPlan, known: KnownGains = KnownGains(), chip: str | None = None
) -> PlanOutline:
    """Describe a plan; nothing is compiled and nothing is timed.

    Raises:
        InputError: `chip`, whose times are predicted, is not known.
    """
    chip = chip or EvaluatorConfig().chip
    flow = Flow(plan.graph, plan.regions)
    tasks = dict(zip(plan.regions, plan.tasks, strict=True))
    described = tuple(
        _region(u, u.region, tasks[u.region], known, chip) for u in flow.units if u.region
    )
    limits = {region.task_id: region.limit for region in described}
    ids = tuple(planned.task.fingerprint for planned in plan.tasks)
    return PlanOutline(
        function=plan.subject.name,
        inputs=", ".join(map(str, plan.graph.input_types)),
        author=plan.author,
        nodes=len(plan.graph.nodes),
        steps=tuple(_step(flow, u) for u in flow.units),
        regions=described,
        left=plan.left,
        seams=tuple(_seams(flow)),
        traffic=traffic_of(plan.graph, plan.regions),
        work=plan.work,
        limit=whole_gain(plan.work, ids, limits, limits, chip),
        gain=whole_gain(plan.work, ids, known.gains, known.predicted, chip),
    )


def _region(
    unit: Unit, region: Region, planned: PlannedTask, known: KnownGains, chip: str
) -> RegionOutline:
    graph, figures = region.graph, cost(region)
    task = planned.task
    return RegionOutline(
        label=unit.label,
        name=planned.label,
        operation=planned.signature,
        task_id=task.fingerprint,
        inputs=tuple(str(graph.types[v]) for v in region.inputs),
        outputs=tuple(str(graph.types[v]) for v in region.outputs),
        eager=Work.of(figures.eager),
        mlx=Work.of(best_baseline(region.bare())),
        planned=Work.of(figures.fused),
        limit=_limit(task.graph, chip),
        gain=known.gains.get(task.fingerprint),
        live_values=figures.live_values,
        threadgroup_bytes=figures.threadgroup_bytes,
        recomputed_flops=figures.recomputed_flops,
    )


def _limit(graph: Graph, chip: str) -> Gain:
    """Predict what a kernel gains that moves and computes at the chip's peak."""
    profile = find_profile(chip)
    whole = planned_traffic(graph, [Region(graph, tuple(range(len(graph.nodes))))])
    perfect = perfect_time(whole, flops_of(graph), profile)
    return gain_between(perfect, predict_baselines(graph, profile), profile.name)


def _step(flow: Flow, unit: Unit) -> Step:
    graph = flow.graph
    names = dict(zip(graph.inputs, graph.input_names(), strict=True))
    values = (v for i in unit.nodes for v in flow.reads(i))
    given = [names[v] for v in dict.fromkeys(values) if v in names]
    return Step(
        label=unit.label,
        ops=(f"mx.fast.{unit.fast}",)
        if unit.fast
        else tuple(graph.nodes[i].op for i in unit.nodes),
        reads=(*given, *(source.label for source in flow.sources(unit))),
        launches=unit.launches,
    )


def _seams(flow: Flow) -> Iterator[Seam]:
    """Yield each kernel's neighbours that could be kernels too, and are not one with it.

    What MLX runs because no kernel family computes it is among what is left, with its reason.
    """
    for unit in flow.units:
        for source in flow.sources(unit):
            is_pair = _is_fusible(flow, unit) and _is_fusible(flow, source)
            if is_pair and (unit.region or source.region):
                yield Seam(
                    source=source.label,
                    target=unit.label,
                    reason=_reason(flow, source, unit),
                )


def _is_fusible(flow: Flow, unit: Unit) -> bool:
    return unit.region is not None or legality(Region(flow.graph, unit.nodes)).is_legal


def _reason(flow: Flow, source: Unit, target: Unit) -> str:
    own = [i for unit in (source, target) for i in (unit.region.indices if unit.region else ())]
    joined = {*own, *source.nodes, *target.nodes, *flow.views_between(target.nodes)}
    verdict = legality(Region(flow.graph, tuple(sorted(joined))))
    return "; ".join(verdict.reasons) or "nothing forbids it; the planner kept them apart"
