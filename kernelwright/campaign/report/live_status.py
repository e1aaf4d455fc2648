"""How a run stands at this moment, read from the store alone, from any process."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal

from kernelwright.campaign.event import CampaignEnded, FunctionPlanned, TaskEnded
from kernelwright.campaign.history.ledger import abandoned, tokens_at_most
from kernelwright.campaign.history.pausing import GO_ON, PAUSE, paused_s
from kernelwright.campaign.history.prior_runs import lasted_s
from kernelwright.campaign.history.resuming import shown_id
from kernelwright.campaign.history.run_state import RIGHT, word_for
from kernelwright.campaign.spec.spec_reading import search_spec_of
from kernelwright.evaluator.evaluation import Status
from kernelwright.evaluator.gain import Gain, gain_of
from kernelwright.metal.diagnostic import Record
from kernelwright.search.spec import SearchSpec
from kernelwright.store import (
    Campaign,
    Champion,
    HistoryEntry,
    KernelStore,
    LoggedEvent,
    Rank,
    TaskSummary,
)
from kernelwright.store.browsing import RunTotals

_SHOWN = (FunctionPlanned.__name__, TaskEnded.__name__, CampaignEnded.__name__, PAUSE, GO_ON)
AT_WORK = ("evaluating", "confirming")


class LiveTask(Record):
    """One task so far, the dead runs that were taken up included."""

    task: TaskSummary
    verdicts: dict[Status, int]
    under_way: int
    waiting: int
    best: Rank | None
    """Of the right candidates so far, confirmed or not."""
    champion: Champion | None
    gain: Gain | None
    limit: int
    """The most candidates that are tried."""
    reason: str
    """Why nothing more is tried; empty while something may be."""

    @property
    def tried(self) -> int:
        """How many verdicts there are."""
        return sum(self.verdicts.values())

    @property
    def right(self) -> int:
        """How many of them are right."""
        return sum(self.verdicts.get(status, 0) for status in RIGHT)


class UnderWay(Record):
    """A candidate that is being judged, or waits to be."""

    candidate_id: str
    task: str
    idea: str
    state: Literal["evaluating", "confirming", "intended"]


class Used(Record):
    """What a run and those before it took, and what they may take; None is no limit."""

    seconds: float
    evaluations: int
    dollars: float
    """At most, as caps count: a call whose reply never came whole may cost its worst case."""
    tokens: int
    """At most, too."""
    calls: int
    unbilled_calls: int
    """Those of them whose reply never came whole, or has not come yet."""
    known_dollars: float
    known_tokens: int


class Limits(Record):
    """What a run may take; None leaves a kind unlimited."""

    seconds: float | None
    evaluations: int | None
    dollars: float | None
    tokens: int | None
    calls: int | None


class LiveStatus(Record):
    """Everything that `campaign watch` shows."""

    id: str
    name: str
    device: str
    chip: str
    state: str
    """As `campaign status` says it."""
    reason: str
    """Why it ended; empty while it goes on."""
    runs: int
    tasks: tuple[LiveTask, ...]
    now: tuple[UnderWay, ...]
    asked: tuple[str, ...]
    """Models that have not answered yet, with their role."""
    next: tuple[UnderWay, ...]
    """Candidates that are written down and wait for a worker."""
    used: Used
    limits: Limits
    left_s: float | None
    """The most that it can still take at its pace so far; None without a pace."""

    @property
    def is_over(self) -> bool:
        """True when nobody works on it."""
        return self.state not in ("running", "paused")

    @property
    def failures(self) -> Counter[Status]:
        """Verdicts other than right, by kind."""
        found: Counter[Status] = Counter()
        for task in self.tasks:
            found.update({s: n for s, n in task.verdicts.items() if s not in RIGHT})
        return found


class StatusReader:
    """Looks at one run again and again; the database adds up, and the log is read once.

    Each look reads the log from behind a cursor.
    """

    def __init__(self, store: KernelStore, campaign: Campaign, chip: str | None = None) -> None:
        self._store = store
        self._chip = chip
        self._id = campaign.id
        self._spec = search_spec_of(campaign) or SearchSpec()
        self._before = [store.campaign(run) for run in abandoned(store, campaign.id)]
        self._run_ids = [*(run.id for run in self._before), campaign.id]
        self._earlier_s = sum(lasted_s(store, run) for run in self._before)
        self._gains: dict[str, Gain] = {}
        self._log: list[LoggedEvent] = []

    def look(self) -> LiveStatus:
        """Return how the run stands now."""
        run = self._store.campaign(self._id)
        self._read_log()
        open_ = self._store.browse.open_trials([self._id])
        totals = self._store.browse.totals(self._run_ids)
        lost = self._store.browse.calls_without_bill(self._run_ids)
        seconds = self._lasted_s(run)
        tasks = self._tasks(run, open_)
        ended = [e for e in self._log if e.kind == CampaignEnded.__name__]
        device = run.environment.device
        return LiveStatus(
            id=shown_id(run),
            name=run.name,
            device=device.name,
            chip=device.chip,
            state=word_for(self._store, run),
            reason=ended[-1].read(CampaignEnded).reason if ended else "",
            runs=len(self._run_ids),
            tasks=tasks,
            now=_under_way(open_, AT_WORK),
            asked=self._asked(),
            next=_under_way(open_, ("intended",)),
            used=Used(
                seconds=seconds,
                evaluations=self._store.browse.evaluations_begun(self._run_ids),
                dollars=totals.spend.dollars,
                tokens=totals.spend.tokens + sum(map(tokens_at_most, lost)),
                calls=totals.spend.calls,
                unbilled_calls=totals.spend.unbilled_calls,
                known_dollars=totals.spend.known_dollars,
                known_tokens=totals.spend.tokens,
            ),
            limits=limits_of(self._spec),
            left_s=self._left_s(tasks, self._ended(totals), seconds),
        )

    def _read_log(self) -> None:
        """Read what is new of the few kinds that are shown."""
        after = self._log[-1].id if self._log else 0
        self._log += self._store.events(self._id, after=after, kinds=_SHOWN)

    def _lasted_s(self, run: Campaign) -> float:
        if run.ended_at is not None or word_for(self._store, run) == "dead":
            return self._earlier_s + lasted_s(self._store, run)
        now = datetime.now(UTC)
        own = (now - run.started_at).total_seconds() - paused_s(self._log, now)
        return self._earlier_s + max(own, 0.0)

    def _tasks(self, run: Campaign, open_: Sequence[HistoryEntry]) -> tuple[LiveTask, ...]:
        planned = [
            task
            for event in self._log
            if event.kind == FunctionPlanned.__name__
            for task in event.read(FunctionPlanned).tasks
        ]
        tasks = {task.id: task for task in planned}
        device = run.environment.device
        champions = {
            c.task.id: c
            for c in self._store.champions(list(tasks), device=device.name, chip=device.chip)
        }
        reasons = {e.task_id: e.reason for e in _ends(self._log)}
        found = {one.task.id: one for one in self._store.browse.verdicts(self._run_ids)}
        under_way = Counter(e.task.id for e in open_ if e.state in AT_WORK)
        waiting = Counter(e.task.id for e in open_ if e.state == "intended")
        return tuple(
            LiveTask(
                task=task,
                verdicts=found[id_].verdicts if id_ in found else {},
                under_way=under_way[id_],
                waiting=waiting[id_],
                best=found[id_].best if id_ in found else None,
                champion=champions.get(id_),
                gain=self._gain(champions[id_]) if id_ in champions else None,
                limit=self._spec.candidates_per_task,
                reason=reasons.get(id_, ""),
            )
            for id_, task in tasks.items()
        )

    def _gain(self, champion: Champion) -> Gain:
        id_ = champion.evaluation_id
        if id_ not in self._gains:
            verdict = self._store.verdicts([id_])[id_]
            self._gains[id_] = gain_of(verdict.evaluation, verdict.graph, self._chip)
        return self._gains[id_]

    def _asked(self) -> tuple[str, ...]:
        calls = self._store.browse.calls_under_way(self._id)
        return tuple(f"{call.model} ({call.role})" for call in calls)

    def _ended(self, totals: RunTotals) -> int:
        """Count the verdicts of this run alone."""
        return (self._store.browse.totals([self._id]) if self._before else totals).ended

    def _left_s(self, tasks: Sequence[LiveTask], done: int, seconds: float) -> float | None:
        """Bound what is left: every open task to its last candidate, at the pace so far."""
        most = None if self._spec.seconds is None else max(self._spec.seconds - seconds, 0.0)
        if not done:
            return most
        # Each open task has its leader confirmed at the end.
        open_ = sum(max(t.limit - t.tried, 0) + 1 for t in tasks if not t.reason)
        paced = open_ * (seconds - self._earlier_s) / done
        return paced if most is None else min(most, paced)


def _ends(log: Iterable[LoggedEvent]) -> Iterable[TaskEnded]:
    return (e.read(TaskEnded) for e in log if e.kind == TaskEnded.__name__)


def _under_way(entries: Iterable[HistoryEntry], states: Sequence[str]) -> tuple[UnderWay, ...]:
    return tuple(
        UnderWay.model_validate(
            {
                "candidate_id": entry.candidate_id,
                "task": entry.task.name,
                "idea": entry.idea,
                "state": entry.state,
            }
        )
        for entry in entries
        if entry.state in states
    )


def limits_of(spec: SearchSpec) -> Limits:
    """Return what a search may take."""
    return Limits(
        seconds=spec.seconds,
        evaluations=spec.evaluations,
        dollars=spec.caps.dollars,
        tokens=spec.caps.tokens,
        calls=spec.caps.calls,
    )
