"""Judges whose workers die or whose driver falls silent: cool down, try again, park in the end."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelwright.campaign.execution.judge import Judge, MakeJudge
from kernelwright.errors import DeviceError, OutdatedError
from kernelwright.evaluator.evaluate import MOST_CHECKED
from kernelwright.evaluator.evaluation import Evaluation, Status
from kernelwright.evaluator.task import Task
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.kernel import Program
from kernelwright.store.retry import growing_pause_s

Rest = Callable[[float, str], bool]
"""Waits some seconds and says why; True when whoever waits shall give up."""
PowerMonitor = Callable[[], str]
"""Says why the machine should do nothing hard at present; empty when it may."""


class DeviceParkedError(DeviceError):
    """The device failed through every pause; what needs none goes on."""


class RetryPolicy(Record):
    """How often and how long to wait for a device."""

    failures: int = 6
    """In a row, before the device is parked."""
    deaths: int = 3
    """Workers that may die in a row before the device rests."""
    most_deaths: int = 10
    first_pause_s: float = 5.0
    longest_pause_s: float = 300.0

    def pause_s(self, number: int) -> float:
        """Return how long the pause with this number is, from 0."""
        return growing_pause_s(number, self.first_pause_s, self.longest_pause_s)


_USUAL_POLICY = RetryPolicy()


def never_limited() -> str:
    """Let the machine work, whatever its heat or charge."""
    return ""


@dataclass(frozen=True)
class DeviceCare:
    """How often a device is tried again, and when it rests."""

    retry_policy: RetryPolicy = _USUAL_POLICY
    power_monitor: PowerMonitor = never_limited


USUAL_CARE = DeviceCare()


@dataclass
class Health:
    """What the judges of one device know of it together."""

    care: DeviceCare
    rest: Rest
    failures: int = 0
    deaths: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def failed(self) -> int:
        """Count a failure of the device; return how many there were in a row."""
        with self.lock:
            self.failures += 1
            return self.failures

    def judged(self, evaluation: Evaluation) -> int:
        """Count a verdict; return how many workers have died in a row."""
        with self.lock:
            self.failures = 0
            self.deaths = self.deaths + 1 if evaluation.status is Status.CRASHED else 0
            return self.deaths


class RetryingJudge:
    """A judge that starts again when its device fails, after pauses that grow."""

    def __init__(
        self, make: MakeJudge, info: DeviceInfo, health: Health, judge: Judge | None = None
    ) -> None:
        self._make = make
        self._info = info
        self._health = health
        self._judge = judge
        self._is_closed = False
        self.tasks: set[str] = set()
        """Tasks whose cases it has drawn."""
        self.programs: deque[str] = deque(maxlen=MOST_CHECKED)
        """Those that it judged last, and need not check once more to confirm one."""

    @property
    def info(self) -> DeviceInfo:
        """Return what identifies the device."""
        return self._info

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict on a program.

        Raises:
            DeviceParkedError: the device failed again and again.
            OutdatedError: Kernelwright's files have changed.
        """
        return self._retrying(task, program, lambda judge: judge.evaluate(task, program))

    def confirm(self, task: Task, program: Program) -> Evaluation:
        """Return the verdict of every stage."""
        return self._retrying(task, program, lambda judge: judge.confirm(task, program))

    def start_again(self) -> None:
        """Give the next candidate a worker that no other has been near."""
        if self._judge is not None:
            self._judge.close()
            self._judge = None
            self.tasks.clear()
            self.programs.clear()

    def close(self) -> None:
        """End its workers."""
        self._is_closed = True
        judge = self._judge
        if judge is not None:
            judge.close()

    def _retrying(
        self, task: Task, program: Program, judge: Callable[[Judge], Evaluation]
    ) -> Evaluation:
        while True:
            self._wait_for_power()
            self.tasks.add(task.fingerprint)
            self.programs.append(program.id)
            try:
                if self._judge is None:
                    self._judge = self._make()
                evaluation = judge(self._judge)
            except OutdatedError:
                raise
            except DeviceError as e:
                if self._is_closed:
                    raise
                self.start_again()
                self._cool_down(self._health.failed(), e)
                continue
            self._rest_after(self._health.judged(evaluation))
            return evaluation

    def _cool_down(self, failures: int, error: DeviceError) -> None:
        retry_policy = self._health.care.retry_policy
        if failures >= retry_policy.failures:
            raise DeviceParkedError(
                f"the {self._info.name} device is parked, it failed {failures} times in a row; "
                f"the last time: {error}"
            ) from error
        if self._health.rest(retry_policy.pause_s(failures - 1), str(error)):
            raise error

    def _rest_after(self, deaths: int) -> None:
        """Let a device rest on which worker after worker dies, before the next candidate."""
        retry_policy = self._health.care.retry_policy
        if deaths >= retry_policy.most_deaths:
            raise DeviceParkedError(
                f"the {self._info.name} device is parked: {deaths} workers died in a row."
            )
        if deaths >= retry_policy.deaths:
            self._health.rest(
                retry_policy.pause_s(deaths - retry_policy.deaths),
                f"{deaths} workers died in a row",
            )

    def _wait_for_power(self) -> None:
        number = 0
        while reason := self._health.care.power_monitor():
            if self._health.rest(self._health.care.retry_policy.pause_s(number), reason):
                raise DeviceError(f"interrupted while it waited: {reason}.")
            number += 1
