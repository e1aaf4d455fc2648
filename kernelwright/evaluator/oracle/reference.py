"""The oracle: what a case must give, how closely, and whether it tells right from wrong."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import cast
from weakref import WeakValueDictionary

import numpy as np

from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.trivial_answers import (
    COARSE,
    Stretch,
    has_lower_precision,
    lower_precision,
    lower_precision_output,
    trivial_answers,
)
from kernelwright.evaluator.oracle.accuracy import Deviation, accepts, accepts_made, measure
from kernelwright.evaluator.oracle.block_analysis import analyse_in_blocks
from kernelwright.evaluator.oracle.dependence import constant_outputs, discrete_outputs, precisions
from kernelwright.evaluator.oracle.expected_output import ExpectedOutput, Mask
from kernelwright.evaluator.oracle.float_format import Reals, rounded_to
from kernelwright.evaluator.oracle.ignored_values import out_of_sight
from kernelwright.evaluator.oracle.mlx_answer import AllcloseAnswer, Closeness, closeness, run_mlx
from kernelwright.evaluator.oracle.parallel import room_for, spread
from kernelwright.evaluator.oracle.rounding_direction import samples_of
from kernelwright.evaluator.oracle.row_blocks import block_inputs, row_blocks
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.analysis.reference import reference
from kernelwright.ir.graph import Graph, Node
from kernelwright.ir.ops import op_named
from kernelwright.ir.ops.undefined import Clamp
from kernelwright.metal.device.executable import Array
from kernelwright.timeline import span

OUT_OF_RANGE = "an index is out of range"
MOST_IGNORED = 0.1
"""Share of an output's elements that nobody can judge, beyond which its case proves nothing."""
_DIVERSE = (Distribution.MIXED, Distribution.NORMAL, Distribution.BOUNDARY)
"""Kinds whose rows do not all hold numbers of one size, which are all rounded alike."""
_NOTHING_JUDGED = "all of it may change wholly by one rounding"


@dataclass(frozen=True)
class Reference:
    """A case made concrete: its inputs, and what each output must be.

    `dropped` says why the case cannot judge anybody, `masked` of which output it judges little;
    `accepted` lists the trivial answers that it would accept, by output. All are empty as a rule.
    """

    case: Case
    inputs: tuple[Array, ...]
    expected_outputs: tuple[ExpectedOutput, ...]
    dropped: str = ""
    masked: str = ""
    accepted: tuple[tuple[int, str], ...] = ()
    exact: frozenset[int] = frozenset()
    """Outputs of which a reference of lower precision has every digit, as of signs."""
    strays: bool = False
    """Dropped for an index that is out of range; elements that depend on none can be judged."""
    _lock: Lock = field(default_factory=Lock, compare=False, repr=False)
    _row_errors: dict[int, float] = field(default_factory=dict, compare=False, repr=False)

    @property
    def proves(self) -> bool:
        """True when every trivial answer fails the case, which judges nearly all elements."""
        return not (self.dropped or self.masked or self.accepted)

    @property
    def elements(self) -> int:
        """How many numbers the outputs hold."""
        return sum(wanted.type.size for wanted in self.expected_outputs)

    @property
    def samples(self) -> int:
        """Into how many samples of roundings the elements may be divided, one if all are alike."""
        return samples_of(self.case.graph) if self.case.distribution in _DIVERSE else 1

    @property
    def judged_elements(self) -> int:
        """How many of them are judged."""
        return sum(wanted.judged_elements for wanted in self.expected_outputs)

    @property
    def expected_bytes(self) -> int:
        """Bytes of the right outputs, and of how closely each element is held to them."""
        return sum(wanted.nbytes for wanted in self.expected_outputs)

    @property
    def weakness(self) -> str:
        """Name a trivial answer that would pass; nothing where there is none."""
        return "".join(f"{name} would pass as output {place}" for place, name in self.accepted[:1])

    def ignores(self, place: int) -> bool:
        """Say whether an input may be taken for all zeros or all ones without being noticed."""
        is_empty = not self.case.graph.input_types[place].size
        return not is_empty and any(_passes_with(self, place, value) for value in (0, 1))

    def allclose_answers(self) -> tuple[AllcloseAnswer, ...]:
        """Return what `mx.allclose` compares outputs with: MLX runs at the first call."""
        with self._lock:
            return self._allclose_answers

    def mlx_row_error(self, place: int) -> float:
        """Return MLX's own relative error in the row of an output that comes closest to its bound.

        Zero where MLX does not run.
        """
        computed = self.allclose_answers()[place].computed
        if computed is None:
            return 0.0
        if place not in self._row_errors:
            found = measure(computed, self.expected_outputs[place])
            self._row_errors[place] = found.row_relative
        return self._row_errors[place]

    def closeness(self, outputs: Sequence[Array]) -> Closeness:
        """Say whether a candidate's outputs are close to MLX's answer."""
        return closeness(outputs, self.allclose_answers(), self.expected_outputs)

    @cached_property
    def _allclose_answers(self) -> tuple[AllcloseAnswer, ...]:
        if self.strays or self.case.is_edge:
            # MLX would read out of range, or there is nothing to read.
            return (AllcloseAnswer(None),) * len(self.expected_outputs)
        with span("MLX's answer to a case"):
            own = run_mlx(self.case.graph, self.inputs)
        return tuple(map(AllcloseAnswer.of, own, self.expected_outputs))


class PreparedCases:
    """References that somebody holds, so that suites of one task share large cases."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[Case, tuple[Tolerance, ...], str], Reference] = (
            WeakValueDictionary()
        )

    def get_or_build(
        self,
        case: Case,
        tolerances: Sequence[Tolerance],
        secret: str,
        build: Callable[[], Reference],
    ) -> Reference:
        """Return the reference of a case, built unless somebody holds it."""
        key = (case, tuple(tolerances), secret)
        known = self._known.get(key)
        if known is None:
            known = build()
            self._known[key] = known
        return known


_HELD = PreparedCases()


# A case may be of numbers whose results overflow; what that means for it is decided here.
@np.errstate(all="ignore")
def prepare(case: Case, tolerances: Sequence[Tolerance], secret: str) -> Reference:
    """Run the float64 oracle on a case and decide what the case is worth."""

    def build() -> Reference:
        made = _calibrated(case, case.inputs(secret), tolerances)
        return made if made.dropped or case.is_edge else _tried(made)

    with room_for(case.work_bytes), span("work out a case"):
        return _HELD.get_or_build(case, tolerances, secret, build)


@np.errstate(all="ignore")
def calibrate(case: Case, inputs: tuple[Array, ...], tolerances: Sequence[Tolerance]) -> Reference:
    """Run the float64 oracle on a case that need not tell right from wrong by itself."""
    with room_for(case.work_bytes), span("work out a case"):
        return _calibrated(case, inputs, tolerances)


def judge(prepared: Reference, outputs: Sequence[Array]) -> tuple[Deviation, ...]:
    """Measure each output of a candidate; the caller has checked their number."""
    with span("compare outputs"):
        return tuple(
            measure(output, wanted)
            for output, wanted in zip(outputs, prepared.expected_outputs, strict=True)
        )


def run_oracle(
    graph: Graph, inputs: Sequence[Array], *, clamp: Clamp | None = "nearest"
) -> tuple[Array, ...]:
    """Return what the graph means in float64, and exactly for integers and flags.

    Raises:
        IndexError: an index is out of range, without `clamp`.
    """
    arrays = cast("list[Reals]", list(inputs))
    outputs = reference(graph, arrays, spread=spread, clamp=clamp)
    return tuple(np.asarray(array) for array in outputs)


def _calibrated(
    case: Case, inputs: tuple[Array, ...], tolerances: Sequence[Tolerance]
) -> Reference:
    try:
        wanted = _expected(case.graph, inputs, tolerances, clamp=None)
    except IndexError as e:
        # What is computed of an input need not stay within what it indexes.
        return _straying(case, inputs, tolerances, f"{OUT_OF_RANGE}: {e}")
    if case.is_edge:
        return Reference(case, inputs, wanted)
    dropped = "" if any(one.judged_elements for one in wanted) else _NOTHING_JUDGED
    return Reference(case, inputs, wanted, dropped, masked=_masked(wanted))


def _masked(wanted: Sequence[ExpectedOutput]) -> str:
    """Say of which output much hangs on single roundings, or nothing.

    What is left is judged, and proves nothing by itself.
    """
    for place, one in enumerate(wanted):
        undefined = 0 if one.may_vary is None else int(np.count_nonzero(one.may_vary))
        share = (one.ignored_elements - undefined) / max(one.type.size, 1)
        if share > MOST_IGNORED or (undefined and not one.judged_elements):
            open_ = one.ignored_elements / one.type.size
            return f"{open_:.0%} of output {place} may change wholly by one rounding"
    return ""


def _straying(
    case: Case, inputs: tuple[Array, ...], tolerances: Sequence[Tolerance], reason: str
) -> Reference:
    """Judge what depends on nothing that lies outside of an array, which is undefined.

    MLX itself is not asked, for it would read there.
    """
    left = Reference(case, inputs, (), reason)
    if case.is_edge or not all(np.isfinite(a).all() for a in inputs):
        return left
    wanted = _expected(case.graph, inputs, tolerances, clamp="nearest")
    first = run_oracle(case.graph, inputs, clamp="first")
    unknown = [
        _are_different(one.expected, other) for one, other in zip(wanted, first, strict=True)
    ]
    if any(mask.all() for mask in unknown):
        return left
    held = tuple(w.without(mask) for w, mask in zip(wanted, unknown, strict=True))
    return replace(left, expected_outputs=held, strays=True)


def _expected(
    graph: Graph,
    inputs: Sequence[Array],
    tolerances: Sequence[Tolerance],
    *,
    clamp: Clamp | None,
) -> tuple[ExpectedOutput, ...]:
    """Bound every element of every output, and mark those that nobody can judge."""
    wanted = analyse_in_blocks(graph, inputs, tolerances, clamp=clamp)
    hidden = out_of_sight(graph, inputs, [w.expected for w in wanted])
    if hidden is not None:
        wanted = tuple(w.without(mask) for w, mask in zip(wanted, hidden, strict=True))
    undefined = _unconvertible(graph, inputs, wanted)
    if undefined:
        pairs = zip(wanted, undefined, strict=True)
        wanted = tuple(w.without(mask, may_vary=True) for w, mask in pairs)
    return wanted


def _are_different(one: Array, other: Array) -> Mask:
    both_nan = (one != one) & (other != other)
    return np.asarray((one != other) & ~both_nan)


def _unconvertible(
    graph: Graph, inputs: Sequence[Array], wanted: Sequence[ExpectedOutput]
) -> list[Mask]:
    """Mark elements that depend on a float beyond the range of the integer that it becomes.

    C++ and Metal leave that undefined: MLX cuts off bits on a CPU and saturates on a GPU. Nothing
    where no float becomes an integer.
    """
    if not any(_becomes_integer(graph, node) for node in graph.nodes):
        return []
    nearest, first = run_oracle(graph, inputs), run_oracle(graph, inputs, clamp="first")
    return [
        _are_different(own.expected, one) | _are_different(one, other)
        for own, one, other in zip(wanted, nearest, first, strict=True)
    ]


def _becomes_integer(graph: Graph, node: Node) -> bool:
    if not op_named(node.op).behaviour.converts:
        return False
    made, read = graph.types[node.outputs[0]].dtype, graph.types[node.inputs[0]].dtype
    return made.is_integer and read.is_float


def _tried(prepared: Reference) -> Reference:
    """List the trivial answers that outputs would accept.

    An output that depends on no input has one right answer, be it trivial or not, and one of
    flags and constants has no digits to lose.
    """
    accepted, exact = list[tuple[int, str]](), set[int]()
    for place, name, answer in _trivial_answers(prepared):
        if accepts_made(prepared.expected_outputs[place], answer):
            accepted.append((place, name))
    for place in _with_digits(prepared.case.graph):
        wanted = prepared.expected_outputs[place]
        precision = precisions(prepared.case.graph)[place]
        answer = lower_precision_output(wanted.expected, wanted.type, precision)
        if not accepts_made(wanted, answer):
            # The right answer in fewer digits is refused, so what is computed in fewer is as well.
            continue
        answer = lower_precision_output(_coarse(prepared)[place], wanted.type, precision)
        if np.array_equal(
            answer(slice(0, wanted.type.size)), wanted.rounded.reshape(-1), equal_nan=True
        ):
            exact.add(place)
        elif accepts_made(wanted, answer):
            accepted.append((place, COARSE))
    return replace(prepared, accepted=tuple(accepted), exact=frozenset(exact))


def _coarse(prepared: Reference) -> tuple[Array, ...]:
    return run_oracle(prepared.case.graph, [lower_precision(a) for a in prepared.inputs])


def _with_digits(graph: Graph) -> Iterator[int]:
    """Yield the outputs that a lower precision can change."""
    fixed, discrete = constant_outputs(graph), discrete_outputs(graph)
    for place, precision in enumerate(precisions(graph)):
        if place not in fixed and place not in discrete and has_lower_precision(precision):
            yield place


def _trivial_answers(prepared: Reference) -> Iterator[tuple[int, str, Stretch]]:
    """Yield output, name and value of every answer that needs no work."""
    fixed = constant_outputs(prepared.case.graph)
    for place, wanted in enumerate(prepared.expected_outputs):
        if place not in fixed:
            for name, answer in trivial_answers(wanted.type, wanted.expected, prepared.inputs):
                yield place, name, answer


def _passes_with(prepared: Reference, place: int, value: int) -> bool:
    """Say whether the right outputs stay right where an input is the same number everywhere.

    Of rows that do not depend on each other, few are asked before the others.
    """
    inputs = list(prepared.inputs)
    inputs[place] = np.full_like(inputs[place], value)
    graph = prepared.case.graph
    blocks = row_blocks(graph)
    if blocks is None:
        return _stay_right(prepared.expected_outputs, run_oracle(graph, inputs))
    for start in blocks.starts:
        part, cut = block_inputs(graph, blocks, inputs, start)
        rows = slice(start, min(start + blocks.block, blocks.rows))
        wanted = [
            one.rows(axis, rows)
            for one, axis in zip(prepared.expected_outputs, blocks.output_axes, strict=True)
        ]
        if not _stay_right(wanted, run_oracle(part, cut)):
            return False
    return True


def _stay_right(wanted: Sequence[ExpectedOutput], outputs: Sequence[Array]) -> bool:
    return all(
        accepts(one, rounded_to(array, one.type.dtype))
        for array, one in zip(outputs, wanted, strict=True)
    )
