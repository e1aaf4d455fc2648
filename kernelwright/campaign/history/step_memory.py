"""What steps cost and gained in a store's campaigns: what a new task's bandit begins with."""

from collections.abc import Sequence

from pydantic import TypeAdapter

from kernelwright.campaign.history.resuming import shown_id
from kernelwright.metal.diagnostic import Record
from kernelwright.search.step import Credited
from kernelwright.store import KernelStore

_CREDITED = "StepCredited"
"""The kind of a log's line that holds one step."""
_REMEMBERED = "StepsRemembered"
"""The kind of the line that holds what a run began with."""
_MOST_CAMPAIGNS = 40
_OTHER_FAMILY = 0.25
"""What a step counts for where another kind of task taught it."""


class FamilyStep(Record):
    """A step, and the family of the task that it was taken for."""

    family: str
    credited: Credited


_STEPS = TypeAdapter(tuple[FamilyStep, ...])


class StepMemory:
    """The steps of earlier campaigns, as they stood when a run began; keeps the run's own.

    A run that takes up or replays another begins with what that one began with, so that it
    chooses as that one did.
    """

    def __init__(self, store: KernelStore, campaign_id: str, taken_up: Sequence[str] = ()) -> None:
        self._store = store
        self._campaign_id = campaign_id
        known = _remembered(store, taken_up)
        self._steps = _gathered(store, campaign_id) if known is None else known
        store.log(campaign_id, _REMEMBERED, _STEPS.dump_json(self._steps).decode())

    def keep(self, family: str, credited: Credited) -> None:
        """Write a step down."""
        step = FamilyStep(family=family, credited=credited)
        self._store.log(self._campaign_id, _CREDITED, step.model_dump_json())

    def about(self, family: str) -> tuple[Credited, ...]:
        """Return what earlier campaigns learnt; other families' steps count for less."""
        return tuple(
            step.credited
            if step.family == family
            else step.credited.model_copy(update={"weight": _OTHER_FAMILY})
            for step in self._steps
        )


def steps_of(store: KernelStore, run_id: str) -> tuple[FamilyStep, ...]:
    """Return the steps that one run took, in their order."""
    return tuple(
        FamilyStep.model_validate_json(event.body)
        for event in store.events(run_id, kinds=(_CREDITED,))
    )


def steps_before(store: KernelStore, run_id: str) -> tuple[FamilyStep, ...]:
    """Return the steps of earlier campaigns that a run began with."""
    return _remembered(store, (run_id,)) or ()


def _remembered(store: KernelStore, runs: Sequence[str]) -> tuple[FamilyStep, ...] | None:
    for run in runs:
        for event in store.events(run, kinds=(_REMEMBERED,)):
            return _STEPS.validate_json(event.body)
    return None


def _gathered(store: KernelStore, campaign_id: str) -> tuple[FamilyStep, ...]:
    """Return the steps of earlier campaigns, of each those of the run that took most.

    A run that takes up another takes that one's steps again.
    """
    taken: dict[str, tuple[FamilyStep, ...]] = {}
    for run in reversed(store.campaigns(limit=_MOST_CAMPAIGNS)):
        if run.id != campaign_id:
            known = taken.get(shown_id(run), ())
            taken[shown_id(run)] = max(known, steps_of(store, run.id), key=len)
    return tuple(step for steps in taken.values() for step in steps)
