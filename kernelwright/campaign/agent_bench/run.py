"""Runs the yardstick: every task with every variant, each in a search of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.agents.budget import UNLIMITED, Caps, Cost
from kernelwright.agents.roles.text.floor import floor_of
from kernelwright.agents.roles.text.prompt_version import prompt_versions
from kernelwright.agents.session import ChatSettings, RecordedCall
from kernelwright.campaign.agent_bench.recording import Recording
from kernelwright.campaign.agent_bench.score import BenchReport, TaskScore
from kernelwright.campaign.agent_bench.spec import BenchSpec
from kernelwright.campaign.agent_bench.task import BenchTask
from kernelwright.campaign.agent_bench.variant import Variant, models_of, team_of
from kernelwright.campaign.event import ModelRemarked
from kernelwright.campaign.execution.engine import Engine
from kernelwright.campaign.execution.judge import MakeJudge
from kernelwright.campaign.execution.run_settings import RunSettings
from kernelwright.campaign.history.ledger import recorded_calls
from kernelwright.campaign.planning.capturing import Captured, capture_subjects
from kernelwright.campaign.planning.function_work import Work
from kernelwright.campaign.planning.whole_function import time_of
from kernelwright.campaign.report.search_report import SearchReport
from kernelwright.campaign.team.model_team import checked_models, open_team
from kernelwright.campaign.team.offline_team import offline_team
from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.gain import Gain
from kernelwright.metal.device.base import DeviceInfo
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.perf import ChipProfile
from kernelwright.search.priority import profile_for
from kernelwright.search.spec import SearchSpec, TeamSpec
from kernelwright.store import KernelStore

Listen = Callable[[TaskScore | ModelRemarked], None]
_SCORES = "scores.jsonl"
_RIGHT = (Status.CORRECT, Status.PROMOTED)


class _Key(Record):
    """What a score holds for: the same again need not be run."""

    kind: str
    score: TaskScore


@dataclass
class Yardstick:
    """One run; scores are written down as they come, and a run that was cut short goes on."""

    spec: BenchSpec
    folder: Path
    make_judge: MakeJudge
    device: DeviceInfo
    settings: ChatSettings | None = None
    replayed: Recording | None = None
    """Conversations to hold again instead of asking anybody."""
    listen: Listen = lambda found: None
    recording: Recording = field(default_factory=Recording)

    def run(self, tasks: Sequence[BenchTask]) -> BenchReport:
        """Return every score that the caps allow for.

        Raises:
            BudgetError, ModelError: a model cannot be used at all.
            InputError: a name is no model's.
        """
        if self.replayed is None:
            caps = (self.spec.caps, self.spec.task_caps)
            checked_models(self.spec.models, self.spec.base_url, caps, self.spec.prices)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._known = self._read()
        rows: list[TaskScore] = []
        for variant in self.spec.variants:
            with KernelStore(str(self.folder / f"{variant.value}.db")) as store:
                for task in tasks:
                    if (score := self._scored(store, variant, task, rows)) is not None:
                        rows.append(score)
        return BenchReport(
            models=self.spec.models,
            device=self.device,
            prompts=prompt_versions(),
            rows=tuple(rows),
        )

    def _scored(
        self, store: KernelStore, variant: Variant, task: BenchTask, rows: Sequence[TaskScore]
    ) -> TaskScore | None:
        known = self._known.get((variant, task.name))
        if known is not None:
            return known
        left = self._left(rows)
        if variant is not Variant.OFFLINE and left is None:
            return None
        score = self._searched(store, variant, task, left or UNLIMITED)
        key = _Key(kind=self._kind(variant), score=score)
        with (self.folder / _SCORES).open("a") as file:
            file.write(f"{key.model_dump_json()}\n")
        self.listen(score)
        return score

    def _searched(
        self, store: KernelStore, variant: Variant, task: BenchTask, left: Caps
    ) -> TaskScore:
        models = models_of(variant, self.spec.models)
        if self.replayed is not None and models:
            models = (f"replay:{task.name}",)
        spec = SearchSpec(
            name=f"{variant.value}/{task.name}",
            device=self.spec.device,
            candidates_per_task=self.spec.candidates,
            # One after another: what is asked next then depends on nothing but what was found.
            jobs=1,
            models=models,
            base_url=self.spec.base_url if self.replayed is None else None,
            caps=left,
            task_caps=self.spec.task_caps,
            prices=self.spec.prices,
            team=team_of(variant, self.spec.team),
        )
        captured = capture_subjects([task.subject])
        with open_team(
            store,
            spec,
            self.settings,
            listen=self.listen,
            recorded=self._recorded(variant, task),
        ) as team_factory:
            report = Engine(
                store, spec, offline_team(), self.make_judge, RunSettings(team_factory=team_factory)
            ).run(captured)
        calls = recorded_calls(store, report.campaign_id)
        self.recording.add(variant, task.name, calls)
        return _score(store, variant, task, captured, report, calls)

    def _recorded(
        self, variant: Variant, task: BenchTask
    ) -> Callable[[str], Sequence[RecordedCall]] | None:
        replayed = self.replayed
        if replayed is None:
            return None
        return lambda name: replayed.calls(variant, task.name)

    def _left(self, rows: Sequence[TaskScore]) -> Caps | None:
        """Return what of the caps is left, None where a kind is used up."""
        caps = self.spec.caps
        dollars = None if caps.dollars is None else caps.dollars - sum(r.dollars for r in rows)
        tokens = None if caps.tokens is None else caps.tokens - sum(r.tokens for r in rows)
        if (dollars is not None and dollars <= 0) or (tokens is not None and tokens <= 0):
            return None
        return caps.model_copy(update={"dollars": dollars, "tokens": tokens})

    def _kind(self, variant: Variant) -> str:
        """Name what a score depends on: not where models are served, nor what else is run."""
        spec = self.spec.model_copy(
            update={"base_url": None, "variants": (), "caps": UNLIMITED, "prices": {}}
        )
        if variant is Variant.OFFLINE:
            spec = spec.model_copy(update={"models": (), "team": TeamSpec()})
        versions = {} if variant is Variant.OFFLINE else prompt_versions()
        return f"{spec.model_dump_json()} {versions}"

    def _read(self) -> dict[tuple[Variant, str], TaskScore]:
        path = self.folder / _SCORES
        lines = path.read_text().splitlines() if path.is_file() else []
        keys = [_Key.model_validate_json(line) for line in lines]
        return {
            (key.score.variant, key.score.task): key.score
            for key in keys
            if key.kind == self._kind(key.score.variant)
        }


def _score(
    store: KernelStore,
    variant: Variant,
    task: BenchTask,
    captured: Captured,
    report: SearchReport,
    calls: Sequence[RecordedCall],
) -> TaskScore:
    cost = sum((recorded.cost for recorded in calls), Cost())
    entries = store.history(campaign=report.campaign_id, limit=1000)
    is_offline = variant is Variant.OFFLINE
    right = [e for e in entries if e.status in _RIGHT and (e.author == "offline") is is_offline]
    champions = [t.champion_id for t in report.tasks if t.champion_id and t.beats_mlx]
    authors = [store.show(champion).candidate.author for champion in champions]
    at_floor = bool(report.tasks) and all(
        _is_at_floor(store, t.champion_id, report.device) for t in report.tasks
    )
    function = report.functions[0] if report.functions else None
    gain = function.gain if function is not None else None
    graph = captured.functions[0].graph if captured.functions else None
    floor = None if graph is None else floor_of(graph, report.device)
    mlx_us = 0.0 if function is None else _mlx_us(function.work.compiled, function.work.eager,
                                                  profile_for(report.device))  # fmt: skip
    return TaskScore(
        task=task.name,
        level=task.level,
        variant=variant,
        solved=bool(right) or at_floor,
        at_floor=at_floor,
        author=next((a for a in authors if a != "offline"), authors[0] if authors else ""),
        best_us=_best_us(gain, mlx_us),
        kind=gain.kind if gain is not None else "predicted",
        floor_us=None if floor is None else floor.time_us,
        tokens=cost.tokens,
        dollars=cost.dollars,
        assumed_dollars=cost.assumed_dollars,
        seconds=report.duration_s,
        evaluations=report.evaluated,
        ended="; ".join(dict.fromkeys(t.reason for t in report.tasks if t.reason)),
    )


def _is_at_floor(store: KernelStore, champion_id: str | None, device: DeviceInfo) -> bool:
    """Say whether a task's best program leaves nothing to gain."""
    if champion_id is None:
        return False
    detail = store.show(champion_id)
    floor, standing = floor_of(detail.graph, device), detail.standing
    return floor is not None and standing is not None and floor.is_reached_by(standing.evaluation)


def _best_us(gain: Gain | None, mlx_us: float) -> float:
    """Return a function's time: with its kernels, or MLX's where that is less."""
    if gain is None or gain.kernel_us is None or gain.mlx_us is None:
        return mlx_us
    return min(gain.kernel_us, gain.mlx_us)


def _mlx_us(compiled: Work, eager: Work, profile: ChipProfile) -> float:
    return min(time_of(work, profile).microseconds for work in (compiled, eager))
