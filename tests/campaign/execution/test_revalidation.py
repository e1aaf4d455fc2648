"""A champion of another environment is judged again, and told fresh, stale or revoked."""

import platform
from collections.abc import Callable, Iterator
from pathlib import Path

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.campaign.execution.judge import _system, environment_of
from kernelwright.campaign.execution.revalidation import Recheck, recheck
from kernelwright.errors import DeviceError
from kernelwright.evaluator.evaluation import Evaluation, Stage, StageResult, Status
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo, DeviceName
from kernelwright.metal.device.simulator.device import SimulatorDevice
from kernelwright.metal.kernel import Program
from kernelwright.metal.lower import lower, schedules
from kernelwright.store import Environment, KernelStore, NewTrial, Rank

INFO = SimulatorDevice().info


class Verdicts:
    """Answers with a status, and counts how often it was asked."""

    def __init__(self, status: Status, info: DeviceInfo = INFO) -> None:
        self.info = info
        self.status = status
        self.asked = 0

    def __call__(self, device: DeviceName, threadgroup_bytes: int, stands_for: str) -> "Verdicts":
        return self

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        return self.confirm(task, program)

    def confirm(self, task: Task, program: Program) -> Evaluation:
        self.asked += 1
        held = StageResult(stage=Stage.CONFIRMATION, passed=True, summary="holds")
        return Evaluation(
            task=task.fingerprint,
            program=program.id,
            device=self.info,
            status=self.status,
            summary=f"it is {self.status}.",
            stages=(held,) if self.status is Status.CORRECT else (),
            predicted_us=7.0,
        )

    def close(self) -> None:
        pass


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KernelStore]:
    """Hold one champion, judged under an older MLX."""
    with KernelStore(str(tmp_path / "kernels.db")) as opened:
        crown(opened, environment_of(INFO).model_copy(update={"mlx": "0.1"}))
        yield opened


def crown(
    store: KernelStore,
    environment: Environment,
    function: Callable[[mx.array], mx.array] = lambda x: mx.exp(x) * 2,
) -> None:
    graph = ir.canonicalize(ir.capture(function, mx.zeros((4, 32))))
    task = Task(graph, "double_exp")
    program = lower(graph, schedules(graph, INFO)[0])
    campaign = store.begin_campaign(name="t", spec="{}", environment=environment)
    trial = store.add_trial(NewTrial(campaign.id, task, program, "offline", "as lowered"))
    judge = Verdicts(Status.CORRECT, environment.device)
    rank = Rank(kind="predicted", value=9.0)
    store.promote(store.record(trial.id, judge.confirm(task, program), rank=rank))


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (Status.CORRECT, "fresh"),
        (Status.UNPROVEN, "revoked"),
        (Status.TIMEOUT, "stale"),
        (Status.WRONG, "revoked"),
        (Status.UNSAFE, "revoked"),
    ],
)
def test_a_verdict_of_another_environment_is_taken_again(
    store: KernelStore, status: Status, outcome: str
) -> None:
    (found,) = recheck(store, opening=Verdicts(status))
    assert found.outcome == outcome
    assert "MLX 0.1 is now" in found.reason
    (champion,) = store.best()
    assert (champion.freshness, champion.status) == (outcome, status)
    assert champion.rank.value == (7.0 if outcome == "fresh" else 9.0)
    assert len(store.show(champion.candidate_id).evaluations) == 2
    assert store.campaigns()[0].state == "finished"


def test_a_task_that_plans_write_in_another_form_now_is_stale(tmp_path: Path) -> None:
    judge = Verdicts(Status.CORRECT)
    with KernelStore(str(tmp_path / "kernels.db")) as store:
        crown(store, environment_of(INFO), lambda x: x / (1 + mx.exp(-x)))
        (found,) = recheck(store, opening=judge)
        (champion,) = store.best()
    written = ir.canonicalize(ir.capture(lambda x: x * mx.sigmoid(x), mx.zeros((4, 32))))
    assert (found.outcome, champion.freshness, judge.asked) == ("stale", "stale", 0)
    assert ir.standardize(written).fingerprint[:8] in found.reason


def test_an_update_of_the_system_is_noticed(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Verdicts(Status.CORRECT)
    list(recheck(store, opening=judge))
    with monkeypatch.context() as patched:
        patched.setattr(platform, "mac_ver", lambda: ("26.1", ("", "", ""), "arm64"))
        patched.setattr(platform, "machine", lambda: "arm64")
        _system.cache_clear()
        assert environment_of(INFO).system == "macOS 26.1 arm64"
        (found,) = recheck(store, opening=judge)
    _system.cache_clear()
    assert found.outcome == "fresh"
    assert found.reason.startswith(f"system {environment_of(INFO).system} is now macOS 26.1 arm64;")


def test_a_system_without_a_name_tells_its_kernels_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> dict[str, str]:
        raise OSError

    monkeypatch.setattr(platform, "freedesktop_os_release", missing)
    _system.cache_clear()
    assert platform.release() in environment_of(INFO).system
    _system.cache_clear()


def test_what_was_judged_here_is_asked_again_only_on_request(store: KernelStore) -> None:
    judge = Verdicts(Status.CORRECT)
    list(recheck(store, opening=judge))
    assert [r.outcome for r in recheck(store, opening=judge)] == ["current"]
    assert judge.asked == 1
    assert [r.outcome for r in recheck(store, everything=True, opening=judge)] == ["fresh"]


def test_a_champion_of_another_chip_is_crowned_on_this_one_too(store: KernelStore) -> None:
    judge = Verdicts(Status.CORRECT, INFO.model_copy(update={"chip": "M9"}))
    assert [r.outcome for r in recheck(store, opening=judge)] == ["fresh"]
    assert {c.chip: c.freshness for c in store.best()} == {INFO.chip: "fresh", "M9": "fresh"}
    again = list(recheck(store, opening=judge))
    assert [r.outcome for r in again] == ["current", "current"]


def test_a_failure_on_another_chip_says_nothing_about_its_own(store: KernelStore) -> None:
    judge = Verdicts(Status.WRONG, INFO.model_copy(update={"chip": "M9"}))
    assert [r.outcome for r in recheck(store, opening=judge)] == ["revoked"]
    assert [c.freshness for c in store.best()] == ["fresh"]


def test_a_device_that_is_not_here_leaves_its_champions_alone(store: KernelStore) -> None:
    def absent(device: DeviceName, threadgroup_bytes: int, stands_for: str) -> Verdicts:
        raise DeviceError(f"there is no {device} here.")

    (found,) = recheck(store, opening=absent)
    assert (found.outcome, found.reason) == ("unreachable", "there is no simulator here.")
    assert store.best()[0].freshness == "fresh"


def test_the_evaluator_itself_confirms_a_sound_kernel(store: KernelStore) -> None:
    found: list[Recheck] = list(recheck(store))
    assert [r.outcome for r in found] == ["fresh"], found[0].reason
    assert store.best()[0].freshness == "fresh"


def test_a_champion_is_judged_on_the_device_that_it_was_found_on(tmp_path: Path) -> None:
    roomy, other = SimulatorDevice(98304).info, SimulatorDevice(stands_for="h200").info
    asked: list[tuple[int, str]] = []

    def opening(device: DeviceName, threadgroup_bytes: int, stands_for: str) -> Verdicts:
        asked.append((threadgroup_bytes, stands_for))
        return Verdicts(Status.CORRECT, SimulatorDevice(threadgroup_bytes, stands_for).info)

    with KernelStore(str(tmp_path / "both.db")) as store:
        for info in (INFO, roomy, other):
            crown(store, environment_of(info).model_copy(update={"mlx": "0.1"}))
        outcomes = [r.outcome for r in recheck(store, opening=opening)]
        chips = {c.chip for c in store.best()}
    assert sorted(asked) == [(32768, ""), (32768, "h200"), (98304, "")]
    assert outcomes == ["fresh"] * 3
    assert chips == {INFO.chip, roomy.chip, other.chip}
