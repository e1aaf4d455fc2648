"""Puts the mutants of one base program before an evaluator, and says what became of each."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from kernelwright.errors import DeviceError
from kernelwright.evaluator.attacks.mutate.base import BaseProgram
from kernelwright.evaluator.attacks.mutate.catalog import GROUPS
from kernelwright.evaluator.attacks.mutate.equivalence import machine_code
from kernelwright.evaluator.attacks.mutate.record import Fate, Mutant, Outcome
from kernelwright.evaluator.attacks.mutate.symbolic.programs import leave_the_same
from kernelwright.evaluator.attacks.mutate.symbolic.proof import STEPS
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Evaluation, Status
from kernelwright.metal.diagnostic import CompileError
from kernelwright.metal.kernel import Program

_TRIES = 2
"""How often a machine may fail over one mutant."""


@dataclass
class Examiner:
    """Judges mutants with evaluators of one kind, a fresh one after a machine's failure."""

    make: Callable[[], Evaluator]
    steps: int = STEPS
    """How many instructions the proof may run that a survivor is equal."""
    problem: str = field(default="", init=False)
    """Why the machine gave no verdict when it last did not."""
    _evaluator: Evaluator | None = field(default=None, init=False)

    def refusal(self, base: BaseProgram) -> str:
        """Say why a base program is refused, empty where it is accepted; a base must be right."""
        found = self._judged(base, base.program)
        return "" if found is not None and found.is_correct else _said(found) or self.problem

    def outcomes(self, base: BaseProgram, mutants: Sequence[Mutant]) -> Iterator[Outcome]:
        """Judge mutants in turn."""
        for mutant in mutants:
            yield self.outcome(base, mutant)

    def outcome(self, base: BaseProgram, mutant: Mutant) -> Outcome:
        """Judge one mutant."""
        started = time.perf_counter()
        fate = _without_running(base, mutant)
        found: Evaluation | None = None
        if fate is None:
            found = self._judged(base, mutant.program)
            fate = _fate(found)
        programs = base.program, mutant.program
        if fate == "survived" and leave_the_same(base.task, *programs, steps=self.steps):
            fate = "equivalent"
        refused = found is not None and fate == "killed"
        return Outcome(
            id=mutant.id,
            task=base.source.name,
            fingerprint=base.task.fingerprint,
            dtype=base.source.dtype.short if base.source.dtype else "",
            shapes=tuple(map(str, base.task.graph.input_types)),
            schedule=base.schedule,
            operator=mutant.operator,
            group=GROUPS[mutant.operator],
            place=mutant.place,
            before=mutant.before,
            after=mutant.after,
            fate=fate,
            status=found.status if found else None,
            stage=found.stages[-1].stage if found and refused else None,
            summary=_said(found) or (self.problem if fate == "no verdict" else ""),
            seconds=round(time.perf_counter() - started, 3),
        )

    def close(self) -> None:
        """End the evaluator's workers."""
        if self._evaluator is not None:
            self._evaluator.close()
        self._evaluator = None

    def _judged(self, base: BaseProgram, program: Program) -> Evaluation | None:
        for _ in range(_TRIES):
            self._evaluator = self._evaluator or self.make()
            try:
                return self._evaluator.evaluate(base.task, program)
            except DeviceError as e:
                self.problem = str(e)
                self.close()
        return None


def _without_running(base: BaseProgram, mutant: Mutant) -> Fate | None:
    if not mutant.shows_in_code:
        return None
    try:
        changed = machine_code(base.task, mutant.program, base.program)
        original = machine_code(base.task, base.program, mutant.program)
    except CompileError:
        return "not compiled"
    except DeviceError:
        return None
    return "equivalent" if changed is not None and changed == original else None


def _fate(found: Evaluation | None) -> Fate:
    if found is None:
        return "no verdict"
    if found.status is Status.COMPILE_ERROR:
        return "not compiled"
    return "survived" if found.is_correct else "killed"


def _said(found: Evaluation | None) -> str:
    return f"{found.status}: {found.summary}"[:300] if found else ""
