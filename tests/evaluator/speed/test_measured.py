"""Measured time in a verdict: the whole way through worker, wire, race and confirmation."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kernelwright.evaluator.attacks.corpus import bases, task_of
from kernelwright.evaluator.attacks.device import Misdeed
from kernelwright.evaluator.attacks.synthetic import Noise
from kernelwright.evaluator.attacks.timed import TimedDevice
from kernelwright.evaluator.config import EvaluatorConfig, TimingPlan
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Evaluation, Stage, Status
from kernelwright.evaluator.inputs.suite_cache import SuiteCache
from kernelwright.evaluator.stages import worker_pool
from kernelwright.evaluator.stages.case_source import CaseSource
from kernelwright.evaluator.stages.pipeline import PIPELINE
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.worker.process import Worker
from kernelwright.evaluator.worker.start import open_worker
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.device.executable import Device

CONFIG = EvaluatorConfig(
    secret="tests",
    through=Stage.CONFIRMATION,
    measure_timeout_s=30,
    timing=TimingPlan(rotation_bytes=1 << 16, verified_share=0.3),
)


def evaluate(device: TimedDevice, base: str = "layer_norm", *, tried: int = 1) -> Evaluation:
    with Evaluator(device, CONFIG) as evaluator:
        return evaluator.evaluate(task_of(base), bases()[base].program, tried=tried)


def test_a_faster_kernel_is_promoted_with_all_that_was_measured() -> None:
    found = evaluate(TimedDevice(candidate_ns=70_000))
    assert found.status is Status.PROMOTED, found.summary
    assert [s.stage for s in found.stages] == list(Stage)
    gain = min(found.speedups, key=lambda s: s.ratio)
    assert (gain.baseline, gain.kind) == ("compile", "measured")
    lower, upper = gain.bounds
    assert lower < 100 / 70 < upper * 1.02
    assert found.measured_us == pytest.approx(70, rel=0.05)
    assert found.conditions is not None
    assert found.conditions.copy_bytes_per_s == 1e12
    assert found.conditions.floor_ns == pytest.approx(100, rel=0.1)
    assert found.conditions.noise is not None
    assert found.conditions.noise > 0
    arms = [s.arm for s in found.samples]
    assert len(set(arms)) == len(arms)
    assert {"candidate", "compile", "eager", "candidate, test"} < set(arms)
    assert {"candidate, confirmation", "compile, test, confirmation"} < set(arms)
    # What the simulator counts stands beside what was measured.
    assert found.counters
    assert found.predicted_us


def test_a_search_through_timing_takes_no_samples_for_a_promotion() -> None:
    config = CONFIG.model_copy(update={"through": Stage.TIMING})
    with Evaluator(TimedDevice(candidate_ns=70_000), config) as evaluator:
        found = evaluator.evaluate(task_of("layer_norm"), bases()["layer_norm"].program)
    assert found.status is Status.CORRECT
    assert {s.arm for s in found.samples} == {
        *("candidate", "candidate vs eager", "compile", "eager")
    }


def test_the_luckiest_of_many_needs_more_than_the_first() -> None:
    found = evaluate(TimedDevice(candidate_ns=95_500, noise=Noise(layout=0.004)), tried=100_000)
    assert found.status is Status.CORRECT
    assert "not faster than compile (measured)" in found.summary


def test_faster_than_the_copy_of_the_same_run_is_implausible() -> None:
    nbytes = sum(t.nbytes for t in (*task_of("layer_norm").graph.input_types,) * 2)
    found = evaluate(TimedDevice(candidate_ns=70_000, bytes_per_s=nbytes / 90e-6))
    assert found.status is Status.IMPLAUSIBLE
    assert found.stages[-1].stage is Stage.TIMING
    assert found.samples


def test_outputs_of_timed_launches_are_put_to_the_oracle() -> None:
    found = evaluate(TimedDevice(candidate_ns=70_000, forgets_from=200))
    assert found.status is Status.WRONG
    assert "a timed launch gave a wrong result" in found.summary


def test_speed_on_visible_data_only_does_not_survive_the_confirmation() -> None:
    found = evaluate(TimedDevice(candidate_ns=70_000, is_fast_on=10.0))
    assert found.status is Status.UNPROVEN
    assert found.stages[-1].stage is Stage.CONFIRMATION
    assert found.summary == "the confirmation did not hold: not faster in a fresh process."


@pytest.mark.parametrize(
    ("misdeed", "status"), [(Misdeed.HANG, Status.TIMEOUT), (Misdeed.ABORT, Status.CRASHED)]
)
def test_what_breaks_while_it_is_timed_is_a_verdict(misdeed: Misdeed, status: Status) -> None:
    device = TimedDevice(candidate_ns=70_000, misdeed=misdeed)
    with Evaluator(device, CONFIG) as evaluator:
        found, again = (
            evaluator.evaluate(task_of("layer_norm"), bases()["layer_norm"].program)
            for _ in range(2)
        )
    assert found.status is status
    assert found.stages[-1].stage is Stage.TIMING
    assert again is found, "a program that took its worker down must not run again"


def test_a_generic_kernel_must_be_fast_at_shapes_that_nobody_has_seen() -> None:
    own = sum(t.size for t in task_of("softmax").graph.input_types)
    found = evaluate(TimedDevice(candidate_ns=70_000, is_fast_from=own), "softmax")
    assert found.status is Status.CORRECT
    assert found.summary.endswith("; slower than MLX at an unseen shape or on unseen data")
    assert found.has_passed_hidden_gate


@pytest.mark.parametrize(
    ("candidate_ns", "status"), [(70_000, Status.CORRECT), (0.001, Status.IMPLAUSIBLE)]
)
def test_a_device_is_kept_alone_for_each_timed_series_and_free_in_between(
    monkeypatch: pytest.MonkeyPatch, candidate_ns: float, status: Status
) -> None:
    events: list[str] = []

    @contextmanager
    def turn(*, alone: bool) -> Iterator[None]:
        events.append("mine alone" if alone else "shared")
        try:
            yield
        finally:
            events.append("free")

    def noted(stage: PipelineStage) -> None:
        run = type(stage).run

        def note(self: PipelineStage, context: Context) -> str:
            # The simulator's stages, on threads of their own, take no turns.
            if threading.current_thread() is threading.main_thread():
                events.append(stage.name.value)
            return run(self, context)

        monkeypatch.setattr(type(stage), "run", note)

    for stage in PIPELINE:
        noted(stage)
    config = CONFIG.model_copy(update={"through": Stage.TIMING})
    with Evaluator(TimedDevice(candidate_ns=candidate_ns), config, turn=turn) as evaluator:
        found = evaluator.evaluate(task_of("layer_norm"), bases()["layer_norm"].program)
    assert found.status is status
    assert events[-2:] == ["shared", "free"], "what is left there is freed in a turn"
    turns = {name: list[str]() for name in (s.stage.value for s in found.stages)}
    running, lengths = "", dict[str, int]()
    for event in events[:-2]:
        if event in turns:
            running = event
        else:
            turns[running].append(event)
    # Each request has a turn of its own: no other one's begins before it has ended.
    for name, turn_of in (
        ("correctness", "shared"),
        ("determinism", "shared"),
        ("timing", "mine alone"),
    ):
        said = turns.pop(name)
        assert said == [turn_of, "free"] * (len(said) // 2)
        lengths[name] = len(said)
    assert not any(turns.values())
    assert lengths["correctness"] > 2 * lengths["timing"] > 2


@pytest.mark.parametrize("is_shared", [True, False])
def test_what_a_program_is_confirmed_on_is_drawn_while_it_is_ordered_if_evaluators_share_it(
    monkeypatch: pytest.MonkeyPatch, is_shared: bool
) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(
        CaseSource, "draw_hidden_ahead", lambda self, task, program: drawn.append(program.id)
    )
    config = CONFIG.model_copy(update={"through": Stage.TIMING})
    suites = SuiteCache() if is_shared else None
    program = bases()["layer_norm"].program
    with Evaluator(TimedDevice(candidate_ns=70_000), config, suites=suites) as evaluator:
        evaluator.evaluate(task_of("layer_norm"), program)
    assert drawn == ([program.id] if is_shared else [])


def test_what_is_right_where_a_program_is_timed_is_begun_before_what_confirms_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(
        CaseSource, "work_out_timing_ahead", lambda self, task: begun.append("timing")
    )
    monkeypatch.setattr(
        CaseSource, "draw_hidden_ahead", lambda self, task, program: begun.append("hidden")
    )
    with Evaluator(TimedDevice(candidate_ns=70_000), CONFIG) as evaluator:
        evaluator.evaluate(task_of("layer_norm"), bases()["layer_norm"].program)
    assert begun == ["timing", "hidden"]


def test_a_confirmation_opens_one_worker_beside_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def note(device: str | Device, *rest: object) -> tuple[Worker, DeviceInfo]:
        worker, info = open_worker(device, *rest)  # type: ignore[arg-type]
        opened.append(info.name)
        return worker, info

    monkeypatch.setattr(worker_pool, "open_worker", note)
    with Evaluator(TimedDevice(candidate_ns=70_000), CONFIG) as evaluator:
        found = evaluator.evaluate(task_of("layer_norm"), bases()["layer_norm"].program)
        assert found.status is Status.PROMOTED
        assert sorted(opened) == ["cuda", "cuda", "simulator"]
        assert len(evaluator.processes) == 2, "the one beside it has ended"
