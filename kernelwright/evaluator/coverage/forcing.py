"""Whether a side that no case takes would change what a program gives."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.evaluator.coverage.sides import Side, Tally, forced_sides
from kernelwright.evaluator.oracle.reference import Reference, judge
from kernelwright.evaluator.stages.trial import Failure, Trial, check_fences
from kernelwright.metal.device.base import Condition

_MOST_CASES = 6
_MOST_ELEMENTS = 1 << 16
_MOST_WAYS = 64
"""Conditions behind forced ones that are forced as well."""
_TIMEOUT_S = 1.0


@dataclass(frozen=True)
class Forcing:
    """Runs a program with conditions forced, on a few cases of different kinds."""

    trial: Trial
    cases: tuple[tuple[Reference, tuple[Condition, ...]], ...]
    """What each case's build has for conditions."""
    tally: Tally

    @classmethod
    def on(
        cls, trial: Trial, runs: Sequence[tuple[Reference, tuple[Condition, ...]]], tally: Tally
    ) -> "Forcing":
        """Choose among the cases that were watched."""
        small = [run for run in runs if run[0].elements <= _MOST_ELEMENTS] or list(runs[:1])
        kinds: dict[tuple[str, str], tuple[Reference, tuple[Condition, ...]]] = {}
        for run in sorted(small, key=lambda run: -run[0].judged_elements):
            case = run[0].case
            kinds.setdefault((case.distribution.value, ""), run)
        return cls(trial, tuple(kinds.values())[:_MOST_CASES], tally)

    def matters(self, sides: Sequence[Side]) -> bool:
        """Say whether a program is wrong where these sides are taken, and what they lead to."""
        pending, tried = [tuple(sides)], 0
        while pending:
            forced, tried = pending.pop(), tried + 1
            if tried > _MOST_WAYS:
                return True
            behind = Tally()
            for reference, conditions in self.cases:
                if self._is_wrong(reference, conditions, forced, behind):
                    return True
            new = (s for s in behind.missing if not self.tally.was_evaluated(s.key))
            known = {side.key for side in forced}
            pending += [(*forced, side) for side in new if side.key not in known]
        return False

    def _is_wrong(
        self,
        reference: Reference,
        conditions: Sequence[Condition],
        sides: Sequence[Side],
        behind: Tally,
    ) -> bool:
        forced = forced_sides(conditions, sides)
        if not forced:
            return False
        try:
            result = self.trial.run(reference, watch=True, forced=forced, timeout_s=_TIMEOUT_S)
            check_fences(result, reference, 0)
        except Failure:
            # A stray access, or a loop without end.
            return True
        behind.add(result.conditions)
        return not all(deviation.is_acceptable for deviation in judge(reference, result.outputs))
