"""Judges champions again after the machine, its system, MLX or the evaluator changed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Literal

from kernelwright.campaign.execution.judge import Judge, environment_of, judges_on
from kernelwright.errors import KernelwrightError
from kernelwright.evaluator.evaluation import EVALUATOR_VERSION, Evaluation
from kernelwright.ir import standardize
from kernelwright.metal.device.base import DeviceName
from kernelwright.metal.diagnostic import Record
from kernelwright.search.ranking import is_confirmed, is_final, rank_of
from kernelwright.store import Champion, Environment, Freshness, KernelStore, NewTrial, Standing

Outcome = Literal["current", "fresh", "stale", "revoked", "unreachable"]
"""`current` was judged here already; `unreachable` needs a device that is not here."""
OpenJudge = Callable[[DeviceName, int, str], Judge]
"""Given a device and the bytes that a threadgroup may take on it."""
NAME = "store verify"
"""What the campaigns are called that hold these verdicts."""


class Recheck(Record):
    """What became of one champion."""

    champion: Champion
    """As it was before."""
    outcome: Outcome
    reason: str
    """In a sentence: why it was judged again, and what was found."""
    evaluation_id: str | None = None


def open_judge(device: DeviceName, threadgroup_bytes: int, stands_for: str) -> Judge:
    """Open this machine's evaluator on a device as it was when a champion was found."""
    return judges_on(device, threadgroup_bytes=threadgroup_bytes, stands_for=stands_for)()


def recheck(
    store: KernelStore,
    *,
    device: DeviceName | None = None,
    everything: bool = False,
    opening: OpenJudge = open_judge,
) -> Iterator[Recheck]:
    """Yield every champion's outcome, judging again those of another environment.

    A champion that still holds is fresh, one that is no longer confirmed is stale, one that is
    wrong is revoked. Stale is also one of a task that plans write in another form by now: its
    kernel is shown and exported, and no function asks for it any longer. A champion of another
    chip is judged for this one, and promoted on it when it holds; what it is on its own chip is
    not for this machine to say.

    Args:
        store: whose champions.
        device: those of one device only.
        everything: judge also what was judged here already, and what was revoked.
        opening: whom to ask for verdicts on a device.
    """
    by_device: dict[tuple[DeviceName, int, str], list[Standing]] = {}
    for standing in store.standings():
        if device in (None, standing.champion.device):
            if told := _unasked(store, standing):
                yield told
                continue
            found_on = standing.environment.device
            key = (standing.champion.device, found_on.threadgroup_bytes, found_on.stands_for)
            by_device.setdefault(key, []).append(standing)
    for key, standings in by_device.items():
        try:
            judge = opening(*key)
        except KernelwrightError as e:
            for standing in standings:
                yield _told(standing, "unreachable", str(e))
            continue
        with closing(judge):
            yield from _Rechecking(store, judge, everything=everything).run(standings)


class _Rechecking:
    """One device's champions, judged within a campaign that holds the verdicts."""

    def __init__(self, store: KernelStore, judge: Judge, *, everything: bool) -> None:
        self._store = store
        self._judge = judge
        self._everything = everything
        self._environment = environment_of(judge.info)

    def run(self, standings: Sequence[Standing]) -> Iterator[Recheck]:
        due: list[tuple[Standing, str]] = []
        for standing in standings:
            if change := self._change(standing):
                due.append((standing, change))
            else:
                yield _told(standing, "current", _settled(standing))
        if not due:
            return
        campaign = self._store.begin_campaign(name=NAME, spec="{}", environment=self._environment)
        state: Literal["finished", "interrupted"] = "interrupted"
        try:
            for standing, change in due:
                yield self._judged(campaign.id, standing, change)
            state = "finished"
        finally:
            self._store.end_campaign(campaign.id, state)

    def _change(self, standing: Standing) -> str:
        """Say why a champion is due; empty when it is not."""
        if self._everything:
            return "asked for"
        if standing.champion.freshness == "revoked" or self._is_known_here(standing):
            return ""
        if change := _difference(standing.environment, self._environment):
            return change
        if standing.evaluator_version != EVALUATOR_VERSION:
            return f"evaluator {standing.evaluator_version} is now {EVALUATOR_VERSION}"
        return ""

    def _is_known_here(self, standing: Standing) -> bool:
        """Say whether a champion of another chip has had its verdict on this one."""
        return standing.champion.chip != self._judge.info.chip and (
            self._store.known(
                standing.task.fingerprint,
                standing.program.id,
                self._environment,
                evaluator_version=EVALUATOR_VERSION,
            )
            is not None
        )

    def _judged(self, campaign_id: str, standing: Standing, change: str) -> Recheck:
        champion = standing.champion
        new_trial = NewTrial(
            campaign_id, standing.task, standing.program, champion.author, champion.idea
        )
        trial = self._store.add_trial(new_trial, signature=champion.task.signature)
        self._store.lease(trial.id)
        try:
            evaluation = self._judge.confirm(standing.task, standing.program)
        except KernelwrightError as e:
            return _told(standing, "unreachable", f"{change}; {e}")
        rank = rank_of(evaluation) if is_confirmed(evaluation) else None
        evaluation_id = self._store.record(trial.id, evaluation, rank=rank)
        outcome = _outcome(evaluation)
        if champion.chip == self._judge.info.chip:
            self._store.settle(champion, outcome, evaluation_id=evaluation_id)
        elif outcome == "fresh":
            self._store.promote(evaluation_id)
        return _told(standing, outcome, f"{change}; {evaluation.summary}", evaluation_id)


def _unasked(store: KernelStore, standing: Standing) -> Recheck | None:
    """Settle a champion of a task that is not in the standard form, which plans ask for."""
    now = standardize(standing.task.graph).fingerprint
    if now == standing.task.fingerprint or standing.champion.freshness == "revoked":
        return None
    store.settle(standing.champion, "stale")
    reason = f"plans write this as task {now[:8]} now; search that one"
    return _told(standing, "stale", reason)


def _outcome(evaluation: Evaluation) -> Freshness:
    if is_confirmed(evaluation):
        return "fresh"
    # A crash or a timeout may be the day's, and what is right and slow harms nobody.
    return "stale" if evaluation.is_correct or not is_final(evaluation) else "revoked"


def _difference(then: Environment, now: Environment) -> str:
    """Name what differs between two environments, such as `MLX 0.32.4 is now 0.33.0`."""
    pairs = (
        ("chip", then.device.chip, now.device.chip),
        ("runtime", then.device.runtime, now.device.runtime),
        ("MLX", then.mlx, now.mlx),
        ("system", then.system, now.system),
    )
    changes = [f"{name} {old} is now {new}" for name, old, new in pairs if old != new]
    return ", ".join(changes) or ("" if then == now else "the device is another")


def _settled(standing: Standing) -> str:
    if standing.champion.freshness == "revoked":
        return "it was revoked"
    return "judged in this environment"


def _told(
    standing: Standing, outcome: Outcome, reason: str, evaluation_id: str | None = None
) -> Recheck:
    return Recheck(
        champion=standing.champion, outcome=outcome, reason=reason, evaluation_id=evaluation_id
    )
