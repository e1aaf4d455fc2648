"""The process of a judge: reads jobs, one a line, and writes answers, until its input ends."""

import os
import queue
import sys
import threading
from typing import BinaryIO

from kernelwright.campaign.judging.job import JudgeAnswer, JudgeJob, to_line
from kernelwright.campaign.judging.job_judge import EvaluatorJobJudge, JobJudge
from kernelwright.errors import DeviceError, KernelwrightError, OutdatedError
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.oracle.parallel import share_memory
from kernelwright.metal.device.base import DeviceInfo, DeviceName
from kernelwright.metal.diagnostic import Record


class JudgeOpening(Record):
    """The first line that a judge's process reads."""

    device: DeviceName
    config: EvaluatorConfig
    jobs: int
    """Judges that share the machine's memory."""


class JudgeHello(Record):
    """The first line that it writes."""

    info: DeviceInfo | None = None
    failure: str = ""
    """Why the device does not open."""
    is_outdated: bool = False
    """As in an answer."""


def main() -> None:
    """Judge until the input ends, as it does when the process at its other end dies."""
    # What a library prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    opening = JudgeOpening.model_validate_json(sys.stdin.buffer.readline())
    share_memory(opening.jobs)
    judge = EvaluatorJobJudge(opening.device, config=opening.config)
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    # Jobs are judged on the main thread: Linux kills a worker when the thread ends that made it.
    threading.Thread(target=_read_jobs, args=(judge, jobs), daemon=True).start()
    _write(answers, _hello(judge))
    while True:
        _write(answers, answer(judge, JudgeJob.model_validate_json(jobs.get())))


def answer(judge: JobJudge, job: JudgeJob) -> JudgeAnswer:
    """Judge one job; whatever happens, there is an answer."""
    try:
        evaluation, cases = judge.judge(job)
    except DeviceError as e:
        return JudgeAnswer(failure=str(e), is_outdated=isinstance(e, OutdatedError))
    except Exception as e:
        return JudgeAnswer(error=f"{type(e).__name__}: {e}")
    return JudgeAnswer(evaluation=evaluation, cases=tuple(cases))


def _hello(judge: JobJudge) -> JudgeHello:
    try:
        return JudgeHello(info=judge.info)
    except KernelwrightError as e:
        return JudgeHello(failure=str(e), is_outdated=isinstance(e, OutdatedError))


def _read_jobs(judge: JobJudge, jobs: "queue.SimpleQueue[bytes]") -> None:
    """Hand jobs over, and end the process with its workers when no more can come."""
    for line in sys.stdin.buffer:
        jobs.put(line)
    judge.close()
    os._exit(0)


def _write(answers: BinaryIO, said: Record) -> None:
    answers.write(to_line(said))
    answers.flush()


if __name__ == "__main__":
    main()
