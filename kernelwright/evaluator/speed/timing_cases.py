"""Inputs to time a program on, a different set for every slot, and what each must give."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock

import mlx.core as mx

from kernelwright.errors import InputError
from kernelwright.evaluator.config import TimingPlan
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.structured import Structure, restructure
from kernelwright.evaluator.oracle.bounded import strays
from kernelwright.evaluator.oracle.parallel import begin, side_by_side
from kernelwright.evaluator.oracle.reference import Reference, calibrate, judge
from kernelwright.evaluator.speed.timing import slots_for
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.executable import Array

_STRUCTURES = (
    *(Structure.NONE, Structure.SORTED, Structure.NONE),
    *(Structure.SKEWED, Structure.NONE, Structure.EQUAL),
)
"""By slot: what fills a cache by itself rotates over two, plain and sorted."""
_FEW_SLOTS = 3
_MOST_DRAWS = 8
_REDRAWN = 1000
"""Between the attempts of a slot that is drawn again, more than there are slots."""


@dataclass
class TimingCases:
    """The inputs of a laboratory's slots; the oracle runs for those only that somebody looks at."""

    cases: tuple[Case, ...]
    inputs: tuple[tuple[Array, ...], ...]
    tolerances: Sequence[Tolerance]
    secret: str
    _references: dict[int, Reference] = field(default_factory=dict)
    _locks: defaultdict[int, Lock] = field(default_factory=lambda: defaultdict(Lock))

    @property
    def graph(self) -> Graph:
        """The graph that is timed."""
        return self.cases[0].graph

    @property
    def nbytes(self) -> int:
        """Bytes of the inputs, and of what is known of their outputs."""
        inputs = sum(array.nbytes for arrays in self.inputs for array in arrays)
        return inputs + sum(r.expected_bytes for r in tuple(self._references.values()))

    def judge(self, slot: int, outputs: tuple[Array, ...]) -> str:
        """Say what is wrong with a slot's outputs; nothing where it cannot be judged.

        Several threads may ask.
        """
        if not 0 <= slot < len(self.cases):
            return f"they are said to belong to slot {slot} of {len(self.cases)}"
        reference = self._reference(slot)
        if reference.dropped:
            return ""
        if len(outputs) != len(reference.expected_outputs):
            return f"{len(outputs)} outputs came, {len(reference.expected_outputs)} were expected"
        for place, deviation in enumerate(judge(reference, outputs)):
            if not deviation.is_acceptable:
                return f"output {place} {deviation.problem}"
        return ""

    def work_out_ahead(self) -> None:
        """Begin what is right in the slots of large arrays, which are few and all looked at."""
        if len(self.cases) <= _FEW_SLOTS:
            for slot in range(len(self.cases)):
                begin(partial(self._reference, slot))

    def _reference(self, slot: int) -> Reference:
        with self._locks[slot]:
            reference = self._references.get(slot)
            if reference is None:
                reference = calibrate(self.cases[slot], self.inputs[slot], self.tolerances)
                self._references[slot] = reference
            return reference


def timing_cases(
    graph: Graph,
    tolerances: Sequence[Tolerance],
    plan: TimingPlan,
    secret: str,
    distributions: Sequence[Distribution] = (Distribution.NORMAL,),
) -> TimingCases:
    """Draw as many sets of inputs as rotate, their distributions and structures in turn.

    What a sample tells is the mean over its slots, so every kind of data has its share in it.
    """
    slots = slots_for(
        plan,
        sum(t.nbytes for t in graph.input_types),
        sum(t.nbytes for t in graph.output_types),
    )
    cases = tuple(
        Case(graph, distributions[slot % len(distributions)], attempt=slot) for slot in range(slots)
    )
    inputs = side_by_side(lambda case: _structured(case, secret), cases)
    return TimingCases(cases, tuple(inputs), tolerances, secret)


def _structured(case: Case, secret: str) -> tuple[Array, ...]:
    """Draw a slot's inputs, on which MLX stays within its arrays: a baseline runs on all of them.

    Indices that are computed may leave theirs on any data; then there is nothing to compare with.

    Raises:
        InputError: they do on every draw.
    """
    structure = _STRUCTURES[case.attempt % len(_STRUCTURES)]
    tried = [(case, structure), (case, Structure.NONE)]
    tried += [
        (
            replace(case, distribution=Distribution.NORMAL, attempt=case.attempt + _REDRAWN * n),
            Structure.NONE,
        )
        for n in range(1, _MOST_DRAWS)
    ]
    for one, shape in tried:
        drawn = one.inputs(secret)
        inputs = restructure(case.graph, drawn, shape, case.attempt)
        with mx.stream(mx.cpu):
            if not strays(case.graph, inputs):
                return inputs
    raise InputError("its indices leave their arrays on every draw, where MLX has no answer.")
