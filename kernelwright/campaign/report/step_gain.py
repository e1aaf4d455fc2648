"""What each kind of step cost and gained, in a campaign and before it: what its bandit knows."""

import math
from collections.abc import Iterable, Sequence

from kernelwright.agents.cap_text import in_dollars
from kernelwright.campaign.history.step_memory import FamilyStep, steps_before, steps_of
from kernelwright.metal.diagnostic import Record
from kernelwright.search.step import Step
from kernelwright.store import KernelStore


class StepGain(Record):
    """The tries of one step by one model for one family of tasks."""

    tries: int = 0
    gain: float = 0.0
    """The sum of the logarithms of how many times faster the best became, the first right program
    than MLX."""
    dollars: float = 0.0
    """What models charged, and the machine's time at the price that the bandit gives it."""
    paid: float = 0.0
    """What models charged."""

    def with_one(self, step: FamilyStep) -> "StepGain":
        """Return the sum with one step more."""
        return StepGain(
            tries=self.tries + step.credited.tries,
            gain=self.gain + step.credited.gain + step.credited.lead,
            dollars=self.dollars + step.credited.dollars,
            paid=self.paid + step.credited.paid,
        )

    @property
    def times_faster(self) -> str:
        """How many times faster the best became by all tries together."""
        return f"{math.exp(self.gain):.2f}×" if self.gain else "–"

    @property
    def cost(self) -> str:
        """The dollars as people read them."""
        return in_dollars(self.dollars) if self.tries else "–"


class StepLine(Record):
    """A step with what it brought in a campaign, and in those before."""

    family: str
    step: Step
    model: str
    """Who was asked; empty where nobody was."""
    here: StepGain
    before: StepGain


def step_lines(store: KernelStore, run_ids: Sequence[str]) -> tuple[StepLine, ...]:
    """Return what the steps of a campaign's runs brought, and what the first run knew before.

    A run that takes up another takes that one's steps again: the run that took most counts.
    """
    own = max((steps_of(store, run) for run in run_ids), key=len, default=())
    before = next(filter(None, (steps_before(store, run) for run in run_ids)), ())
    here, known = _sums(own), _sums(before)
    order = list(Step)
    return tuple(
        StepLine(
            family=family,
            step=step,
            model=model,
            here=here.get((family, step, model), StepGain()),
            before=known.get((family, step, model), StepGain()),
        )
        for family, step, model in sorted(
            {**known, **here}, key=lambda key: (key[0], order.index(key[1]), key[2])
        )
    )


def _sums(steps: Iterable[FamilyStep]) -> dict[tuple[str, Step, str], StepGain]:
    sums: dict[tuple[str, Step, str], StepGain] = {}
    for one in steps:
        key = (one.family, one.credited.step, one.credited.model)
        sums[key] = sums.get(key, StepGain()).with_one(one)
    return sums
