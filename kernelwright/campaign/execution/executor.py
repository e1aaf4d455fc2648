"""Where candidates are evaluated: a job goes in, a future of its verdict comes out."""

from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from kernelwright.campaign.execution.evaluator_pool import EvaluatorPool
from kernelwright.campaign.execution.judge import MakeJudge, environment_of
from kernelwright.campaign.execution.retry_policy import DeviceCare, Rest
from kernelwright.evaluator.evaluation import Evaluation
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.kernel import Program
from kernelwright.store import Environment


@dataclass(frozen=True)
class Job:
    """A program to evaluate for a task, or to confirm."""

    task: Task
    program: Program
    confirms: bool = False
    alone: bool = False
    """True for one that may have taken a process down: nothing else runs near it."""


@dataclass(frozen=True)
class JobVerdict:
    """What an evaluator found, and where that holds."""

    evaluation: Evaluation
    environment: Environment


class Executor(Protocol):
    """Evaluates jobs, several at a time, and remembers none of them."""

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device that is searched for."""

    @property
    def environment(self) -> Environment:
        """Return where verdicts hold, as far as that is known before the first."""

    @property
    def width(self) -> int:
        """Return how many jobs a search shall keep in flight; the same for its whole life."""

    @property
    def jobs(self) -> int:
        """Return how many jobs may be in flight now."""

    @property
    def evaluations(self) -> int:
        """Return how many programs were evaluated, confirmations aside."""

    @property
    def tool_evaluations(self) -> int:
        """Return how many of those models asked for while they wrote, and are no candidates yet."""

    def submit(self, job: Job) -> Future[JobVerdict]:
        """Evaluate a job some time; whatever the program does is data in the verdict.

        The future raises `DeviceParkedError` where the device failed again and again, and
        `DeviceError` where the evaluation was cut off.
        """

    def try_out(self, task: Task, program: Program) -> Evaluation:
        """Evaluate, and wait for it, what may become a candidate.

        Raises:
            DeviceParkedError: the device failed again and again.
        """

    def close(self) -> None:
        """Cut off what runs, from any thread."""

    def __enter__(self) -> Self:
        """Return the executor, whose device is open."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Cut off what runs and wait until it is gone."""


class ExecutorFactory(ABC):
    """Opens the executor of a run."""

    @abstractmethod
    def open(self, jobs: int, rest: Rest, care: DeviceCare) -> Executor:
        """Open the device for `jobs` at once; `rest` waits where it fails later.

        Raises:
            DeviceError: it does not open.
        """


class LocalExecutors(ExecutorFactory):
    """Evaluators of this machine, each with worker processes of its own."""

    def __init__(self, make_judge: MakeJudge) -> None:
        self._make_judge = make_judge

    def open(self, jobs: int, rest: Rest, care: DeviceCare) -> "LocalExecutor":
        """Open the device."""
        return LocalExecutor(EvaluatorPool(self._make_judge, jobs, rest, care))


class LocalExecutor:
    """Lends each job an evaluator of this process."""

    def __init__(self, pool: EvaluatorPool) -> None:
        self._pool = pool
        self._threads = ThreadPoolExecutor(pool.jobs, thread_name_prefix="evaluate")
        self.environment = environment_of(pool.info)

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""
        return self._pool.info

    @property
    def width(self) -> int:
        """Return how many evaluators there are."""
        return self._pool.jobs

    @property
    def jobs(self) -> int:
        """Return how many evaluators there are."""
        return self._pool.jobs

    @property
    def evaluations(self) -> int:
        """Return how many programs were evaluated."""
        return self._pool.evaluations

    @property
    def tool_evaluations(self) -> int:
        """Return how many of those models asked for."""
        return self._pool.tool_evaluations

    def submit(self, job: Job) -> Future[JobVerdict]:
        """Evaluate on the next free evaluator."""
        return self._threads.submit(self._run, job)

    def try_out(self, task: Task, program: Program) -> Evaluation:
        """Evaluate what may become a candidate; when it does, its verdict is there already."""
        return self._pool.try_out(task, program)

    def close(self) -> None:
        """End every worker."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Workers end before anybody waits for their threads: a second Ctrl-C ends at once.
        self._pool.close()
        self._threads.shutdown()

    def _run(self, job: Job) -> JobVerdict:
        judge = self._pool.confirm if job.confirms else self._pool.evaluate
        return JobVerdict(judge(job.task, job.program, alone=job.alone), self.environment)
