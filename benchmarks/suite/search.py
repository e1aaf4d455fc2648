"""The search of one workload, by the engine and with the judge that `kernelwright search` has."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory

import mlx.core as mx

from benchmarks.suite.drawing import mlx_dtype
from benchmarks.suite.result import ScheduleResult
from benchmarks.suite.workload import Function, Workload
from kernelwright import ir
from kernelwright.campaign import Engine, SearchReport, SearchSpec, judges_on, offline_team
from kernelwright.campaign.event import CandidateJudged, Event
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.planning.given_graph import captured_graphs
from kernelwright.errors import DeviceError
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.trace.stitch import stitch
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Device
from kernelwright.metal.device.execution import MlxExecutable
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules
from kernelwright.metal.schedule import Schedule, parse
from kernelwright.plan import partition
from kernelwright.plan.mlx.quantized_product import unpack_products
from kernelwright.search.priority import SecondsToSave
from kernelwright.store import KernelStore

SCHEDULES = SearchSpec().candidates_per_task
"""Candidates tried for each region unless told, as many as `kernelwright search` tries."""


@dataclass(frozen=True)
class Searched:
    """What the engine found for a workload: its champions, and all that it tried."""

    graph: Graph
    champions: Mapping[ir.Region, Program]
    schedules: tuple[ScheduleResult, ...]


@dataclass(frozen=True)
class Found:
    """A workload's planned graph with the chosen kernels in place."""

    graph: Graph
    regions: tuple[ir.Region, ...]
    function: Function
    schedules: tuple[ScheduleResult, ...]

    @property
    def nodes_left(self) -> int:
        """Nodes that no region covers."""
        return len(self.graph.nodes) - sum(len(r.indices) for r in self.regions)


def search(
    workload: Workload, dtype: Dtype, device: DeviceInfo, most_schedules: int = SCHEDULES
) -> Searched:
    """Let the engine search a workload in a store of its own; every champion is confirmed."""
    graph = unpack_products(capture(workload, dtype), device.name)
    spec = SearchSpec(name=workload.name, device=device.name, candidates_per_task=most_schedules)
    judged: list[CandidateJudged] = []

    def listen(event: Event) -> None:
        if isinstance(event, CandidateJudged):
            judged.append(event)

    with TemporaryDirectory() as folder, KernelStore(str(Path(folder) / "suite.db")) as store:
        engine = Engine(
            store,
            spec,
            offline_team(),
            judges_on(device.name, store),
            RunSettings(listen=listen, order=SecondsToSave()),
        )
        report = engine.run(captured_graphs({workload.name: graph}, "the suite"))
        return _searched(graph, report, judged, store)


def _searched(
    graph: Graph, report: SearchReport, judged: Sequence[CandidateJudged], store: KernelStore
) -> Searched:
    """Read what each region's task has tried, and its champion, from the store."""
    chosen = {task.task_id: task.champion_id for task in report.tasks}
    champions: dict[ir.Region, Program] = {}
    rows: list[ScheduleResult] = []
    for number, region in enumerate(partition(graph)):
        extracted = region.extract()
        task_id = extracted.fingerprint
        for event in judged if task_id in chosen else ():
            if event.task_id == task_id:
                is_chosen = event.candidate_id == chosen[task_id]
                rows.append(_row(number, ir.operation(extracted), event, store, is_chosen))
        if (champion := chosen.get(task_id)) is not None:
            champions[region] = store.show(champion).program
    return Searched(graph, champions, tuple(rows))


def _row(
    number: int, operation: str, event: CandidateJudged, store: KernelStore, is_chosen: bool
) -> ScheduleResult:
    candidate = store.show(event.candidate_id).candidate
    rank = event.rank
    return ScheduleResult(
        region=number,
        operation=operation,
        schedule=str(parse(candidate.schedule)) if candidate.schedule else candidate.idea,
        measured_us=rank.value if rank and rank.kind == "measured" else None,
        predicted_us=rank.value if rank and rank.kind == "predicted" else None,
        problem="" if rank else event.summary[:500],
        is_chosen=is_chosen,
    )


def build(searched: Searched, device: Device) -> Found:
    """Put champions into the workload's graph."""
    chosen = {
        region: _compiled(program, region.extract(), device)
        for region, program in searched.champions.items()
    }
    return _found(searched.graph, chosen, searched.schedules)


def rebuild(
    workload: Workload, dtype: Dtype, device: Device, results: Sequence[ScheduleResult]
) -> Found:
    """Build what an earlier search chose, without searching."""
    graph = unpack_products(capture(workload, dtype), device.info.name)
    names = {r.region: r.schedule for r in results if r.is_chosen}
    chosen: dict[ir.Region, MlxExecutable] = {}
    for number, region in enumerate(partition(graph)):
        extracted = region.extract()
        for schedule in schedules(extracted, device.info) if number in names else ():
            if is_named(schedule, names[number]):
                chosen[region] = _compiled(lower(extracted, schedule), extracted, device)
    return _found(graph, chosen, results)


def is_named(schedule: Schedule, text: str) -> bool:
    """Say whether results hold a schedule so; decisions that came later have their defaults."""
    given = dict(re.findall(r"(\w+)=(\w+)", text))
    return text.startswith(f"{type(schedule).__name__}(") and all(
        str(getattr(schedule, field.name)) == given.get(field.name, str(field.default))
        for field in fields(schedule)
    )


def _compiled(program: Program, graph: Graph, device: Device) -> MlxExecutable:
    executable = device.compile(program.bind(graph.input_types))
    if not isinstance(executable, MlxExecutable):
        raise DeviceError(f"the {device.info.name} device measures no time; use metal or cuda.")
    return executable


def _found(
    graph: Graph, chosen: Mapping[ir.Region, MlxExecutable], results: Sequence[ScheduleResult]
) -> Found:
    stitched = stitch(graph, {r: e.graph for r, e in chosen.items()})

    def run(*arrays: mx.array) -> tuple[mx.array, ...]:
        return tuple(stitched(*arrays))

    # As people use it: the launches are recorded once, and what is left to MLX is fused.
    function: Function = mx.compile(run)
    return Found(graph, tuple(chosen), function, tuple(results))


def capture(workload: Workload, dtype: Dtype) -> Graph:
    """Trace a workload; its inputs are never materialised."""
    zeros = [
        mx.broadcast_to(mx.array(0, dtype=mlx_dtype(t)), t.shape) for t in workload.types(dtype)
    ]
    return ir.gather_attention(ir.canonicalize(ir.capture(workload.function, *zeros)))
