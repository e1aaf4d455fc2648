"""A night on the simulator, in a process of its own: it stands until a file appears."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx

from kernelwright.campaign import Engine, Subject, capture_subjects, offline_team
from kernelwright.campaign.execution.judge import EvaluatorJudge, judge_on
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.history.pausing import Pause
from kernelwright.campaign.history.resuming import StopWatch
from kernelwright.campaign.spec.campaign_spec import CampaignFunction, CampaignSpec
from kernelwright.evaluator import Evaluation, Task
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.metal import Program
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.store import KernelStore

PATIENCE_S = 300


def norm(x: mx.array, weight: mx.array) -> mx.array:
    return mx.fast.rms_norm(x, weight, 1e-5)


def softmax(x: mx.array) -> mx.array:
    return mx.softmax(x * 2, axis=-1)


class GatedJudge:
    """Waits before its n-th verdict, and ends the process where nobody lets it go on."""

    def __init__(self, judge: EvaluatorJudge, gate: Path, stands_before: int) -> None:
        self._judge, self._gate, self._left = judge, gate, stands_before

    @property
    def info(self) -> DeviceInfo:
        return self._judge.info

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        self._left -= 1
        until = time.monotonic() + PATIENCE_S
        while self._left == 0 and not self._gate.exists():
            if time.monotonic() > until:
                raise SystemExit("nobody let the night go on")
            time.sleep(0.02)
        return self._judge.evaluate(task, program)

    def confirm(self, task: Task, program: Program) -> Evaluation:
        return self._judge.confirm(task, program)

    def close(self) -> None:
        self._judge.close()


def run(url: str, make_judge: Callable[[], GatedJudge]) -> None:
    x, weight = mx.zeros((4, 8)), mx.zeros((8,))
    subjects = (
        Subject("norm", norm, (x, weight), {}, "night.py"),
        Subject("softmax", softmax, (x,), {}, "night.py"),
    )
    pause = Pause()
    functions = tuple(CampaignFunction(target=s.name) for s in subjects)
    spec = CampaignSpec(
        name="nightly",
        functions=functions,
        devices=("simulator",),
        folder=".",
        jobs=1,
        candidates_per_task=2,
    )
    with KernelStore(url) as store:
        watch = StopWatch(store, pause)
        settings = RunSettings(listen=watch.show, pause=pause)
        engine = Engine(store, spec, offline_team(), make_judge, settings)
        with watch.calling(engine.stop):
            engine.run(capture_subjects(subjects))


if __name__ == "__main__":
    address, file, number = sys.argv[1:]
    evaluator = judge_on("simulator", EvaluatorConfig())
    run(address, lambda: GatedJudge(evaluator, Path(file), int(number)))
