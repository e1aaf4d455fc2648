"""The laboratory of MLX functions, on the CPU where no GPU is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.errors import DeviceError
from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.config import EvaluatorConfig, TimingPlan
from kernelwright.evaluator.speed import mlx_laboratory, remote_benchmark
from kernelwright.evaluator.speed.baseline import Function, baselines_of
from kernelwright.evaluator.speed.measuring import (
    BASELINES,
    CompileBaselines,
    Measure,
    SetUp,
    compile_baselines,
    measure,
    measurements_of,
    set_up,
)
from kernelwright.evaluator.speed.mlx_benchmark import MlxArm, MlxLaboratory
from kernelwright.evaluator.speed.remote_benchmark import RemoteLaboratory
from kernelwright.evaluator.speed.timing import Order
from kernelwright.evaluator.speed.timing_cases import timing_cases
from kernelwright.evaluator.stages.trial import Trial
from kernelwright.evaluator.worker.process import Worker
from kernelwright.evaluator.worker.service import Request
from kernelwright.evaluator.worker.wire import Reply
from kernelwright.ir.graph import TensorType
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.execution import MlxExecutable
from kernelwright.metal.diagnostic import LaunchError
from kernelwright.metal.kernel import BoundProgram, Kernel

PLAN = TimingPlan(
    pairs=6,
    warmups=1,
    minimum_sample_s=1e-4,
    maximum_repeats=4,
    rotation_bytes=1 << 14,
    copy_bytes=1 << 16,
    verified_share=1.0,
    canary_tolerance=1e9,
)
TASK = task_of("layer_norm")


@dataclass(frozen=True)
class CpuLaunch:
    """A launch that MLX carries out on the CPU: the task's own graph, or a bench's kernel."""

    kernel: Kernel

    def call(
        self, arrays: Sequence[mx.array], types: Sequence[TensorType], init_value: float | None
    ) -> list[mx.array]:
        """Compute by name."""
        if self.kernel.name == "copy":
            return [mx.negative(mx.negative(arrays[0]))]
        if self.kernel.name in ("read", "empty"):
            return [arrays[0][: types[0].size] * 1.0]
        if self.kernel.name == "broken":
            raise RuntimeError("no such launch")
        return baselines_of(TASK.graph)["eager"](*arrays)

    def load(self, arrays: Sequence[mx.array], types: Sequence[TensorType]) -> list[mx.array]:
        """Run once."""
        return self.call(arrays, types, None)

    def error(self, error: Exception) -> Exception:
        """Pass MLX's own on."""
        return error


class CpuDevice:
    """MLX's CPU backend, dressed as a device that measures time."""

    info = DeviceInfo(name="metal", chip="cpu", runtime="mlx", measures_time=True)

    def compile(self, program: BoundProgram, *, sanitize: bool = False) -> MlxExecutable:
        """Take every launch as it is."""
        return MlxExecutable(program, tuple(CpuLaunch(x.kernel) for x in program.launches))


def request() -> tuple[CpuDevice, MlxExecutable, SetUp]:
    device = CpuDevice()
    executable = device.compile(bases()["layer_norm"].program.bind(TASK.graph.input_types))
    cases = timing_cases(TASK.graph, TASK.output_tolerances, PLAN, "secret")
    return device, executable, SetUp("key", TASK.graph, cases.inputs, PLAN, seed=1)


def test_candidate_and_baselines_are_timed_in_one_process_and_their_outputs_judged() -> None:
    device, executable, asked = request()
    laboratory, reply = set_up(device, executable, asked)
    assert laboratory is not None
    assert not reply.header
    assert laboratory.bytes_per_s() > 1e6
    found = measurements_of(measure(laboratory, Measure(Order(6, twins=2))))
    assert set(found.comparisons) == set(baselines_of(TASK.graph))
    assert all(
        len(c.candidate_ns) == 6 and min(c.candidate_ns) > 0 for c in found.comparisons.values()
    )
    assert (len(found.noise), found.floor_ns > 0) == (2, True)
    cases = timing_cases(TASK.graph, TASK.output_tolerances, PLAN, "secret")
    assert len(found.observed) == PLAN.most_verified
    assert all(cases.judge(slot, outputs) == "" for slot, outputs in found.observed)
    slot, outputs = found.observed[0]
    assert "is off by" in cases.judge((slot + 1) % len(cases.cases), outputs)


def test_a_candidate_that_does_not_run_as_it_is_timed_is_a_launch_error() -> None:
    device, executable, asked = request()
    broken = executable.program.program.kernels[0].model_copy(update={"name": "broken"})
    with pytest.raises(LaunchError, match="no such launch"):
        set_up(device, MlxExecutable(executable.program, (CpuLaunch(broken),)), asked)


def test_a_task_that_mlx_cannot_compute_here_has_no_baseline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*arrays: mx.array) -> list[mx.array]:
        raise RuntimeError("not implemented on this backend")

    monkeypatch.setattr(mlx_laboratory, "baselines_of", lambda graph: {"eager": refuse})
    laboratory, reply = set_up(*request())
    assert laboratory is None
    assert reply.header["problem"] == "eager: not implemented on this backend"


@pytest.mark.parametrize("names", [("eager",), ("eager", "compile"), ("fast",)])
def test_only_the_baselines_that_are_asked_for_are_compiled(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    ran: list[str] = []

    def noted(name: str) -> Function:
        def run(*arrays: mx.array) -> list[mx.array]:
            ran.append(name)
            return [arrays[0]]

        return run

    known = {name: noted(name) for name in BASELINES if name != "fast"}
    monkeypatch.setattr(mlx_laboratory, "baselines_of", lambda graph: known)
    assert not compile_baselines(CompileBaselines(TASK.graph, names)).failure
    assert ran == [name for name in names if name in known]


def test_what_mlx_computes_a_graph_with_has_the_names_that_are_asked_for() -> None:
    assert tuple(baselines_of(TASK.graph)) == BASELINES


def test_every_slot_has_inputs_of_its_own() -> None:
    cases = timing_cases(TASK.graph, TASK.output_tolerances, PLAN, "secret")
    first = {np.asarray(arrays[0]).tobytes() for arrays in cases.inputs}
    assert len(first) == len(cases.inputs) >= 2


@pytest.mark.parametrize("restless", [2, 3])
def test_a_restless_machine_is_asked_again_and_then_gives_no_verdict(
    monkeypatch: pytest.MonkeyPatch, restless: int
) -> None:
    answers = iter([DeviceError("changes too much")] * restless)

    class Restless(Trial):
        def call(self, request: Request, timeout_s: float) -> Reply:
            for error in answers:
                raise error
            return Reply({"comparisons": {}, "noise": [], "floor_ns": 1.0, "slots": []})

    monkeypatch.setattr(remote_benchmark, "_PAUSES_S", (0.0, 0.0))
    program = bases()["layer_norm"].program
    trial = Restless(cast("Worker", None), program, EvaluatorConfig())
    laboratory = RemoteLaboratory(trial, 1e9)
    if restless == 2:
        assert laboratory.measure(Order(6)).floor_ns == 1.0
    else:
        with pytest.raises(DeviceError, match="changes too much"):
            laboratory.measure(Order(6))


@pytest.mark.parametrize(("output_bytes", "waits"), [(64, 0), (3 << 30, 2), (8 << 30, 4)])
def test_launches_share_a_synchronisation_as_memory_allows(
    monkeypatch: pytest.MonkeyPatch, output_bytes: int, waits: int
) -> None:
    evaluated: list[int] = []
    waited: list[int] = []
    queue, wait = mx.async_eval, mx.synchronize

    def queueing(outputs: list[list[mx.array]]) -> None:
        evaluated.append(len(outputs))
        queue(outputs)  # type: ignore[no-untyped-call]

    def waiting() -> None:
        waited.append(1)
        wait()

    monkeypatch.setattr(mx, "async_eval", queueing)
    monkeypatch.setattr(mx, "synchronize", waiting)
    arm = MlxArm("copy", lambda x: [x + 1], [[mx.zeros(2)], [mx.ones(2)]], output_bytes)
    slots = [0, 1, 0, 1]
    arm.prepare(slots)
    arm.launch(slots)
    assert sum(evaluated) == len(slots)
    # No input twice in one evaluation.
    assert max(evaluated) <= arm.slots
    assert len(waited) == waits + 1
    assert arm.outputs(1)[0].tolist() == [2.0, 2.0]


def test_twins_run_on_the_same_bits_in_buffers_of_their_own() -> None:
    laboratory, _ = set_up(*request())
    assert isinstance(laboratory, MlxLaboratory)
    bench = laboratory.session.bench
    twin, first = bench.make_twin(), bench.baselines[0]
    assert isinstance(twin, MlxArm)
    assert isinstance(first, MlxArm)
    for ours, theirs in zip(twin.inputs, first.inputs, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
            assert np.asarray(a, copy=False).ctypes.data != np.asarray(b, copy=False).ctypes.data


def test_the_benchs_own_kernels_compile_once_for_all_candidates() -> None:
    device, executable, asked = request()
    compiled: list[str] = []

    class Counting(CpuDevice):
        def compile(self, program: BoundProgram, *, sanitize: bool = False) -> MlxExecutable:
            compiled.extend(x.kernel.name for x in program.launches)
            return device.compile(program, sanitize=sanitize)

    counting = Counting()
    for _ in range(2):
        set_up(counting, executable, asked)
    assert sorted(compiled) == ["copy", "empty", "read"]
