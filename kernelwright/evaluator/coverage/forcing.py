"""Whether a side that no case takes would change what a program gives."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.errors import DeviceError
from kernelwright.evaluator.coverage.sides import Key, Side, Tally, forced_sides, keyed
from kernelwright.evaluator.oracle.reference import Reference, judge
from kernelwright.evaluator.stages.trial import Failure, Trial, check_fences
from kernelwright.metal.device.base import Condition

_MOST_CASES = 6
_MOST_WAYS = 64
"""Conditions behind forced ones that are forced as well."""
_TIMEOUT_S = 1.0


@dataclass(frozen=True)
class Forcing:
    """Runs a program with conditions forced, on a few cases of different kinds."""

    trial: Trial
    runs: Sequence[tuple[Reference, tuple[Condition, ...]]]
    """The cases that were watched, and what each run saw."""
    tally: Tally

    def _cases(self, key: Key) -> list[tuple[Reference, tuple[Condition, ...]]]:
        """Choose some that come to a condition: one behind others is evaluated in few."""
        found: dict[str, tuple[Reference, tuple[Condition, ...]]] = {}
        for run in sorted(self.runs, key=lambda run: -run[0].judged_elements):
            kind = run[0].case.distribution.value
            if kind not in found and _evaluates(run[1], key):
                found[kind] = run
            if len(found) == _MOST_CASES:
                break
        return list(found.values())

    def matters(self, sides: Sequence[Side]) -> bool:
        """Say whether a program is wrong where these sides are taken, and what they lead to."""
        pending, tried = [tuple(sides)], 0
        while pending:
            forced, tried = pending.pop(), tried + 1
            if tried > _MOST_WAYS:
                return True
            behind = Tally()
            for reference, conditions in self._cases(sides[0].key):
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
        except (Failure, DeviceError):
            # A stray access, or a loop without end, for which a busy machine has too little time.
            return True
        behind.add(result.conditions)
        return not all(deviation.is_acceptable for deviation in judge(reference, result.outputs))


def _evaluates(conditions: Sequence[Condition], key: Key) -> bool:
    return any(k == key and (c.was_false or c.was_true) for k, c in keyed(conditions))
