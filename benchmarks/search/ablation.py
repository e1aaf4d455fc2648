"""What each policy has saved after each evaluation, over the same recorded tasks."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.search.landscape import Landscape
from kernelwright.agents.offline.tuner import expectations, ordered
from kernelwright.agents.protocols import Attempt, Proposal
from kernelwright.campaign.planning.traffic import traffic_of
from kernelwright.evaluator import Evaluation, Status, Task
from kernelwright.ir import Graph
from kernelwright.metal import Kernel, Program, Tensor
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.perf import find_profile
from kernelwright.metal.schedule import parse, render
from kernelwright.search.priority import Order, SecondsToSave, estimate_of
from kernelwright.search.ranking import rank_of
from kernelwright.search.spec import SearchSpec
from kernelwright.search.strategy import Done, RepairThenWrite, Team
from kernelwright.search.task_search import TaskSearch

DEVICE = DeviceInfo(name="simulator", chip="m4-pro", runtime="recorded", measures_time=False)
_LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Problem:
    """A recorded task with what MLX takes and the best that any schedule takes."""

    landscape: Landscape
    task: Task
    mlx_us: float
    best_us: float


def problems(landscapes: Sequence[Landscape]) -> list[Problem]:
    """Read recorded tasks."""
    profile, found = find_profile(DEVICE.chip), []
    for landscape in landscapes:
        task = Task(Graph.from_json(landscape.graph), landscape.task)
        mlx_us = estimate_of(task, profile).mlx_us
        found.append(Problem(landscape, task, mlx_us, min(landscape.microseconds.values())))
    return found


class RecordedCoder:
    """Proposes recorded schedules: as the offline coder, without its cost model, or at random."""

    def __init__(
        self,
        problems: Sequence[Problem],
        draw: random.Random | None = None,
        *,
        has_model: bool = False,
    ) -> None:
        self._schedules = {p.task.fingerprint: list(p.landscape.microseconds) for p in problems}
        if draw is not None:
            for listed in self._schedules.values():
                draw.shuffle(listed)
        self._is_random = draw is not None
        self._expected = {
            p.task.fingerprint: expectations(
                p.task.graph, map(parse, p.landscape.microseconds), DEVICE
            )
            for p in (problems if has_model else ())
        }

    def write(
        self, task: Task, device: DeviceInfo, history: Sequence[Attempt], *, count: int
    ) -> Sequence[Proposal]:
        """Propose schedules that the history does not hold."""
        tried = {attempt.proposal.schedule for attempt in history}
        left = [s for s in self._schedules[task.fingerprint] if s not in tried]
        if not self._is_random:
            costs = {
                parse(a.proposal.schedule): rank.value
                for a in history
                if (rank := rank_of(a.evaluation)) is not None
            }
            expected = self._expected.get(task.fingerprint)
            left = [render(s) for s in ordered([parse(s) for s in left], costs, count, expected)]
        return [_proposal(task, schedule) for schedule in left[:count]]

    def plan(self, graph: Graph, device: DeviceInfo) -> None:
        """Plan nothing: tasks are recorded."""

    def repair(self, task: Task, device: DeviceInfo, failed: Attempt) -> Proposal | None:
        """Repair nothing: what is recorded is right."""
        return None


class BytesToSave:
    """The order before: bytes that a task could still save, for the seconds spent on it."""

    def __call__(self, tasks: Sequence[TaskSearch], device: DeviceInfo) -> Sequence[TaskSearch]:
        """Return the tasks, most worth while first. Nothing recorded tells bytes: they stay."""
        return sorted(tasks, key=self._worth, reverse=True)

    def _worth(self, search: TaskSearch) -> float:
        traffic = traffic_of(search.task.graph)
        moved = traffic.planned if search.history else traffic.best_of_mlx
        left = max(moved - traffic.planned, _LEAST_SHARE * traffic.best_of_mlx)
        return left / (1.0 + len(search.history))


class RandomOrder:
    """Any task."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw

    def __call__(self, tasks: Sequence[TaskSearch], device: DeviceInfo) -> Sequence[TaskSearch]:
        """Return the tasks in a new order."""
        return self._draw.sample(list(tasks), len(tasks))


Policy = Callable[[Sequence[Problem]], tuple[RecordedCoder, Order]]


def policies(seed: int) -> dict[str, Policy]:
    """Return what is compared, by name."""
    draw = random.Random(seed)
    return {
        "random schedules, random tasks": lambda p: (RecordedCoder(p, draw), RandomOrder(draw)),
        "sampler, random tasks": lambda p: (RecordedCoder(p), RandomOrder(draw)),
        "sampler, bytes to save": lambda p: (RecordedCoder(p), BytesToSave()),
        "sampler, seconds to save": lambda p: (RecordedCoder(p), SecondsToSave()),
        "cost model, random tasks": lambda p: (
            RecordedCoder(p, has_model=True),
            RandomOrder(draw),
        ),
        "cost model, seconds to save (the engine)": lambda p: (
            RecordedCoder(p, has_model=True),
            SecondsToSave(),
        ),
    }


def run(problems: Sequence[Problem], policy: Policy, *, budget: int) -> Iterator[float]:
    """Yield the share of what can be saved that is saved, after each evaluation."""
    coder, order = policy(problems)
    spec = SearchSpec(candidates_per_task=1000, patience=1000)
    team = Team(planner=coder, coder=coder, repairer=coder)  # type: ignore[arg-type]
    strategy = RepairThenWrite(team, DEVICE, spec)
    searches = [TaskSearch(p.task, p.landscape.task) for p in problems]
    times = {p.task.fingerprint: p.landscape.microseconds for p in problems}
    reached = {p.task.fingerprint: p.mlx_us for p in problems}
    first = sum(reached.values())
    possible = first - sum(min(p.mlx_us, p.best_us) for p in problems)
    spent = 0
    while spent < budget and (open_ := [s for s in searches if not s.ended]):
        search = order(open_, DEVICE)[0]
        search.advance()
        batch = strategy.next(search)
        if isinstance(batch, Done):
            search.ended = True
            continue
        search.begin(batch)
        for proposal in batch:
            task_id = search.task.fingerprint
            took_us = times[task_id][proposal.schedule]
            search.judged(proposal.program.id, _verdict(search, proposal, took_us), reused=False)
            reached[task_id] = min(reached[task_id], took_us)
            spent += 1
            if spent <= budget:
                yield (first - sum(reached.values())) / possible
    while spent < budget:
        spent += 1
        yield (first - sum(reached.values())) / possible


def _verdict(search: TaskSearch, proposal: Proposal, took_us: float) -> Evaluation:
    return Evaluation(
        task=search.task.fingerprint,
        program=proposal.program.id,
        device=DEVICE,
        status=Status.CORRECT,
        summary="recorded",
        predicted_us=took_us,
        duration_s=1.0,
    )


def _proposal(task: Task, schedule: str) -> Proposal:
    """Stand for a schedule's program: only its name is looked at."""
    out = task.graph.output_types[0]
    kernel = Kernel(
        name="recorded",
        inputs=(),
        outputs=("out",),
        source=schedule,
        grid=(32, 1, 1),
        threadgroup=(32, 1, 1),
    )
    program = Program(
        inputs=(),
        outputs=(Tensor(name="out", dtype=out.dtype, shape=out.shape),),
        kernels=(kernel,),
    )
    return Proposal(program=program, author="recorded", idea=schedule, schedule=schedule)
