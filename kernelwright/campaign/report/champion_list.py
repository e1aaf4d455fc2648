"""What the champions and candidates of a store gain over MLX."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kernelwright.evaluator.gain import Gain, gain_of
from kernelwright.metal.device.base import DeviceName
from kernelwright.store import CandidateDetail, Champion, KernelStore

_MOST = 5_000
"""The newest champions that are put in order."""
_MOST_CAMPAIGNS = 200


class RankedChampion(Champion):
    """A champion and its gain, a row of `best`."""

    gain: Gain
    beats_mlx: bool
    """False where MLX is best: there is nothing to take."""
    place: str = ""
    """The function's file, for tasks that have a name and inputs in common with another's."""


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
    return _told_apart(store, ordered[:limit])


def _told_apart(
    store: KernelStore, champions: Sequence[RankedChampion]
) -> tuple[RankedChampion, ...]:
    """Say where the functions are whose rows read the same."""
    tasks = {c.task.id: (c.task.name, c.task.shapes) for c in champions}
    count = Counter(tasks.values())
    shared = {task for task, row in tasks.items() if count[row] > 1}
    if not shared:
        return tuple(champions)
    places = _places(store)
    return tuple(
        c.model_copy(update={"place": places.get(c.task.id, "")}) if c.task.id in shared else c
        for c in champions
    )


def _places(store: KernelStore) -> dict[str, str]:
    """Return the file of the function that each task was first cut from."""
    # Events bring all of planning with them, which few lists need.
    from kernelwright.campaign.event import FunctionPlanned

    found: dict[str, str] = {}
    for campaign in reversed(store.campaigns(limit=_MOST_CAMPAIGNS)):
        for event in store.events(campaign.id, kinds=(FunctionPlanned.__name__,)):
            planned = event.read(FunctionPlanned)
            file = planned.place.rpartition(":")[0].strip("<>")
            for task in planned.tasks:
                found.setdefault(task.id, Path(file).name)
    return found


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
