"""Judges in processes of their own: the same verdicts, and deaths that cost one candidate."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelwright.campaign.judging import judge_process, judges
from kernelwright.campaign.judging.job import (
    AnyCase,
    JudgeAnswer,
    JudgeJob,
    TaskText,
    to_line,
)
from kernelwright.campaign.judging.job_judge import EvaluatorJobJudge
from kernelwright.campaign.judging.judge_process import ProcessJobJudge
from kernelwright.campaign.judging.judge_service import answer
from kernelwright.campaign.judging.judges import JobJudgeBySize, job_judges_on
from kernelwright.errors import DeviceError, OutdatedError
from kernelwright.evaluator import Evaluation, Status
from kernelwright.evaluator.attacks.corpus import bases, mutants, task_of
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Mismatch, Stage
from kernelwright.evaluator.oracle import parallel
from kernelwright.metal.device.base import DeviceName
from tests.campaign.scripted import INFO

TASK = task_of("rotate")
RIGHT = bases()["rotate"].program
WRONG = next(m for m in mutants() if m.base == "rotate" and m.edit.expect[0] is Status.WRONG)
CONFIG = EvaluatorConfig(secret="apart", through=Stage.DETERMINISM)
JOB = JudgeJob(task=TaskText.of(TASK), program=RIGHT, config=CONFIG)


@pytest.fixture(scope="module")
def apart() -> Iterator[ProcessJobJudge]:
    judge = ProcessJobJudge("simulator", CONFIG, jobs=3)
    yield judge
    judge.close()


def test_a_judge_apart_judges_as_one_here_does(apart: ProcessJobJudge) -> None:
    here = EvaluatorJobJudge("simulator", config=CONFIG)
    for program in (WRONG.program, RIGHT):
        job = JOB.model_copy(update={"program": program})
        (one, cases), (other, other_cases) = apart.judge(job), here.judge(job)
        took = {"duration_s": 0.0, "stages": ()}
        assert one.model_copy(update=took) == other.model_copy(update=took)
        assert tuple(cases) == tuple(other_cases)
    assert apart.info == here.info
    here.close()


def test_a_process_that_dies_costs_one_candidate(
    apart: ProcessJobJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart.judge(JOB)
    (process,) = apart.processes
    asked, ask = threading.Event(), judge_process._JudgeProcess.ask

    def noted(self: judge_process._JudgeProcess, job: JudgeJob) -> JudgeAnswer | None:
        asked.set()
        return ask(self, job)

    monkeypatch.setattr(judge_process._JudgeProcess, "ask", noted)
    os.kill(process, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as threads:
        lost = threads.submit(apart.judge, JOB)
        assert asked.wait(60)
        os.kill(process, signal.SIGKILL)
        evaluation, _ = lost.result()
    assert evaluation.status is Status.CRASHED
    assert evaluation.summary == "the process that judged it died of SIGKILL"
    again, _ = apart.judge(JOB)
    assert again.is_correct
    assert apart.processes != (process,)


def test_one_that_died_between_two_jobs_is_replaced(apart: ProcessJobJudge) -> None:
    apart.judge(JOB)
    (process,) = apart.processes
    os.kill(process, signal.SIGKILL)
    while apart._process is not None and apart._process.is_alive:
        time.sleep(0.01)
    again, _ = apart.judge(JOB)
    assert again.is_correct
    assert apart.processes != (process,)


def test_one_that_is_closed_answers_with_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_process, "_END_TIMEOUT_S", 0.1)
    judge = ProcessJobJudge("simulator", CONFIG)
    assert judge.info.name == "simulator"
    os.kill(judge.processes[0], signal.SIGSTOP)
    with ThreadPoolExecutor(1) as threads:
        lost = threads.submit(judge.judge, JOB)
        time.sleep(0.05)
        judge.close()
        with pytest.raises(DeviceError, match="interrupted"):
            lost.result()
    with pytest.raises(DeviceError, match="interrupted"):
        judge.judge(JOB)


_HOLDS_A_JUDGE = """
import time
from kernelwright.campaign.judging.judge_process import ProcessJobJudge

judge = ProcessJobJudge("simulator")
judge.info
print(*judge.processes, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_outlives_a_search_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", _HOLDS_A_JUDGE], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        judge = int(owner.stdout.readline())
        # Ctrl-C reaches whoever runs the search, not who judges for it.
        assert os.getpgid(judge) != os.getpgid(owner.pid)
        family = [judge, *_children(judge)]
        assert len(family) > 1
        owner.kill()
    deadline = time.monotonic() + 20
    while alive := [process for process in family if _is_alive(process)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.02)


def _children(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children").read_text()
    found = [int(child) for child in children.split()]
    return [*found, *(grandchild for child in found for grandchild in _children(child))]


def _is_alive(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class _Breaking:
    """Fails at every job."""

    info = INFO

    def __init__(self, error: Exception) -> None:
        self._error = error

    def judge(self, job: JudgeJob) -> tuple[Evaluation, Sequence[AnyCase]]:
        raise self._error

    def start_again(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_an_exception_is_an_answer_and_a_silent_device_another() -> None:
    assert answer(_Breaking(ValueError("no")), JOB) == JudgeAnswer(error="ValueError: no")
    assert answer(_Breaking(DeviceError("silent")), JOB) == JudgeAnswer(failure="silent")
    changed = JudgeAnswer(failure="changed", is_outdated=True)
    assert answer(_Breaking(OutdatedError("changed")), JOB) == changed


def test_a_line_keeps_numbers_that_are_none() -> None:
    found = Mismatch(output=0, words="all", shapes=(), case="c", expected=math.inf, found=math.nan)
    read = Mismatch.model_validate_json(to_line(found))
    assert read.expected == math.inf
    assert read.found is not None
    assert math.isnan(read.found)


@pytest.mark.parametrize(
    ("device", "jobs", "cores", "kind"),
    [
        ("simulator", 2, 16, EvaluatorJobJudge),
        ("simulator", 4, 2, EvaluatorJobJudge),
        ("simulator", 3, 4, JobJudgeBySize),
        ("cuda", 3, 4, JobJudgeBySize),
        ("metal", 3, 4, EvaluatorJobJudge),
    ],
)
def test_many_judges_with_a_core_each_have_processes(
    device: DeviceName, jobs: int, cores: int, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judges, "cores", lambda: cores)
    assert type(job_judges_on(device, jobs=jobs)()) is kind


@pytest.mark.parametrize("is_large", [False, True])
def test_cases_that_exceed_a_judges_share_are_here_once(
    is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def judging(kind: str) -> Callable[[object, JudgeJob], tuple[None, tuple[()]]]:
        def judge(self: object, job: JudgeJob) -> tuple[None, tuple[()]]:
            asked.append(kind)
            return None, ()

        return judge

    bytes_of_all = 2 * 400 * TASK.graph.element_count * 3
    monkeypatch.setattr(judges, "memory_bytes", lambda: bytes_of_all - is_large)
    monkeypatch.setattr(judges, "cores", lambda: 4)
    monkeypatch.setattr(ProcessJobJudge, "judge", judging("apart"))
    monkeypatch.setattr(EvaluatorJobJudge, "judge", judging("here"))
    job_judges_on("simulator", jobs=3)().judge(JOB)
    assert asked == ["here" if is_large else "apart"]


def test_judges_share_the_machines_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_sharers", 1)
    whole = parallel.memory_bytes()
    parallel.share_memory(4)
    assert parallel.memory_bytes() == whole // 4


def test_the_device_opens_here_while_a_process_apart_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started, asked = threading.Event(), threading.Event()
    start = judge_process._JudgeProcess

    def slow_start(opening: object) -> object:
        started.set()
        assert asked.wait(60), "whoever asks for the device waits for the process"
        return start(opening)  # type: ignore[arg-type]

    monkeypatch.setattr(judge_process, "_JudgeProcess", slow_start)
    apart = ProcessJobJudge("simulator", CONFIG)
    judge = JobJudgeBySize(apart, EvaluatorJobJudge("simulator", config=CONFIG), jobs=1)
    assert judge.info.name == "simulator"
    assert started.wait(60)
    asked.set()
    evaluation, _ = judge.judge(JOB)
    assert evaluation.is_correct
    assert len(apart.processes) == 1
    judge.close()
