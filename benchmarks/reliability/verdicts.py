"""Verdicts of the simulator, found once and then read: the evaluator is not on trial here."""

import json
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.campaign import MakeJudge, judges_on
from kernelwright.campaign.execution.judge import Judge
from kernelwright.campaign.judging.job import AnyCase, JudgeJob
from kernelwright.evaluator import Evaluation, Stage, Status, Task
from kernelwright.evaluator.evaluation import StageResult
from kernelwright.metal import Program
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.testing.fault.judge import Employer

PACE_S = (0.002, 0.03)
"""How long reading a verdict takes: long enough to be killed in it."""


class RecordingJudge:
    """Writes down what the simulator says."""

    def __init__(self, judge: Judge, folder: Path) -> None:
        self._judge = judge
        self._folder = folder

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""
        info = self._judge.info
        (self._folder / "device.json").write_text(info.model_dump_json())
        return info

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict on a program."""
        return self._kept("screen", self._judge.evaluate(task, program))

    def confirm(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict of every stage."""
        return self._kept("confirm", self._judge.confirm(task, program))

    def _kept(self, how: str, evaluation: Evaluation) -> Evaluation:
        path = self._folder / _name(how, evaluation.task, evaluation.program)
        path.write_text(evaluation.model_dump_json())
        return evaluation

    def close(self) -> None:
        """End the worker."""
        self._judge.close()


class ReadingJudge:
    """Says what the simulator said; asks it about programs that are new."""

    def __init__(self, folder: Path, real: MakeJudge) -> None:
        self._folder = folder
        self._real = real
        self.info = DeviceInfo.model_validate(json.loads((folder / "device.json").read_text()))

    @property
    def processes(self) -> tuple[int, ...]:
        """Nobody works here."""
        return ()

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict on a program."""
        return self._read("screen", task, program)

    def confirm(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict of every stage."""
        return self._read("confirm", task, program)

    def _read(self, how: str, task: Task, program: Program) -> Evaluation:
        time.sleep(random.uniform(*PACE_S))
        path = self._folder / _name(how, task.fingerprint, program.id)
        if path.exists():
            return Evaluation.model_validate_json(path.read_text())
        judge = RecordingJudge(self._real(), self._folder)
        try:
            return (
                judge.evaluate(task, program) if how == "screen" else judge.confirm(task, program)
            )
        finally:
            judge.close()

    def close(self) -> None:
        """There is nothing to end."""


@dataclass(frozen=True)
class Journal:
    """A file that several processes write lines to, each as one write."""

    path: Path

    def write(self, line: str) -> None:
        """Append a line."""
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{line}\n".encode())
        os.close(file)


class JournalingJudge:
    """Writes down what it evaluates."""

    def __init__(self, judge: Employer, journal: Journal) -> None:
        self._judge = judge
        self._journal = journal

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""
        return self._judge.info

    @property
    def processes(self) -> Sequence[int]:
        """Return who works."""
        return self._judge.processes

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict on a program."""
        evaluation = self._judge.evaluate(task, program)
        self._journal.write(_name("screen", task.fingerprint, program.id))
        return evaluation

    def confirm(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict of every stage."""
        evaluation = self._judge.confirm(task, program)
        self._journal.write(_name("confirm", task.fingerprint, program.id))
        return evaluation

    def close(self) -> None:
        """End the worker."""
        self._judge.close()


class KnownJobJudge:
    """Judges the jobs of a fleet as a judge would that has no fleet."""

    def __init__(self, judge: Employer) -> None:
        self._judge = judge

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""
        return self._judge.info

    def judge(self, job: JudgeJob) -> tuple[Evaluation, Sequence[AnyCase]]:
        """Return the verdict."""
        judge = self._judge.confirm if job.confirms else self._judge.evaluate
        return judge(job.task.task(), job.program), ()

    def start_again(self) -> None:
        """There is nothing to start."""

    def close(self) -> None:
        """End the worker."""
        self._judge.close()


class InventingJudge:
    """Makes verdicts up, the same ones every time, for a look at the sweep itself in seconds."""

    info = DeviceInfo(name="simulator", chip="invented", runtime="1", measures_time=False)
    processes: tuple[int, ...] = ()

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        """Return a verdict: right unless the program slips or cheats, fast by its digest."""
        time.sleep(random.uniform(*PACE_S))
        source = program.kernels[0].source
        wrong = Status.WRONG if source.endswith("= 1.0f;") else Status.CORRECT
        status = Status.COMPILE_ERROR if ".0g" in source else wrong
        return Evaluation(
            task=task.fingerprint,
            program=program.id,
            device=self.info,
            status=status,
            summary="as invented",
            duration_s=0.01,
            predicted_us=1 + int(program.id[:6], 16) / 1e6 if status is Status.CORRECT else None,
        )

    def confirm(self, task: Task, program: Program) -> Evaluation:
        """Confirm whatever is right."""
        gates = (Stage.HIDDEN, Stage.CONFIRMATION)
        stages = tuple(StageResult(stage=gate, passed=True, summary="") for gate in gates)
        return self.evaluate(task, program).model_copy(update={"stages": stages})

    def close(self) -> None:
        """There is nothing to end."""


def recording(folder: Path) -> MakeJudge:
    """Return what makes judges that write down what they find."""
    real = judges_on("simulator")
    return lambda: RecordingJudge(real(), folder)


def reading(folder: Path) -> "Callable[[], ReadingJudge]":
    """Return what makes judges that read what was found."""
    real = judges_on("simulator")
    return lambda: ReadingJudge(folder, real)


def _name(how: str, task: str, program: str) -> str:
    return f"{how}-{task[:20]}-{program[:20]}.json"
