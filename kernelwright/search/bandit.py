"""Which step pays: a bandit on verified gain for what it costs, in one currency."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.agents.protocols import Attempt
from kernelwright.agents.roles.lineage import is_repairable, may_go_on
from kernelwright.agents.roles.text.feedback import is_gated
from kernelwright.evaluator.evaluation import Status
from kernelwright.search.step import Credited, Step

DOLLARS_PER_HOUR = 0.5
"""What an hour of the evaluating machine counts for beside what a model charges."""
PRIOR_GAIN = 0.05
"""Every step is believed to gain 5 % until it has been tried."""
PRIOR_DOLLARS = 0.01
LEAST_DOLLARS = 0.002
"""What a step counts for at least: candidates are few even where they are free."""
_LEAST_GAIN = 0.01
_WITHIN = 1.5


@dataclass(frozen=True, order=True)
class Move:
    """A step, and whom it asks; what needs no model asks nobody."""

    step: Step
    model: str = ""


@dataclass(frozen=True)
class ModelOffer:
    """A model that may be asked, and what it charges for a million tokens in and out together."""

    name: str
    dollars: float = 0.0


@dataclass
class Arm:
    """What one move has cost and gained so far."""

    tries: float = 0.0
    gain: float = 0.0
    dollars: float = 0.0


_STRONG_FIRST = frozenset({Step.IMPROVE, Step.COMBINE, Step.REPAIR})
"""Where the dearest model is tried first; elsewhere the cheapest drafts."""
_MOST_REMEMBERED = 4.0
"""Tries that all earlier campaigns together count for."""


@dataclass
class Bandit:
    """Every step once, then an upper bound; the same past leads to the same choice.

    A step is first tried with the model that suits it by its price. A model that has not tried a
    step is believed to gain what any step is, at its own price: a dear one has to earn it.
    """

    offers: Sequence[ModelOffer] = ()
    arms: dict[Move, Arm] = field(default_factory=dict)

    def remember(self, earlier: Iterable[Credited]) -> None:
        """Begin with what earlier campaigns learnt, worth a few tries a move at the most."""
        learnt: dict[Move, Arm] = {}
        for credited in earlier:
            arm = learnt.setdefault(Move(credited.step, credited.model), Arm())
            arm.tries += credited.tries * credited.weight
            arm.gain += credited.gain * credited.weight
            arm.dollars += credited.dollars * credited.weight
        for move, arm in learnt.items():
            share = min(1.0, _MOST_REMEMBERED / arm.tries) if arm.tries else 1.0
            self.arms[move] = Arm(arm.tries * share, arm.gain * share, arm.dollars * share)

    def choose(self, available: Collection[Move], pending: Iterable[Move] = ()) -> Move | None:
        """Return the available move with the best upper bound on gain for a dollar.

        Moves that are `pending`, whose programs are being judged, count as tries without a gain
        until their verdicts are there: several workers are not all given the same move.
        """
        arms = self._with(pending)
        ordered = sorted(available, key=self._place)
        return max(ordered, key=lambda move: self._bound(move, arms), default=None)

    def credit(
        self, move: Move, *, gain: float, dollars: float, seconds: float, lead: float = 0.0
    ) -> Credited:
        """Count a step: `gain` is the logarithm of how many times faster the best became.

        `lead` is that of the first right program over MLX.
        """
        return self._counted(
            Credited(
                step=move.step,
                model=move.model,
                gain=max(gain, 0.0),
                lead=lead,
                dollars=max(_in_dollars(dollars, seconds), LEAST_DOLLARS),
                paid=dollars,
            )
        )

    def charge(self, move: Move, *, dollars: float, seconds: float) -> Credited:
        """Count what a step took after it was credited."""
        return self._counted(
            Credited(
                step=move.step,
                model=move.model,
                gain=0.0,
                dollars=_in_dollars(dollars, seconds),
                paid=dollars,
                tries=0,
            )
        )

    def _counted(self, credited: Credited) -> Credited:
        arm = self.arms.setdefault(Move(credited.step, credited.model), Arm())
        arm.tries += credited.tries
        arm.gain += credited.gain
        arm.dollars += credited.dollars
        return credited

    def _place(self, move: Move) -> tuple[int, float, str]:
        price = self._price(move.model)
        return (
            list(Step).index(move.step),
            -price if move.step in _STRONG_FIRST else price,
            move.model,
        )

    def _price(self, model: str) -> float:
        return next((offer.dollars for offer in self.offers if offer.name == model), 0.0)

    def _dearness(self, model: str) -> float:
        """Return how many times the cheapest model's price a model charges."""
        cheapest = min((offer.dollars for offer in self.offers if offer.dollars), default=0.0)
        return max(self._price(model) / cheapest, 1.0) if cheapest else 1.0

    def _with(self, pending: Iterable[Move]) -> Mapping[Move, Arm]:
        """Return the arms with every pending move counted as one that cost what it usually does."""
        arms = dict(self.arms)
        for move in pending:
            arm = arms.get(move, Arm())
            cost = arm.dollars / arm.tries if arm.tries else self._prior(move)
            arms[move] = Arm(arm.tries + 1, arm.gain, arm.dollars + cost)
        return arms

    def _prior(self, move: Move) -> float:
        """Return what a move is believed to cost before it was tried."""
        return PRIOR_DOLLARS * self._dearness(move.model)

    def _bound(self, move: Move, arms: Mapping[Move, Arm]) -> float:
        tried = sum(arm.tries for other, arm in arms.items() if other.step is move.step)
        if not tried:
            return math.inf
        arm = arms.get(move, Arm())
        total = sum(a.tries for a in arms.values())
        rate = (arm.gain + PRIOR_GAIN) / (arm.dollars + self._prior(move))
        return rate * (1 + math.sqrt(2 * math.log(total + 1) / (arm.tries + 1)))


def _in_dollars(dollars: float, seconds: float) -> float:
    """Return money and machine time in one currency."""
    return dollars + seconds * DOLLARS_PER_HOUR / 3600


def gain_of(before_us: float | None, after_us: float | None) -> float:
    """Return the log speed-up of the best; a first correct program is a start, not a gain."""
    if not before_us or not after_us:
        return 0.0
    gain = math.log(before_us / after_us)
    return gain if gain >= _LEAST_GAIN else 0.0


def lead_of(found: Iterable[Attempt]) -> float:
    """Return the log speed-up of the best over the fastest way of MLX; 0 where that is faster."""
    ratios: list[float] = []
    for attempt in found:
        told = attempt.evaluation.speedups if attempt.evaluation.is_correct else ()
        measured = [speedup.ratio for speedup in told if speedup.kind == "measured"]
        if told:
            ratios.append(min(measured or [speedup.ratio for speedup in told]))
    return max((math.log(ratio) for ratio in ratios if ratio > 1.0), default=0.0)


def repairable(history: Sequence[Attempt], asked: Collection[str], *, rounds: int) -> list[Attempt]:
    """Return the failures worth a correction that nobody has been asked for, nearest right first.

    No line of corrections is longer than `rounds`, nor goes on once its error comes again. What is
    far behind the best, or came from such a program, is left alone.
    """
    return sorted(
        (
            a
            for a in history
            if a.proposal.program.id not in asked
            and is_repairable(a)
            and may_go_on(a, history, rounds)
            and not _is_far_behind(a, history)
        ),
        key=_distance,
    )


def _is_far_behind(failed: Attempt, history: Sequence[Attempt]) -> bool:
    """Say whether a failure, or what it came from, took far longer than the best."""
    times = {a.proposal.program.id: a.evaluation.taken_us for a in history}
    right = [a.evaluation.taken_us for a in history if a.evaluation.is_correct]
    best_us = min((us for us in right if us is not None), default=math.inf)
    own_us = failed.evaluation.taken_us or times.get(failed.proposal.parent or "")
    return own_us is not None and own_us > best_us * _WITHIN


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
