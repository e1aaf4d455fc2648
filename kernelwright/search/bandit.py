"""Which step pays: a bandit on verified gain for what it costs, in one currency."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kernelwright.agents.protocols import Attempt
from kernelwright.agents.roles.feedback import is_gated
from kernelwright.agents.roles.lineage import is_repairable, may_go_on
from kernelwright.evaluator.evaluation import Status

DOLLARS_PER_HOUR = 0.5
"""What an hour of the evaluating machine counts for beside what a model charges."""
PRIOR_GAIN = 0.05
"""Every step is believed to gain 5 % until it has been tried."""
PRIOR_DOLLARS = 0.01
LEAST_DOLLARS = 0.002
"""What a step counts for at least: candidates are few even where they are free."""
_LEAST_GAIN = 0.01
_WITHIN = 1.5


class Step(StrEnum):
    """What may be tried next for a task."""

    TUNE = "tune"
    """Another schedule of a template, or other values of a program's tunables."""
    IDEA = "idea"
    IMPROVE = "improve"
    REPAIR = "repair"


@dataclass
class Arm:
    """What one kind of step has cost and gained so far."""

    tries: int = 0
    gain: float = 0.0
    dollars: float = 0.0


@dataclass
class Bandit:
    """Every step once, then an upper bound; the same past leads to the same choice."""

    arms: Mapping[Step, Arm] = field(default_factory=lambda: {step: Arm() for step in Step})

    def choose(self, available: Collection[Step]) -> Step | None:
        """Return the available step with the best upper bound on gain for a dollar."""
        ordered = [step for step in Step if step in available]
        return max(ordered, key=self._bound, default=None)

    def credit(self, step: Step, *, gain: float, dollars: float, seconds: float) -> None:
        """Count a step: `gain` is the logarithm of how many times faster the best became."""
        arm = self.arms[step]
        arm.tries += 1
        arm.gain += max(gain, 0.0)
        arm.dollars += max(dollars + seconds * DOLLARS_PER_HOUR / 3600, LEAST_DOLLARS)

    def _bound(self, step: Step) -> float:
        arm = self.arms[step]
        if not arm.tries:
            return math.inf
        total = sum(a.tries for a in self.arms.values())
        rate = (arm.gain + PRIOR_GAIN) / (arm.dollars + PRIOR_DOLLARS)
        return rate * (1 + math.sqrt(2 * math.log(total + 1) / (arm.tries + 1)))


def gain_of(before_us: float | None, after_us: float | None) -> float:
    """Return the log speed-up of the best; a first correct program is a start, not a gain."""
    if not before_us or not after_us:
        return 0.0
    gain = math.log(before_us / after_us)
    return gain if gain >= _LEAST_GAIN else 0.0


def repairable(history: Sequence[Attempt], asked: Collection[str], *, rounds: int) -> list[Attempt]:
    """Return the failures worth a correction that nobody has been asked for, nearest right first.

    No line of corrections is longer than `rounds`, nor goes on once its error comes again.
    """
    return sorted(
        (
            a
            for a in history
            if a.proposal.program.id not in asked
            and is_repairable(a)
            and may_go_on(a, history, rounds)
        ),
        key=_distance,
    )


def parents(history: Sequence[Attempt], slowness: Mapping[str, float]) -> list[Attempt]:
    """Return what is worth improving: the best of each idea, the least worked on first.

    `slowness` gives a number for each correct program, smaller is faster. Ideas far slower
    than the best are left alone; among the rest every one gets its turn.
    """
    roots = _roots(history)
    best: dict[str, Attempt] = {}
    work: dict[str, int] = {}
    for attempt in history:
        program = attempt.proposal.program.id
        root = roots[program]
        work[root] = work.get(root, 0) + 1
        if program not in slowness or not attempt.evaluation.is_correct:
            continue
        if root not in best or slowness[program] < slowness[best[root].proposal.program.id]:
            best[root] = attempt
    if not best:
        return []
    fastest = min(slowness[a.proposal.program.id] for a in best.values())
    near = [
        root for root, a in best.items() if slowness[a.proposal.program.id] <= fastest * _WITHIN
    ]
    near.sort(key=lambda root: (work[root], slowness[best[root].proposal.program.id]))
    return [best[root] for root in near]


def _roots(history: Sequence[Attempt]) -> dict[str, str]:
    """Map each program to the first of its line."""
    roots: dict[str, str] = {}
    for attempt in history:
        program, parent = attempt.proposal.program.id, attempt.proposal.parent
        roots[program] = roots.get(parent, program) if parent is not None else program
    return roots


def _distance(attempt: Attempt) -> int:
    """Steps of the evaluation that still lie before an attempt: fewer is nearer."""
    if is_gated(attempt.evaluation):
        return 0
    order = (
        Status.WRONG,
        Status.NONDETERMINISTIC,
        Status.UNSAFE,
        Status.TIMEOUT,
        Status.LAUNCH_ERROR,
        Status.COMPILE_ERROR,
        Status.FORBIDDEN,
    )
    status = attempt.evaluation.status
    return order.index(status) + 1 if status in order else len(order) + 1
