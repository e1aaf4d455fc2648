"""A worker whose verdicts are known; as a process of its own it may be killed at one of them."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.campaign.execution.retry_policy import RetryPolicy
from kernelwright.campaign.fleet.worker import Worker
from kernelwright.campaign.judging.job import AnyCase, JudgeJob
from kernelwright.errors import DeviceError
from kernelwright.evaluator import Evaluation
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.store import KernelStore
from tests.campaign.scripted import INFO, ScriptedJudge

SOON = RetryPolicy(failures=2, first_pause_s=0.0, longest_pause_s=0.0)


@dataclass
class ScriptedJobJudge:
    """Reads verdicts from sources, and writes into a journal what it was asked."""

    journal: Path
    info: DeviceInfo = INFO
    dies_at: str = ""
    breaks: bool = False
    before: threading.Event | None = None
    restarts: int = 0
    judge_: ScriptedJudge = field(default_factory=ScriptedJudge)

    def judge(self, job: JudgeJob) -> tuple[Evaluation, Sequence[AnyCase]]:
        task, source = job.task.task(), job.program.kernels[0].source
        asked = f"{task.name} {source}{' alone' * job.alone}{' confirmed' * job.confirms}"
        with self.journal.open("a") as file:
            file.write(asked + "\n")
        if self.before is not None:
            assert self.before.wait(120)
        if self.breaks:
            raise DeviceError("the driver is silent.")
        if asked == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        verdict = self.judge_.confirm if job.confirms else self.judge_.evaluate
        found = verdict(task, job.program)
        return found.model_copy(update={"device": self.info}), ()

    def start_again(self) -> None:
        self.restarts += 1

    def close(self) -> None:
        pass


@contextmanager
def working(
    url: str, judge: ScriptedJobJudge, *, say: Callable[[str], None] = lambda sentence: None
) -> Iterator[Worker]:
    """Let a worker work on a thread of this process."""
    with KernelStore(url) as store:
        worker = Worker(store, lambda: judge, heartbeat_s=0.5, retry_policy=SOON, say=say)
        failed = suppress(DeviceError)

        def run() -> None:
            with failed:
                worker.run(handles_signals=False)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield worker
        finally:
            if judge.before is not None:
                judge.before.set()
            while thread.is_alive():
                worker.stop()
                thread.join(0.2)


if __name__ == "__main__":
    url, journal, dies_at = sys.argv[1:]
    with KernelStore(url) as store:
        Worker(
            store, lambda: ScriptedJobJudge(Path(journal), dies_at=dies_at), heartbeat_s=0.5
        ).run()
