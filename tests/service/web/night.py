"""A night in a process of its own, which stands before its n-th verdict until a file appears."""

import sys
import time
from pathlib import Path

from kernelwright.campaign import Engine, capture_subjects
from kernelwright.campaign.execution.engine import RunSettings
from kernelwright.campaign.history.pausing import Pause
from kernelwright.campaign.history.resuming import StopWatch
from kernelwright.campaign.spec.campaign_spec import CampaignFunction, CampaignSpec
from kernelwright.evaluator import Evaluation, Task
from kernelwright.metal import Program
from kernelwright.store import KernelStore
from tests.campaign.scripted import ScriptedJudge, subjects, team

PATIENCE_S = 300


class GatedJudge(ScriptedJudge):
    """Waits before one verdict, and ends the process where nobody lets it go on."""

    gate: Path
    stands_before: int

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        until = time.monotonic() + PATIENCE_S
        while len(self.asked) + 1 == self.stands_before and not self.gate.exists():
            if time.monotonic() > until:
                raise SystemExit("nobody let the night go on")
            time.sleep(0.02)
        return super().evaluate(task, program)


def main() -> None:
    url, gate, stands_before = sys.argv[1:]
    judge, pause = GatedJudge(), Pause()
    judge.gate, judge.stands_before = Path(gate), int(stands_before)
    functions = tuple(CampaignFunction(target=s.name) for s in subjects())
    spec = CampaignSpec(
        name="nightly", functions=functions, devices=("simulator",), folder=".", jobs=1
    )
    with KernelStore(url) as store:
        watch = StopWatch(store, pause)
        engine = Engine(
            store, spec, team(), lambda: judge, RunSettings(listen=watch.show, pause=pause)
        )
        with watch.calling(engine.stop):
            engine.run(capture_subjects(subjects()))


if __name__ == "__main__":
    main()
