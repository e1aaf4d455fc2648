"""The workers of a campaign on a fleet: processes that die, hang and meet silent drivers."""

import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from benchmarks.reliability.life import BROKEN, DEAD_AFTER_S, Order, append, job_judge
from kernelwright.campaign.execution.retry_policy import RetryPolicy
from kernelwright.campaign.fleet.worker import Worker
from kernelwright.errors import DeviceError
from kernelwright.store import KernelStore
from kernelwright.testing.fault import Fault, Sabotage
from kernelwright.testing.fault.fleet import SabotagedJobJudge

_HEARTBEAT_S = 0.5
_WORKERS = 2
_REBOOT_S = 1.0
_ASLEEP_S = (0.5, 2.0 * DEAD_AFTER_S)
"""How long a worker hangs before it wakes up, or is killed: some are declared dead meanwhile."""
_PATIENT = RetryPolicy(failures=3, first_pause_s=0.02, longest_pause_s=0.1)


@dataclass
class _Member:
    """A worker process."""

    process: int
    asleep_until: float | None = None


@dataclass
class Crew:
    """Keeps a few workers at work, and lets things happen to them until there were `troubles`."""

    order: Order
    chance: random.Random
    troubles: int
    happened: Counter[str] = field(default_factory=Counter)
    _members: list[_Member] = field(default_factory=list)
    _next_kill: float = 0.0
    _joins_at: list[float] = field(default_factory=list)
    _number: int = 0

    def begin(self) -> None:
        """Start the workers."""
        self._members = [self._started() for _ in range(_WORKERS)]
        self._next_kill = time.monotonic() + self.chance.uniform(1.0, 5.0)

    def tend(self) -> None:
        """Reap the dead, wake the sleeping, let others join, and kill one at its time."""
        now = time.monotonic()
        for member in tuple(self._members):
            self._look_at(member, now)
        if self.happened.total() < self.troubles and self._members and now >= self._next_kill:
            self._next_kill = now + self.chance.uniform(1.0, 6.0)
            os.kill(self.chance.choice(self._members).process, signal.SIGKILL)
            self.happened["worker: any instant"] += 1
        while self._joins_at and self._joins_at[0] <= now:
            self._joins_at.pop(0)
            self._members.append(self._started())

    def end(self) -> None:
        """Kill them all."""
        for member in self._members:
            os.kill(member.process, signal.SIGKILL)
            os.waitpid(member.process, 0)
        self._members.clear()

    def _look_at(self, member: _Member, now: float) -> None:
        if member.asleep_until is not None and now >= member.asleep_until:
            member.asleep_until = None
            awakes = self.chance.random() < 0.5
            os.kill(member.process, signal.SIGCONT if awakes else signal.SIGKILL)
        ended, status = os.waitpid(member.process, os.WNOHANG | os.WUNTRACED)
        if not ended:
            return
        if os.WIFSTOPPED(status):
            member.asleep_until = now + self.chance.uniform(*_ASLEEP_S)
            return
        self._members.remove(member)
        self._joins_at.append(now + _REBOOT_S)

    def _started(self) -> _Member:
        self._number += 1
        faults: tuple[Fault, ...] = ()
        if self.happened.total() < self.troubles and self.chance.random() < 0.6:
            kind = self.chance.choice(("worker_dies", "worker_hangs", "driver_silent"))
            number = self.chance.randint(1, 6)
            faults = (Fault.model_validate({"kind": kind, "number": number}),)
        memory = self.order.folder / f"worker-{self._number}.txt"
        sys.stdout.flush()
        process = os.fork()
        if process == 0:
            _work(self.order, faults, memory)
        return _Member(process)

    def count_faults(self) -> None:
        """Add what the workers' own plans brought about."""
        for memory in sorted(self.order.folder.glob("worker-*.txt")):
            self.happened.update(line.split()[1] for line in memory.read_text().splitlines())


def _work(order: Order, faults: Sequence[Fault], memory: Path) -> NoReturn:
    sabotage = Sabotage(faults, memory)
    try:
        with KernelStore(order.url) as store:
            Worker(
                store,
                lambda: SabotagedJobJudge(job_judge(order), sabotage),
                heartbeat_s=_HEARTBEAT_S,
                dead_after_s=DEAD_AFTER_S,
                retry_policy=_PATIENT,
            ).run()
    except DeviceError:
        pass
    except BaseException:
        append(order.errors, traceback.format_exc())
        os._exit(BROKEN)
    os._exit(0)
