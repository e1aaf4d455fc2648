"""The cases on which a program is judged: built once per task, shared by all its candidates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.caught_case import CaughtCase
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.literals import literals_of, places_of
from kernelwright.evaluator.inputs.shape import sized_graphs
from kernelwright.evaluator.inputs.suite_plan import (
    hidden_cases,
    is_large,
    literal_cases,
    visible_cases,
)
from kernelwright.evaluator.inputs.trivial_answers import COARSE, MEAN
from kernelwright.evaluator.inputs.turned_shape import turned_graphs
from kernelwright.evaluator.oracle.parallel import side_by_side
from kernelwright.evaluator.oracle.reference import OUT_OF_RANGE, Reference, calibrate, prepare
from kernelwright.evaluator.oracle.swept_rows import (
    SweptRows,
    hidden_sweeps,
    named_sweeps,
    visible_sweeps,
)
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Program

_REDRAWS = 2
"""Further draws of a case that proves nothing before an ordinary one takes its place."""
_FURTHER, _FIRST_FURTHER = 48, 100
"""Cases that may be drawn for a suite that proves nothing, and the number of the first."""
_STRONG = (
    *(Distribution.NORMAL, Distribution.OFFSET, Distribution.ALTERNATING),
    *(Distribution.SMALL, Distribution.LARGE, Distribution.CONSTANT, Distribution.DENORMAL),
)
LEAST_JUDGED = 0.1
"""Share of the elements of ordinary data; where fewer can be judged, nothing is shown."""
_MOST_CAUGHT = 16
_DRAWN_ONCE = (
    *(Distribution.STRUCTURED, Distribution.BOUNDARY),
    *(Distribution.BESIDE_NAN, Distribution.NEAR_ENDS),
)
"""Kinds that other cases prove beside."""
_MOST_STRAYING = 4


@dataclass(frozen=True)
class Suite:
    """References for one set of graphs, and what was left out."""

    references: tuple[Reference, ...]
    dropped: tuple[str, ...] = ()
    """Names of cases that cannot judge anybody, with the reason."""
    straying: tuple[Reference, ...] = ()
    """Some of the dropped ones, in which an index is out of range: what hangs on none is known."""
    unproven: tuple[str, ...] = ()
    """Names of cases that some trivial answer passes; they run, and count for nothing."""
    swept: tuple[SweptRows, ...] = ()
    """Parts of cases of lone extremes, beside those that are references."""
    unseen_inputs: tuple[int, ...] = ()
    """Inputs that a program could ignore without any case showing it."""

    @property
    def why_dropped(self) -> str:
        """Say why cases were dropped, in a clause."""
        is_index = all(OUT_OF_RANGE in reason for reason in self.dropped)
        return OUT_OF_RANGE if is_index else "for one rounding may change all of them"

    @property
    def masked(self) -> int:
        """How many cases judge less than nearly all of their elements."""
        return sum(bool(r.masked) for r in self._live)

    @property
    def judged(self) -> str:
        """Say how many of all elements of the outputs are judged."""
        elements = sum(r.elements for r in self.references)
        share = sum(r.judged_elements for r in self.references) / max(elements, 1)
        return f"{share:.4%} of {elements:,} elements judged"

    @property
    def proving(self) -> int:
        """How many cases every trivial answer fails."""
        return sum(r.proves for r in self._live)

    @cached_property
    def is_proof(self) -> bool:
        """True when every trivial answer for every output fails some case.

        A program has to pass all cases, so each output may be told by another one. Where an
        output never holds but one number, its mean is no trivial answer, and one that lower
        precision never changes, as signs are, needs no higher one.
        """
        return self.judged_share >= LEAST_JUDGED and not self._unrefuted(self.passing)

    @property
    def why_no_proof(self) -> str:
        """Say what keeps any program of the task from being judged, and what helps."""
        if self.judged_share < LEAST_JUDGED:
            return (
                f"one rounding may change all but {self.judged_share:.0%} of what the cases hold; "
                "cut the task before what depends on the last bits, or leave it to MLX"
            )
        place, name = min(self._unrefuted(self.passing))
        return (
            f"{name} would pass as output {place} in all {len(self._live)} cases; give it sizes, "
            "dtypes or ranges of inputs at which that is wrong, or leave it to MLX"
        )

    @property
    def judged_share(self) -> float:
        """Return the share of the elements that is judged, in cases of ordinary data if any.

        Special values are exact or decide nothing, and would speak for what hangs on last bits.
        """
        ordinary = [r for r in self._live if r.case.distribution is Distribution.NORMAL]
        counted = ordinary or self._live
        elements = sum(r.elements for r in counted)
        return sum(r.judged_elements for r in counted) / elements if elements else 0.0

    def _unrefuted(self, passing: set[tuple[int, str]]) -> set[tuple[int, str]]:
        forgiven = {MEAN: self._is_uniform, COARSE: self._is_exact}
        return {(p, name) for p, name in passing if name not in forgiven or not forgiven[name](p)}

    @property
    def passing(self) -> set[tuple[int, str]]:
        """Trivial answers that every case accepts, by output."""
        accepted = [{*r.accepted, *((p, COARSE) for p in r.exact)} for r in self._live]
        return set.intersection(*accepted) if accepted else set()

    @property
    def _live(self) -> list[Reference]:
        return [r for r in self.references if not r.dropped and not r.case.is_edge]

    def _is_exact(self, place: int) -> bool:
        """Say whether lower precision changes no result, and results are several numbers."""
        numbers = (r.expected_outputs[place].expected for r in self._live)
        finite = (n[np.isfinite(n)] for n in numbers)
        is_varied = any(n.size and n.min() != n.max() for n in finite)
        return is_varied and all(place in r.exact for r in self._live)

    def _is_uniform(self, place: int) -> bool:
        expected = (r.expected_outputs[place].expected for r in self._live)
        return all((e == e.flat[0]).all() or (e != e).all() for e in expected)

    @property
    def largest(self) -> int:
        """The place of the reference with the most elements, the first of several."""
        return max(range(len(self.references)), key=lambda i: self.references[i].elements)

    @property
    def nbytes(self) -> int:
        """Bytes that the references hold."""
        held = sum(sum(a.nbytes for a in r.inputs) + r.expected_bytes for r in self.references)
        return held + sum(rows.nbytes for rows in self.swept)


def visible_suite(task: Task, graphs: Sequence[Graph], config: EvaluatorConfig) -> Suite:
    """Build the suite for the task's own graph and further graphs of the same function."""
    suite = _build(task, visible_cases(task.graph, graphs, config), config)
    swept = visible_sweeps(task.graph, task.output_tolerances, config.secret)
    return replace(_strengthened(suite, task, config), swept=swept)


def _strengthened(suite: Suite, task: Task, config: EvaluatorConfig) -> Suite:
    """Draw further cases while some trivial answer passes all: small tasks leave much to luck."""
    for number in range(_FURTHER):
        if suite.is_proof:
            break
        kind = _STRONG[number % len(_STRONG)]
        case = Case(task.graph, kind, attempt=_FIRST_FURTHER + number)
        reference = prepare(case, task.output_tolerances, config.secret)
        if reference.dropped:
            continue
        if not suite.passing or not suite.passing <= set(reference.accepted):
            suite = replace(suite, references=(*suite.references, reference))
    return suite


def with_regressions(
    suite: Suite, task: Task, known: Sequence[CaughtCase], graphs: Sequence[Graph]
) -> Suite:
    """Add the cases that have caught another program, where this one serves their shape.

    Years of nights catch many: of each kind of case the latest stays, and of those so many.
    """
    served = {task.graph.fingerprint, *(g.fingerprint for g in graphs)}
    of_task = [k for k in known if k.task == task.fingerprint]
    latest = {k.kind: k for k in of_task}
    chosen = [k for k in latest.values() if k.case.graph.fingerprint in served]
    references = side_by_side(
        lambda one: prepare(one.case, task.output_tolerances, one.secret),
        chosen[-_MOST_CAUGHT:],
    )
    # One that was drawn by the same secret may be in the suite already.
    others = [r for r in references if all(r is not known for known in suite.references)]
    return replace(suite, references=(*suite.references, *others)) if others else suite


@dataclass(frozen=True)
class LiteralCases:
    """Cases that hold the numbers, the sizes and the places of one program's own text."""

    references: tuple[Reference, ...]
    swept: tuple[SweptRows, ...]

    def added_to(self, suite: Suite) -> Suite:
        """Return a suite with these cases, too."""
        if not (self.references or self.swept):
            return suite
        references = (*suite.references, *self.references)
        return replace(suite, references=references, swept=(*suite.swept, *self.swept))


def literal_suite(
    task: Task, program: Program, graphs: Sequence[Graph], config: EvaluatorConfig
) -> LiteralCases:
    """Build the cases of one program's own text, which no other one shares."""
    sized = sized_graphs(task, program, config)
    sized += turned_graphs(task, program, (task.graph, *graphs, *sized), config)
    cases = literal_cases(task.graph, graphs, sized, literals_of(program), config)

    def made(case: Case) -> Reference:
        return calibrate(case, case.inputs(config.secret), task.output_tolerances)

    found = side_by_side(made, cases)
    kept = tuple(reference for reference in found if not reference.dropped)
    named = named_sweeps(task.graph, task.output_tolerances, config.secret, places_of(program))
    return LiteralCases(kept, named)


def hidden_suite(
    task: Task, graphs: Sequence[Graph], config: EvaluatorConfig, *, again: bool = False
) -> Suite:
    """Build the suite whose results never leave the evaluator: other seeds, other shapes.

    What took long and showed nothing is not done once more `again`.
    """
    suite = _build(task, hidden_cases(task.graph, graphs, config), config)
    sweeps = visible_sweeps if again else hidden_sweeps
    return replace(suite, swept=sweeps(task.graph, task.output_tolerances, config.secret))


def _build(task: Task, cases: Sequence[Case], config: EvaluatorConfig) -> Suite:
    references: list[Reference] = []
    dropped: list[str] = []
    unproven: list[str] = []
    is_alone = len({case.graph.fingerprint for case in cases}) == 1
    worthy = side_by_side(lambda case: _first_worthy(case, task, config, is_alone), cases)
    for case, (reference, extra) in zip(cases, worthy, strict=True):
        if reference.dropped:
            dropped.append(f"{case.name}: {reference.dropped}")
        elif reference.weakness and not case.is_edge:
            unproven.append(f"{case.name}: {reference.weakness}")
        references.extend(r for r in (reference, extra) if r is not None and not r.dropped)
    straying = [first for first, _ in worthy if first.strays]
    return Suite(
        references=tuple(references),
        dropped=tuple(dropped),
        straying=tuple(straying[:_MOST_STRAYING]),
        unproven=tuple(unproven),
        unseen_inputs=_never_seen(task, references),
    )


def drawn_in_turn(
    task: Task, graphs: Sequence[Graph], config: EvaluatorConfig
) -> Iterator[Reference]:
    """Yield what `visible_suite` begins with, in its order, each drawn when it is asked for.

    Whoever looks for the first case that refuses a program seldom needs a second one.
    """
    cases = visible_cases(task.graph, graphs, config)
    is_alone = len({case.graph.fingerprint for case in cases}) == 1
    for case in cases:
        found = _first_worthy(case, task, config, is_alone)
        yield from (r for r in found if r is not None and not r.dropped)


def _first_worthy(
    case: Case, task: Task, config: EvaluatorConfig, is_alone: bool
) -> tuple[Reference, Reference | None]:
    """Draw until the case proves something; else keep it beside an ordinary case that does.

    A large shape that is not alone leaves it to the others to tell a lower precision.
    """
    first = prepare(case, task.output_tolerances, config.secret)
    if first.proves or case.is_edge or case.distribution in _DRAWN_ONCE:
        # Another draw would show what this one did, and others prove.
        return first, None
    is_refuted = not first.dropped and all(name == COARSE for _, name in first.accepted)
    if is_refuted and not is_alone and is_large(case.graph, config):
        return first, None
    # Of many elements, another draw would show what this one did.
    redraws = _REDRAWS if case.graph.element_count <= config.case_elements else 0
    for attempt in range(1, redraws + 1):
        again = prepare(replace(case, attempt=attempt), task.output_tolerances, config.secret)
        if again.proves:
            return again, None
    if not redraws and case.distribution is Distribution.NORMAL:
        return first, None
    stand_in = replace(case, distribution=Distribution.NORMAL, attempt=_REDRAWS + 1 + _rank(case))
    return first, prepare(stand_in, task.output_tolerances, config.secret)


def _rank(case: Case) -> int:
    return list(Distribution).index(case.distribution)


def _never_seen(task: Task, references: Sequence[Reference]) -> tuple[int, ...]:
    missed = set(range(len(task.graph.inputs)))
    for reference in sorted(references, key=lambda r: r.elements):
        if not reference.case.is_edge:
            missed = {place for place in missed if reference.ignores(place)}
    return tuple(sorted(missed))
