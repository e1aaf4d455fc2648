"""The stage that wants both sides of every condition on loaded data proven, or harmless."""

from collections import Counter
from collections.abc import Iterator, Sequence

from kernelwright.evaluator.coverage.explained import Explained
from kernelwright.evaluator.coverage.forcing import Forcing
from kernelwright.evaluator.coverage.library import stands_in_library
from kernelwright.evaluator.coverage.reach import (
    is_guard,
    is_out_of_reach,
    is_trigger,
    ranges_of,
)
from kernelwright.evaluator.coverage.search import Search, is_finite
from kernelwright.evaluator.coverage.showing import MOST_ELEMENTS, Showing
from kernelwright.evaluator.coverage.sides import Side, Tally
from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.oracle.reference import Reference
from kernelwright.evaluator.stages.correctness import judge_build
from kernelwright.evaluator.stages.protocol import Context, PipelineStage
from kernelwright.evaluator.stages.trial import BEYOND_THE_SIMULATOR, Failure, check_answer
from kernelwright.metal.device.base import Condition
from kernelwright.plural import counted

_MOST_SHAPES, _MOST_OF_A_SHAPE = 16, 2
"""Further shapes at which sides are looked for that the task's own shape rules out."""
_MOST_ROUNDS = 4
"""A case that takes a side may come to conditions behind it."""
Runs = list[tuple[Reference, tuple[Condition, ...]]]


class Coverage(PipelineStage):
    """A side that no case takes proves nothing: where it matters, a case is made for it.

    Conditions are those of the task's own shape, which the most cases have. A side that would
    change what is right, and that no input is found for, is refused where it waits for two equal
    integers, as hashes of data do. Others are named in the verdict: they may be guards that no
    value can reach, or hide what nobody tried.
    """

    name = Stage.COVERAGE
    needs = frozenset({"program", "simulated", "suite"})

    def run(self, context: Context) -> str:
        """Watch the cases until both sides of all conditions are taken."""
        try:
            return _Coverage(context).prove()
        except Failure as failure:
            if context.info.measures_time and failure.status in BEYOND_THE_SIMULATOR:
                return f"not watched: {failure.summary}"
            raise


class _Coverage:
    def __init__(self, context: Context) -> None:
        self._context, self._trial = context, context.simulated
        own = context.suite.references[0].case.graph.fingerprint
        self._references = [r for r in context.suite.references if r.case.graph.fingerprint == own]
        self._unwatched = list(self._references)
        self._others = [r for r in context.suite.references if r.case.graph.fingerprint != own]
        self._elsewhere: Tally | None = None
        self._tally, self._runs = Tally(), Runs()
        self._unproven: list[Side] = []
        self._explained = Explained.of(context.task.graph, context.program)
        self._search = Search(
            self._trial,
            self._references,
            self._tally,
            context.task.output_tolerances,
            context.config.secret,
        )
        self._showing = Showing(self._trial, self._search.tolerances, self._search.random)

    def prove(self) -> str:
        """Return what was found, in one sentence."""
        while self._unwatched:
            self._watch(self._unwatched.pop(0))
            if not self._tally.missing:
                break
        drawn = len(self._runs)
        tried = self._settle()
        own = self._references[0]
        hidden = self._show() if self._tally.watched and own.elements <= MOST_ELEMENTS else 0
        tried |= self._settle(tried)
        self._settle_special()
        words = f"{counted(len(self._tally.watched), 'condition')} on loaded data"
        if not tried:
            words += f", both sides taken in {counted(drawn, 'case')}"
        else:
            words += f", one side of {len(tried)} taken by none of {counted(drawn, 'case')}"
        if hidden:
            words += f"; {counted(hidden, 'side')} tried among other numbers"
        return f"{words}; {self._warning(self._unproven)}" if self._unproven else words

    def _show(self) -> int:
        """Judge further cases where a side matters in none; return of how many sides."""
        hidden = list(self._showing.hidden(self._runs))
        for side, taken in hidden:
            for reference in self._showing.cases(side, taken):
                self._judge(reference)
        return len(hidden)

    def _settle(self, tried: frozenset[Side] = frozenset()) -> frozenset[Side]:
        """Settle the sides that are missing, and those behind them that made cases come to.

        Raises:
            Failure: one of them waits for what nothing brings about.
        """
        for _ in range(_MOST_ROUNDS):
            missing = [side for side in self._tally.missing if side not in tried]
            ranges = ranges_of(self._references, self._context.program) if missing else {}
            suspects = [s for s in missing if not is_out_of_reach(s, self._tally, ranges)]
            suspects = [s for s in suspects if not self._is_decided(s)]
            if not suspects:
                break
            self._settle_some(suspects)
            tried |= frozenset(suspects)
        return tried

    def _is_decided(self, side: Side) -> bool:
        """Say whether the task's shape alone keeps a side from being taken.

        A program that serves other shapes has to take it at one of those.
        """
        if not self._tally.is_decided(side):
            return False
        if self._elsewhere is None:
            self._elsewhere = Tally()
            for reference in _of_each_shape(self._others[::-1]):
                result = self._trial.run(reference, watch=True)
                judge_build(result, reference, "while its conditions are watched")
                self._elsewhere.add(result.conditions)
        return not self._others or self._elsewhere.takes(side)

    def _settle_special(self) -> None:
        """Settle the sides that are taken beside NaN and infinities alone, and that show nowhere.

        A row of NaN is NaN whatever is done with it, and one of infinities is infinite times any
        factor, so that taking a side there proves nothing.

        Raises:
            Failure: one of them waits for what nothing brings about.
        """
        waiting = [side for side in self._tally.taken if self._waits(side)]
        among_numbers = Tally()
        for reference, conditions in self._runs if waiting else ():
            if is_finite(reference.inputs):
                among_numbers.add(conditions)
        suspects = [side for side in waiting if not among_numbers.takes(side)]
        if suspects:
            ordinary = self._search.finite_tally()
            special = [side for side in suspects if not ordinary.takes(side)]
            hidden = self._hidden(special)
            self._tally.forget(hidden)
            self._search.is_finite = True
            self._settle_some(hidden)

    def _hidden(self, sides: Sequence[Side]) -> list[Side]:
        """Return those of some sides that show in no case, the ones that nobody has watched too.

        Both sides may be taken before the first case of infinities, which one of them is for.
        """
        shown = self._showing.shown(sides, self._runs) if sides else set()
        hidden = [side for side in sides if side not in shown]
        while hidden and self._unwatched:
            self._watch(self._unwatched.pop(0))
            shown = self._showing.shown(hidden, self._runs[-1:])
            hidden = [side for side in hidden if side not in shown]
        return hidden

    def _waits(self, side: Side) -> bool:
        """Say whether a side would be refused if nothing took it."""
        if is_guard(side, self._tally, self._explained):
            return False
        if stands_in_library(side.key, self._context.program):
            return False
        return is_trigger(side, self._tally, self._explained)

    def _settle_some(self, suspects: Sequence[Side]) -> None:
        forcing = Forcing(self._trial, self._runs, self._tally)
        harmful = [side for side in suspects if forcing.matters((side,))]
        for reference in self._search.reach(harmful):
            self._judge(reference)
        left = [side for side in harmful if not self._tally.takes(side)]
        unproven = [side for side in left if not is_guard(side, self._tally, self._explained)]
        if triggers := [side for side in unproven if self._waits(side)]:
            raise Failure(Status.WRONG, self._warning(triggers))
        self._unproven += unproven

    def _judge(self, made: Reference) -> None:
        """Judge a case that was made for this program, as any other is judged."""
        check_answer(self._trial.run(made), made)
        self._watch(made)

    def _watch(self, reference: Reference) -> None:
        result = self._trial.run(reference, watch=True)
        judge_build(result, reference, "while its conditions are watched")
        self._tally.add(result.conditions)
        self._runs.append((reference, result.conditions))

    def _warning(self, unproven: Sequence[Side]) -> str:
        side = unproven[0]
        key, seen = side.key, self._tally.seen[side.key]
        compared = ""
        if seen.compared is not None:
            one, other = seen.compared
            compared = f", compares {one:.9g} with {other:.9g} at the closest,"
        never = "true" if side.value else "false"
        more = f"; {len(unproven) - 1} more are like it" if len(unproven) > 1 else ""
        return (
            f"unproven branch: the condition on loaded data at line {key.line}, column "
            f"{key.column} of the {key.file}{compared} is never {never} in {len(self._runs)} "
            f"cases, and outputs are wrong where it is made so; remove it, or write it so that "
            f"ordinary data takes both sides{more}"
        )


def _of_each_shape(references: Sequence[Reference]) -> Iterator[Reference]:
    """Yield the first two cases of each of some shapes."""
    counts = Counter[str]()
    for reference in references:
        shape = reference.case.graph.fingerprint
        counts[shape] += 1
        if counts[shape] <= _MOST_OF_A_SHAPE and len(counts) <= _MOST_SHAPES:
            yield reference
