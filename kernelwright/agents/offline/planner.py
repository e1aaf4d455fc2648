"""The planner that follows the partition: every region that lowering can write."""

from kernelwright.agents.protocols import Plan, PlannedRegion
from kernelwright.errors import UnsupportedError
from kernelwright.ir import Graph, Kind, Node, Region, op_named
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower import lower, schedules, template_of
from kernelwright.metal.schedule import Schedule
from kernelwright.plan import eager_traffic, partition, planned_traffic

AUTHOR = "offline"


class OfflinePlanner:
    """Fuses greedily, and keeps what a kernel family can compute."""

    def plan(self, graph: Graph, device: DeviceInfo) -> Plan:
        """Cut a canonical graph into legal, disjoint regions."""
        planned: list[PlannedRegion] = []
        left: list[tuple[str, str]] = []
        # Layers repeat each other: each task is written once.
        judged: dict[str, Schedule | UnsupportedError] = {}
        for region in partition(graph):
            task = region.standard()
            if task.fingerprint not in judged:
                judged[task.fingerprint] = _first_schedule(task, device)
            schedule = judged[task.fingerprint]
            if isinstance(schedule, UnsupportedError):
                left.append((_name(region), str(schedule)))
                continue
            planned.append(
                PlannedRegion(
                    indices=region.indices,
                    strategy=template_of(schedule).strategy,
                    benefit=_benefit(region),
                )
            )
        covered = {i for p in planned for i in p.indices}
        left += [
            (node.op, _reason(node))
            for i, node in enumerate(graph.nodes)
            if i not in covered and op_named(node.op).kind is not Kind.VIEW
        ]
        return Plan(regions=tuple(planned), left=tuple(dict.fromkeys(left)), author=AUTHOR)


def _first_schedule(task: Graph, device: DeviceInfo) -> Schedule | UnsupportedError:
    """Return the schedule to begin with, or why lowering refuses the task."""
    try:
        schedule = schedules(task, device)[0]
        # The first schedule lowers where any does: families refuse graphs, not schedules.
        lower(task, schedule)
    except UnsupportedError as e:
        return e
    return schedule


def _name(region: Region) -> str:
    return " + ".join(dict.fromkeys(node.op for node in region.nodes))


def _benefit(region: Region) -> str:
    apart = eager_traffic(region.graph, region.indices)
    together = planned_traffic(region.graph, [region], region.indices)
    saved = max(apart.nbytes - together.nbytes, 0)
    return (
        f"{_count(apart.launches, 'launch', 'launches')} become one; "
        f"{_bytes(apart.nbytes)} of traffic become {_bytes(together.nbytes)} "
        f"({_bytes(saved)} saved)."
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _bytes(number: float) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} GB"


def _reason(node: Node) -> str:
    kind = op_named(node.op).kind
    if kind in (Kind.ELEMENTWISE, Kind.REDUCTION):
        return "alone it saves nothing: MLX's own kernel does the same work"
    article = "an" if kind[0] in "aeiou" else "a"
    return f"it is {article} {kind} op, which is left to MLX"
