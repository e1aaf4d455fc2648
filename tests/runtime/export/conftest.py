"""Kernels in a store, ready to be exported."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import mlx.core as mx
import pytest

from kernelwright.agents.protocols import Proposal
from kernelwright.evaluator import Evaluation, Stage, Status, Task
from kernelwright.evaluator.evaluation import StageResult
from kernelwright.ir import Graph, canonicalize, capture
from kernelwright.ir.ops import Kind, op_named
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.lower import lower, schedules
from kernelwright.plan import partition
from kernelwright.runtime.export.function.variant import Lookup
from kernelwright.store import CandidateDetail, Environment, KernelStore, NewTrial

INFO = DeviceInfo(name="simulator", chip="x86_64", runtime="ziglang 0.17.0", measures_time=False)
Recorder = Callable[..., CandidateDetail]


def scaled_softmax(x: mx.array) -> mx.array:
    return mx.softmax(x * 0.5, axis=-1)


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorder]:
    """Record a softmax kernel for an array with the verdict that a test wants."""
    with KernelStore(str(tmp_path / "kernels.db")) as store:

        def record(array: mx.array, status: Status = Status.CORRECT) -> CandidateDetail:
            graph = canonicalize(capture(scaled_softmax, array))
            task = Task(graph, "scaled_softmax")
            proposal = Proposal(
                program=lower(graph, schedules(graph, INFO)[0]), author="offline", idea="rows"
            )
            environment = Environment(device=INFO, mlx="0.32.4", system="Linux x86_64")
            campaign = store.begin_campaign(name="test", spec="{}", environment=environment)
            trial = store.add_trial(
                NewTrial(campaign.id, task, proposal.program, proposal.author, proposal.idea)
            )
            held = status is Status.CORRECT
            stages = (
                StageResult(stage=Stage.CORRECTNESS, passed=held, summary=""),
                StageResult(stage=Stage.HIDDEN, passed=held, summary=""),
            )
            verdict = Evaluation(
                task=task.fingerprint,
                program=proposal.program.id,
                device=INFO,
                status=status,
                summary="seen",
                stages=stages,
                cases=14,
            )
            store.record(trial.id, verdict, rank=None)
            return store.show(trial.candidate_id)

        yield record


def is_one_region(graph: Graph) -> bool:
    """Say whether the planner would search a graph as it is."""
    launched = {i for i, n in enumerate(graph.nodes) if op_named(n.op).kind is not Kind.VIEW}
    return any(launched <= set(region.indices) for region in partition(graph))


@pytest.fixture
def kernels_of(tmp_path: Path) -> Iterator[Callable[..., Lookup]]:
    """Return a lookup that has a kernel for each region, on the chips that a test names."""
    with KernelStore(str(tmp_path / "lookup.db")) as store:

        def made(graph: Graph, chip: str) -> CandidateDetail:
            info = INFO.model_copy(update={"chip": chip})
            task = Task(graph, graph.nodes[0].op)
            program = lower(graph, schedules(graph, info)[0])
            environment = Environment(device=info, mlx="0.32.4", system="Linux x86_64")
            campaign = store.begin_campaign(name="test", spec="{}", environment=environment)
            trial = store.add_trial(NewTrial(campaign.id, task, program, "offline", f"for {chip}"))
            stages = tuple(
                StageResult(stage=stage, passed=True, summary="")
                for stage in (Stage.CORRECTNESS, Stage.HIDDEN)
            )
            verdict = Evaluation(
                task=task.fingerprint,
                program=program.id,
                device=info,
                status=Status.CORRECT,
                summary="seen",
                stages=stages,
                cases=14,
            )
            store.record(trial.id, verdict, rank=None)
            return store.show(trial.candidate_id)

        def lookup_on(chips_of: Callable[[Graph], tuple[str, ...]]) -> Lookup:
            known: dict[tuple[str, str], CandidateDetail] = {}

            def lookup(tasks: Sequence[Graph]) -> Mapping[str, list[CandidateDetail]]:
                searched = [task for task in tasks if is_one_region(task)]
                for task in searched:
                    for chip in chips_of(task):
                        if (task.fingerprint, chip) not in known:
                            known[task.fingerprint, chip] = made(task, chip)
                return {
                    t.fingerprint: [known[t.fingerprint, chip] for chip in chips_of(t)]
                    for t in searched
                }

            return lookup

        yield lookup_on
