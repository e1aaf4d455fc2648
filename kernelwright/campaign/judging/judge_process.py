"""A judge in a process of its own: jobs go there as lines of JSON, and answers come back so."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress

from kernelwright.campaign.judging.job import AnyCase, JudgeAnswer, JudgeJob, to_line
from kernelwright.campaign.judging.judge_service import JudgeHello, JudgeOpening
from kernelwright.errors import DeviceError, OutdatedError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Evaluation, Status
from kernelwright.evaluator.oracle.parallel import begin
from kernelwright.evaluator.worker.own_code import check_own_code
from kernelwright.metal.device.base import DeviceInfo, DeviceName
from kernelwright.metal.diagnostic import Record
from kernelwright.scratch import ScratchFolder

_START = """import sys
sys.path[:] = {path!r}
from kernelwright.campaign.judging.judge_service import main
main()"""
_END_TIMEOUT_S = 10.0
"""A judge ends its workers first; one that hangs in a driver is killed."""


class ProcessJobJudge:
    """Judges as the process does that it starts at its first job, and again where that died.

    The process ends with this one, however this one ends: it reads jobs from a pipe, which the
    system closes then. It hears no Ctrl-C, so that what it judges can be finished.
    """

    def __init__(
        self, device: DeviceName, config: EvaluatorConfig | None = None, *, jobs: int = 1
    ) -> None:
        """Judge on `device` as one of `jobs` judges, which share the machine's memory."""
        self._opening = JudgeOpening(device=device, config=config or EvaluatorConfig(), jobs=jobs)
        self._process: _JudgeProcess | None = None
        self._starting: Future[_JudgeProcess] | None = None
        self._lock = threading.Lock()
        self._is_over = False

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device; opens it."""
        return self._ready().info

    @property
    def processes(self) -> tuple[int, ...]:
        """Return the id of the process, which leads a group of its own."""
        process = self._process
        return (process.id,) if process is not None else ()

    def start_ahead(self) -> None:
        """Begin to start the process, for which the first job waits then."""
        with self._lock:
            if self._process is None and self._starting is None:
                self._starting = begin(self._start)

    def judge(self, job: JudgeJob) -> tuple[Evaluation, Sequence[AnyCase]]:
        """Return the verdict, and the cases that caught the candidate and were not known.

        Where the process dies of a job, that is the verdict: the candidate crashed.
        """
        process = self._ready()
        answer = process.ask(job)
        if answer is None:
            death = process.end()
            if self._is_over or self._process is not process:
                raise DeviceError("interrupted while its judge was at it.")
            self._process = None
            return _crashed(job, process.info, death), ()
        if answer.evaluation is None:
            if answer.failure:
                raise _failure(answer)
            raise RuntimeError(answer.error)
        return answer.evaluation, answer.cases

    def start_again(self) -> None:
        """End the process; the next job starts another."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.end()

    def close(self) -> None:
        """End the process for good, from any thread."""
        self._is_over = True
        self.start_again()

    def _ready(self) -> "_JudgeProcess":
        process = self._process
        if process is not None and process.is_alive:
            return process
        if process is not None:
            # It died between two jobs; its pipes and its folder are still ours.
            process.end()
        with self._lock:
            starting, self._starting = self._starting, None
        return starting.result() if starting else self._start()

    def _start(self) -> "_JudgeProcess":
        started = _JudgeProcess(self._opening)
        with self._lock:
            self._process = started
        if self._is_over:
            self.start_again()
            raise DeviceError("interrupted before its judge had started.")
        return started


def _failure(said: JudgeAnswer | JudgeHello) -> DeviceError:
    kind = OutdatedError if said.is_outdated else DeviceError
    return kind(said.failure)


class _JudgeProcess:
    """One process that judges, until it is ended or dies."""

    def __init__(self, opening: JudgeOpening) -> None:
        check_own_code()
        self._folder = ScratchFolder()
        with (self._folder.path / "stderr").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START.format(path=sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        hello = self._ask(opening)
        if not hello:
            raise DeviceError(f"a judge's process did not start: {self.end()}.")
        said = JudgeHello.model_validate_json(hello)
        if said.info is None:
            self.end()
            raise _failure(said)
        self.info = said.info

    @property
    def id(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, job: JudgeJob) -> JudgeAnswer | None:
        """Wait for the answer to a job; None where the process ended instead."""
        answer = self._ask(job)
        return JudgeAnswer.model_validate_json(answer) if answer else None

    def _ask(self, record: Record) -> bytes:
        jobs, answers = self._process.stdin, self._process.stdout
        assert jobs is not None
        assert answers is not None
        try:
            jobs.write(to_line(record))
            jobs.flush()
            return answers.readline()
        except (OSError, ValueError):
            # Its pipe broke, or another thread has closed it.
            return b""

    def end(self) -> str:
        """Have it end its workers and itself; return how it died."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        last = self._last_words()
        self._folder.remove()
        code = self._process.returncode
        died = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return f"{died}{': ' if last else ''}{last}"

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = (self._folder.path / "stderr").read_text(errors="replace").splitlines()
            return next((line.strip() for line in reversed(lines) if line.strip()), "")[:300]
        return ""


def _crashed(job: JudgeJob, info: DeviceInfo, death: str) -> Evaluation:
    return Evaluation(
        task=job.task.task().fingerprint,
        program=job.program.id,
        device=info,
        status=Status.CRASHED,
        summary=f"the process that judged it {death}",
    )
