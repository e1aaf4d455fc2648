"""Which process judges a job: the search's own, or one for each of many judges."""

from collections.abc import Callable, Sequence

from kernelwright.campaign.judging.job import AnyCase, JudgeJob
from kernelwright.campaign.judging.job_judge import EvaluatorJobJudge, read_task
from kernelwright.campaign.judging.judge_process import ProcessJobJudge
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.inputs.suite_cache import SuiteCache
from kernelwright.evaluator.oracle.parallel import cores, memory_bytes
from kernelwright.metal.device.base import DeviceInfo, DeviceName

_FEWEST_APART = 3
"""Judges with a core each: two threads hardly wait for each other, and two processes draw twice."""
_BYTES_PER_ELEMENT = 400
"""What the cases of a task take, and what is right there, for each element of its inputs and
outputs: measured on tasks of 10^5 to 10^6 elements."""
_CASES_SHARE = 1 / 2
"""Of the machine's memory, for the cases of all judges that have processes of their own."""


class JobJudgeBySize:
    """Judges in a process of its own what fits its share of the memory, and here what does not.

    The cases of a large task are thus there once, for all judges.
    """

    def __init__(self, apart: ProcessJobJudge, here: EvaluatorJobJudge, jobs: int) -> None:
        self._apart = apart
        self._here = here
        self._most_bytes = _CASES_SHARE * memory_bytes() / jobs

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device; opens it here, while the other process starts."""
        self._apart.start_ahead()
        return self._here.info

    @property
    def processes(self) -> tuple[int, ...]:
        """Return the ids of the processes that work for it, each the leader of its group."""
        return (*self._apart.processes, *self._here.processes)

    def judge(self, job: JudgeJob) -> tuple[Evaluation, Sequence[AnyCase]]:
        """Return the verdict, and the cases that caught the candidate and were not known."""
        is_large = _BYTES_PER_ELEMENT * read_task(job.task).graph.element_count > self._most_bytes
        return self._here.judge(job) if is_large else self._apart.judge(job)

    def start_again(self) -> None:
        """Give the next job a process that no candidate has been near."""
        self._apart.start_again()
        self._here.start_again()

    def close(self) -> None:
        """End its processes, from any thread."""
        self._apart.close()
        self._here.close()


OwnJobJudge = EvaluatorJobJudge | JobJudgeBySize
"""A judge of this machine."""


def job_judges_on(
    device: DeviceName, *, jobs: int = 1, config: EvaluatorConfig | None = None
) -> Callable[[], OwnJobJudge]:
    """Return what makes judges on a device, of which up to `jobs` judge at once.

    Many have a process each: cases, references and comparisons are largely Python's work, of which
    one process does one thing at a time. Few are in this process and draw each task's cases once.
    """
    suites = SuiteCache()
    # A GPU that shares memory and power with the cores has one judge.
    if min(jobs, cores()) < _FEWEST_APART or device == "metal":
        return lambda: EvaluatorJobJudge(device, suites, config)
    return lambda: JobJudgeBySize(
        ProcessJobJudge(device, config, jobs=jobs), EvaluatorJobJudge(device, suites, config), jobs
    )
