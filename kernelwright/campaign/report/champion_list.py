"""What the champions and candidates of a store gain over MLX."""

from collections.abc import Collection, Sequence

from kernelwright.campaign.planning.plan_summary import KnownGains
from kernelwright.evaluator.gain import Gain, gain_of, predicted_chip, predicted_gain
from kernelwright.metal.device.base import DeviceInfo, DeviceName
from kernelwright.search.task_search import Champion as Leader
from kernelwright.store import CandidateDetail, Champion, KernelStore

_MOST = 5_000
"""The newest champions that are put in order."""


class RankedChampion(Champion):
    """A champion and its gain, a row of `best`."""

    gain: Gain
    beats_mlx: bool
    """False where MLX is best: there is nothing to take."""


def champions_by_gain(
    store: KernelStore,
    *,
    op: str | None = None,
    dtype: str | None = None,
    shape: str | None = None,
    device: DeviceName | None = None,
    chip: str | None = None,
    limit: int = 50,
    newest_first: bool = False,
) -> tuple[RankedChampion, ...]:
    """Return champions, the greatest gain first; `chip` chooses whose time is predicted.

    With `newest_first` they come in the order of promotion, the latest in front.

    Raises:
        InputError: the dtype or the chip is not known.
    """
    found = store.best(op=op, dtype=dtype, shape=shape, device=device, limit=_MOST)
    ranked = [_ranked(c, gain) for c, gain in zip(found, _gains(store, found, chip), strict=True)]
    ordered = ranked if newest_first else sorted(ranked, key=lambda c: -c.gain.ratio)
    return tuple(ordered[:limit])


class CandidatePage(CandidateDetail):
    """Everything about one candidate, its gain included, as `show --json` prints it."""

    gain: Gain | None
    """None where it is not right, or was not judged."""

    @classmethod
    def of(cls, detail: CandidateDetail, gain: Gain | None) -> "CandidatePage":
        """Add a gain to a candidate."""
        given = {name: getattr(detail, name) for name in CandidateDetail.model_fields}
        return cls(**given, gain=gain)


def candidate_gain(detail: CandidateDetail, chip: str | None = None) -> Gain | None:
    """Return what a candidate gains by the verdict that stands; None where it is not right.

    Raises:
        InputError: the chip is not known.
    """
    known = detail.standing
    if known is None or not known.evaluation.is_correct:
        return None
    return gain_of(known.evaluation, detail.graph, chip)


def _gains(store: KernelStore, champions: Sequence[Champion], chip: str | None) -> list[Gain]:
    verdicts = store.verdicts([c.evaluation_id for c in champions])
    chosen = [verdicts[c.evaluation_id] for c in champions]
    return [gain_of(verdict.evaluation, verdict.graph, chip) for verdict in chosen]


def _ranked(champion: Champion, gain: Gain) -> RankedChampion:
    given = {name: getattr(champion, name) for name in Champion.model_fields}
    return RankedChampion(**given, gain=gain, beats_mlx=gain.beats_mlx)


def known_gains(
    store: KernelStore, task_ids: Collection[str], device: DeviceInfo, chip: str | None = None
) -> KnownGains:
    """Return what a device's champions of some tasks gain; stale and revoked ones are left out.

    Raises:
        InputError: the chip is not known.
    """
    found = store.champions(list(task_ids), device=device.name, chip=device.chip)
    fresh = [c for c in found if c.freshness == "fresh"]
    verdicts = store.verdicts([c.evaluation_id for c in fresh])
    gains: dict[str, Gain] = {}
    predicted: dict[str, Gain] = {}
    for champion in fresh:
        verdict = verdicts[champion.evaluation_id]
        evaluation, graph = verdict.evaluation, verdict.graph
        gain = gains[champion.task.id] = gain_of(evaluation, graph, chip)
        for_chip = chip or predicted_chip(evaluation.device)
        predicted[champion.task.id] = predicted_gain(evaluation, graph, for_chip) or gain
    return KnownGains(gains, predicted)


def leaders(store: KernelStore, task_ids: Collection[str], device: DeviceInfo) -> dict[str, Leader]:
    """Return a device's fresh champions of some tasks, by the tasks' ids."""
    found = store.champions(list(task_ids), device=device.name, chip=device.chip)
    fresh = [c for c in found if c.freshness == "fresh"]
    verdicts = store.verdicts([c.evaluation_id for c in fresh])
    return {
        c.task.id: Leader(
            store.show(c.candidate_id).candidate.program_id,
            verdicts[c.evaluation_id].evaluation,
            c.rank,
        )
        for c in fresh
    }
