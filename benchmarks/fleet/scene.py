"""Campaigns and workers as forked processes: evaluations take a known time, verdicts are known."""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import mlx.core as mx

from kernelwright.campaign import Captured, Engine, SearchSpec, Subject, Team, capture_subjects
from kernelwright.campaign.execution import run_control
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.fleet.fleet_executors import FleetExecutors
from kernelwright.campaign.fleet.worker import Worker
from kernelwright.campaign.history import heartbeat
from kernelwright.campaign.judging.job import AnyCase, JudgeJob
from kernelwright.evaluator import Evaluation
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.store import KernelStore
from tests.campaign.scripted import (
    INFO,
    ScriptedCoder,
    ScriptedJudge,
    ScriptedRepairer,
    WholePlanner,
)

ENDED, INTERRUPTED, BROKEN = 0, 75, 70
HEARTBEAT_S, DEAD_AFTER_S = 0.5, 5.0
SCRIPTS = ("correct 9", "wrong", "correct 3", "compile", "correct 5", "correct 4")
NEVER = 1_000_000


def softmax(x: mx.array) -> mx.array:
    """Return the softmax of every row."""
    return mx.softmax(x, axis=-1)


def captured(tasks: int) -> Captured:
    """Trace as many functions, each a task of its own."""
    return capture_subjects(
        Subject(f"f{i}", softmax, (mx.zeros((4, 8 * (i + 1))),), {}, __file__) for i in range(tasks)
    )


@dataclass
class LatentJudge:
    """Takes its time, says what the source says, and writes down what it was asked."""

    latency_s: float
    journal: Path | None
    info: DeviceInfo = INFO

    def judge(self, job: JudgeJob) -> tuple[Evaluation, Sequence[AnyCase]]:
        """Return the scripted verdict."""
        task, judge = job.task.task(), ScriptedJudge()
        asked = f"{job.task.name} {job.program.kernels[0].source}{' confirmed' * job.confirms}"
        self._write(f"begun {asked}")
        time.sleep(self.latency_s)
        verdict = (judge.confirm if job.confirms else judge.evaluate)(task, job.program)
        self._write(f"done {asked}")
        return verdict.model_copy(update={"duration_s": self.latency_s}), ()

    def start_again(self) -> None:
        """Hold nothing."""

    def close(self) -> None:
        """Hold nothing."""

    def _write(self, line: str) -> None:
        if self.journal is not None:
            file = os.open(self.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, f"{line}\n".encode())
            os.close(file)


def begin_worker(url: str, latency_s: float, journal: Path | None = None) -> int:
    """Fork a worker; return its process id."""

    def work() -> int:
        with KernelStore(url) as store:
            Worker(
                store,
                lambda: LatentJudge(latency_s, journal),
                heartbeat_s=HEARTBEAT_S,
                dead_after_s=DEAD_AFTER_S,
            ).run()
        return ENDED

    return forked(work)


def begin_campaign(url: str, functions: Captured, jobs: int, candidates: int = 12) -> int:
    """Fork a campaign on the fleet; return its process id."""

    def search() -> int:
        heartbeat.BEAT_S = 0.2
        run_control._FIRST_PAUSE_S = 0.02
        team = Team(WholePlanner(), ScriptedCoder(SCRIPTS), ScriptedRepairer())
        spec = SearchSpec(
            name="fleet",
            jobs=jobs,
            candidates_per_task=candidates,
            patience=20,
            most_deaths=NEVER,
        )
        with KernelStore(url) as store:
            executors = FleetExecutors(store, "simulator", dead_after_s=DEAD_AFTER_S)
            report = Engine(store, spec, team, executors, RunSettings(resumes=True)).run(functions)
        return INTERRUPTED if report.ended.interrupted else ENDED

    return forked(search)


def forked(work: Callable[[], int]) -> int:
    """Run in a process of its own, which ends with what `work` returns."""
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        _live(work)
    return process


def _live(work: Callable[[], int]) -> NoReturn:
    code = BROKEN
    try:
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def end(process: int, number: int = signal.SIGKILL) -> int:
    """Signal a process and wait until it is gone; return its code, negative for a signal."""
    with suppress(ProcessLookupError):
        os.kill(process, number)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
