"""The whole loop as tests run it: one small function, one judge, quick patience."""

from collections.abc import Callable

import mlx.core as mx

from kernelwright.agents.budget import UNLIMITED, Caps
from kernelwright.campaign import (
    Engine,
    SearchReport,
    SearchSpec,
    Subject,
    capture_subjects,
    offline_team,
)
from kernelwright.campaign.event import Event
from kernelwright.campaign.execution.judge import EvaluatorJudge
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.team.model_team import open_team
from kernelwright.evaluator import Evaluation, Status, Task
from kernelwright.metal import Program
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.store import KernelStore, RecordedModelCall
from tests.agents.loopback.partner import QUICK
from tests.agents.loopback.scene import COLUMNS, ROWS, double_plus_one

SUBJECT = Subject(
    "double_plus_one", double_plus_one, (mx.zeros((ROWS, COLUMNS)),), {}, "double_plus_one.py"
)


class Shared:
    """One judge for every search of the tests, which judges each program once."""

    def __init__(self, judge: EvaluatorJudge) -> None:
        self._judge = judge
        self._verdicts: dict[tuple[str, str], Evaluation] = {}

    @property
    def info(self) -> DeviceInfo:
        return self._judge.info

    def evaluate(self, task: Task, program: Program) -> Evaluation:
        return self._once("screen", task, program, self._judge.evaluate)

    def confirm(self, task: Task, program: Program) -> Evaluation:
        return self._once("confirm", task, program, self._judge.confirm)

    def _once(
        self,
        how: str,
        task: Task,
        program: Program,
        judge: Callable[[Task, Program], Evaluation],
    ) -> Evaluation:
        key = (how, program.id)
        if key not in self._verdicts:
            self._verdicts[key] = judge(task, program)
        return self._verdicts[key]

    def close(self) -> None:
        """Whoever made it closes it."""


def search(
    store: KernelStore,
    judge: Shared,
    model: str,
    base_url: str | None = None,
    caps: Caps | None = None,
    *,
    task_caps: Caps = UNLIMITED,
    candidates: int = 6,
    listen: Callable[[Event], None] = lambda event: None,
) -> SearchReport:
    spec = SearchSpec(
        models=(model,),
        base_url=base_url,
        caps=caps or Caps(dollars=5.0),
        task_caps=task_caps,
        candidates_per_task=candidates,
        batch=2,
        jobs=1,
    )
    with open_team(store, spec, QUICK, listen) as team_factory:
        engine = Engine(
            store,
            spec,
            offline_team(),
            lambda: judge,
            RunSettings(listen=listen, team_factory=team_factory),
        )
        return engine.run(capture_subjects([SUBJECT]))


def statuses(store: KernelStore, author: str) -> list[tuple[str, Status | None]]:
    entries = [e for e in store.history() if e.author == author]
    return [(e.idea, e.status) for e in reversed(entries)]


def calls_of(store: KernelStore) -> list[RecordedModelCall]:
    return [call for c in reversed(store.campaigns()) for call in store.dialogue.calls(c.id)]
