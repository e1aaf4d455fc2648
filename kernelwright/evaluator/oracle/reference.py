"""The oracle: what a case must give, how closely, and whether it tells right from wrong."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast
from weakref import WeakValueDictionary

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Reals
from kernelwright.evaluator.inputs.trivial_answers import (
    COARSE,
    has_lower_precision,
    lower_precision,
    lower_precision_output,
    trivial_answers,
)
from kernelwright.evaluator.inputs.value_domain import accumulation_length, has_jump_after_rounding
from kernelwright.evaluator.oracle.accuracy import (
    Deviation,
    Mask,
    Yardstick,
    accepts,
    floor_of,
    for_each_element,
    largest_share,
    measure,
    row_scale,
)
from kernelwright.evaluator.oracle.dependence import constant_outputs, discrete_outputs, precisions
from kernelwright.evaluator.oracle.ignored_values import out_of_sight
from kernelwright.evaluator.oracle.noise import forgiving, moved_alike
from kernelwright.evaluator.oracle.parallel import room_for, spread
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.capture import to_numpy
from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import Graph, Node, TensorType
from kernelwright.ir.interpret import interpret
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.ops.undefined import Clamp
from kernelwright.ir.passes.ranking import sort_partitions
from kernelwright.ir.reference import Made, reference
from kernelwright.metal.device.base import Array

OUT_OF_RANGE = "an index is out of range"
_FORGIVEN_SHARE = 0.1
"""Elements of a case that MLX may get wrong, by cancellation in half precision as a rule."""


_LUCK = 2.0
"""How much further than MLX's worst element another order of summation may throw one."""


@dataclass(frozen=True)
class Reference:
    """A case made concrete: its inputs, and a yardstick for each output.

    `dropped` says why the case cannot judge anybody (MLX itself fails on it); `accepted` lists
    the trivial answers that it would accept, by output. Both are empty as a rule.
    """

    case: Case
    inputs: tuple[Array, ...]
    yardsticks: tuple[Yardstick, ...]
    dropped: str = ""
    accepted: tuple[tuple[int, str], ...] = ()
    exact: frozenset[int] = frozenset()
    """Outputs of which a reference of lower precision has every digit, as of signs."""
    strays: bool = False
    """Dropped for an index that is out of range; elements that hang on none can be judged."""

    @property
    def proves(self) -> bool:
        """True when MLX passes the case and every trivial answer fails it."""
        return not self.dropped and not self.accepted

    @property
    def elements(self) -> int:
        """How many numbers the outputs hold."""
        return sum(y.type.size for y in self.yardsticks)

    @property
    def expected_bytes(self) -> int:
        """Bytes of the right outputs, and of how closely each element is held to them."""
        held = ((y.expected, y.slack, y.unstable) for y in self.yardsticks)
        return sum(a.nbytes for arrays in held for a in arrays if a is not None)

    @property
    def weakness(self) -> str:
        """Name a trivial answer that would pass; nothing where there is none."""
        return "".join(f"{name} would pass as output {place}" for place, name in self.accepted[:1])

    def ignores(self, place: int) -> bool:
        """Say whether an input may be taken for all zeros or all ones without being noticed."""
        is_empty = not self.case.graph.input_types[place].size
        return not is_empty and any(_passes_with(self, place, value) for value in (0, 1))

    @cached_property
    def forgiving(self) -> tuple[Yardstick, ...]:
        """The yardsticks as wide as float32 rounding demands; costs several oracle runs."""
        return forgiving(self.case.graph, self.inputs, self.yardsticks)


_Key = tuple[Case, tuple[Tolerance, ...], str]
_PREPARED: WeakValueDictionary[_Key, Reference] = WeakValueDictionary()
"""What somebody holds need not be made again: suites of one task share large cases."""


def prepare(case: Case, tolerances: Sequence[Tolerance], secret: str) -> Reference:
    """Run the float64 oracle and MLX on a case and decide what the case is worth."""
    key = (case, tuple(tolerances), secret)
    with room_for(case.work_bytes):
        known = _PREPARED.get(key)
        if known is None:
            known = _calibrated(case, case.inputs(secret), tolerances)
            if not known.dropped and not case.is_edge:
                known = _tried(known)
            _PREPARED[key] = known
        return known


def calibrate(case: Case, inputs: tuple[Array, ...], tolerances: Sequence[Tolerance]) -> Reference:
    """Run the float64 oracle and MLX on a case that need not tell right from wrong by itself."""
    with room_for(case.work_bytes):
        return _calibrated(case, inputs, tolerances)


def _calibrated(
    case: Case, inputs: tuple[Array, ...], tolerances: Sequence[Tolerance]
) -> Reference:
    try:
        expected = run_oracle(case.graph, inputs, clamp=None)
    except IndexError as e:
        # What is computed of an input need not stay within what it indexes.
        return _straying(case, inputs, tolerances, f"{OUT_OF_RANGE}: {e}")
    if case.is_edge:
        return Reference(case, inputs, _empty_yardsticks(case.graph, tolerances, expected))
    yardsticks, dropped = _calibrate(case.graph, inputs, expected, tolerances)
    return Reference(case, inputs, yardsticks, dropped)


def _straying(
    case: Case, inputs: tuple[Array, ...], tolerances: Sequence[Tolerance], reason: str
) -> Reference:
    """Hold to account what hangs on nothing that lies outside of an array, which nobody knows.

    MLX itself is not asked, for it would read there.
    """
    left = Reference(case, inputs, (), reason)
    if case.is_edge or not all(np.isfinite(a).all() for a in inputs):
        return left
    nearest = run_oracle(case.graph, inputs)
    first = run_oracle(case.graph, inputs, clamp="first")
    unknown = [_are_different(*pair) for pair in zip(nearest, first, strict=True)]
    if any(mask.all() for mask in unknown):
        return left
    yardsticks, problem = _calibrate(case.graph, inputs, nearest, tolerances, unknown)
    return left if problem else replace(left, yardsticks=yardsticks, strays=True)


def _are_different(one: Array, other: Array) -> Mask:
    both_nan = (one != one) & (other != other)
    return np.asarray((one != other) & ~both_nan)


def judge(prepared: Reference, outputs: Sequence[Array]) -> tuple[Deviation, ...]:
    """Measure each output of a candidate; the caller has checked their number."""
    strict = _measured(outputs, prepared.yardsticks)
    held = zip(strict, prepared.yardsticks, strict=True)
    if all(d.is_acceptable or not y.type.dtype.is_float for d, y in held):
        return strict
    return _measured(outputs, prepared.forgiving)


def _measured(outputs: Sequence[Array], yardsticks: Sequence[Yardstick]) -> tuple[Deviation, ...]:
    pairs = zip(outputs, yardsticks, strict=True)
    return tuple(measure(output, yardstick, keeps_error=False) for output, yardstick in pairs)


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


def run_mlx(graph: Graph, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """Return what MLX itself computes for the graph, on the CPU, with partitions in order."""
    with mx.stream(mx.cpu):
        outputs = interpret(sort_partitions(graph), *inputs)
        mx.eval(outputs)
        return tuple(to_numpy(array) for array in outputs)


def run_ops(graph: Graph, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """Return what the graph's ops give when each is exact and its result rounded to its dtype."""

    def rounded(made: Made) -> Reals:
        with np.errstate(over="ignore", invalid="ignore"):
            return made.values.astype(made.dtype.numpy).astype(np.float64)

    arrays = cast("list[Reals]", list(inputs))
    outputs = reference(graph, arrays, rounded=rounded, clamp="nearest")
    return tuple(
        _cast(array, type_) for array, type_ in zip(outputs, graph.output_types, strict=True)
    )


def _calibrate(
    graph: Graph,
    inputs: Sequence[Array],
    expected: Sequence[Array],
    tolerances: Sequence[Tolerance],
    unknown: Sequence[Mask] = (),
) -> tuple[tuple[Yardstick, ...], str]:
    """Measure MLX's own error and turn it into a bound; name the first output it fails on.

    Where elements are `unknown`, its ops as they are meant stand for MLX.
    """
    terms, nodes = accumulation_length(graph), len(graph.nodes)
    unstable = _unstable(graph, inputs, expected, tolerances)
    undefined = _unconvertible(graph, inputs, expected)
    for masks in (unknown, undefined):
        for place, mask in enumerate(masks):
            known = unstable[place]
            unstable[place] = mask if known is None else known | mask
    yardsticks, dropped = [], ""
    loosest = [
        Yardstick(type_, tolerances[place], expected[place], np.inf, 0.0, unstable[place])
        for place, type_ in enumerate(graph.output_types)
    ]
    for place, mask in enumerate(undefined):
        loosest[place] = replace(loosest[place], undefined=mask)
    own = _meant(graph, inputs, loosest) if unknown else _own(graph, inputs, loosest)
    for place, (loose, deviation) in enumerate(zip(loosest, own, strict=True)):
        type_ = loose.type
        if not dropped and _is_hopeless(deviation):
            dropped = f"MLX's own output {place} {deviation.problem}"
        floor = floor_of(type_.dtype, terms, nodes)
        factor = tolerances[place].factor
        bound = max(floor, factor * deviation.row_relative)
        slack = _slack(deviation, expected[place], type_.dtype, bound=bound, factor=factor)
        yardsticks.append(
            replace(
                loose,
                bound=bound,
                reference_error=deviation.row_relative,
                slack=slack,
                steps=tolerances[place].factor * deviation.steps if not dropped else 0.0,
            )
        )
    return tuple(yardsticks), dropped


def _own(graph: Graph, inputs: Sequence[Array], yardsticks: Sequence[Yardstick]) -> list[Deviation]:
    """Measure MLX itself; where it fails, its ops as they are meant, each rounded once.

    Its CPU backend adds halves up in halves, which loses a sum of a thousand terms: that says
    nothing about the input. What floats lose in a scan, one after the other, kernels may lose too.
    """
    outputs = run_mlx(graph, inputs)
    found = [measure(o, y) for o, y in zip(outputs, yardsticks, strict=True)]
    has_halves = any(t.dtype.is_float and t.dtype.itemsize < 4 for t in graph.types)
    has_scan = any(op_named(node.op).kind is Kind.SCAN for node in graph.nodes)
    if (has_halves or not has_scan) and any(map(_is_hopeless, found)):
        meant = _meant(graph, inputs, yardsticks)
        if not any(map(_is_hopeless, meant)):
            return meant
    return found


def _meant(
    graph: Graph, inputs: Sequence[Array], yardsticks: Sequence[Yardstick]
) -> list[Deviation]:
    outputs = run_ops(graph, inputs)
    return [measure(o, y) for o, y in zip(outputs, yardsticks, strict=True)]


def _slack(
    deviation: Deviation, expected: Array, dtype: Dtype, *, bound: float, factor: float
) -> NDArray[np.float64] | None:
    """Allow each element what MLX does to its worst one, in units of its row's size.

    An element near zero among large ones is what their cancellation leaves, and which element
    that hits is luck; the row's own bound still holds.
    """
    if deviation.error is None or expected.dtype.kind != "f":
        return None
    scale = row_scale(expected.astype(np.float64, copy=False), dtype)
    share = largest_share(deviation.error, scale)
    return for_each_element(max(bound, _LUCK * factor * share) * scale, expected.shape)


def _is_hopeless(deviation: Deviation) -> bool:
    """Say whether MLX is wrong in kind, or in more than a few elements."""
    if deviation.is_acceptable:
        return False
    if deviation.error is None:
        return not 0 < deviation.steps <= _FORGIVEN_SHARE
    return float(deviation.bad.mean()) > _FORGIVEN_SHARE


def _empty_yardsticks(
    graph: Graph, tolerances: Sequence[Tolerance], expected: Sequence[Array]
) -> tuple[Yardstick, ...]:
    return tuple(
        Yardstick(type_, tolerance, array, 0.0, 0.0)
        for type_, tolerance, array in zip(graph.output_types, tolerances, expected, strict=True)
    )


def _unstable(
    graph: Graph,
    inputs: Sequence[Array],
    expected: Sequence[Array],
    tolerances: Sequence[Tolerance],
) -> list[Mask | None]:
    """Mark elements that move a lot when inputs and results move by one rounding, behind a jump.

    So are those that hang on what an attention or a convolution multiplies by zero.
    """
    hidden = out_of_sight(graph, inputs, expected)
    if not has_jump_after_rounding(graph):
        return [None] * len(expected) if hidden is None else list(hidden)
    random = np.random.default_rng(0)
    marks = hidden or [np.zeros(e.shape, bool) for e in expected]
    for draw in range(3):

        def rounded(made: Made, seed: int = draw) -> Reals:
            return moved_alike(made, seed)

        nudged = cast("list[Reals]", [_nudged(a, random) for a in inputs])
        moved = reference(graph, nudged, rounded=rounded, clamp="nearest")
        for place, (before, after) in enumerate(zip(expected, moved, strict=True)):
            marks[place] |= _differs(before, after, tolerances[place])
    return list(marks)


def _unconvertible(graph: Graph, inputs: Sequence[Array], expected: Sequence[Array]) -> list[Mask]:
    """Mark elements that hang on a float beyond the range of the integer that it becomes.

    C++ and Metal leave that undefined: MLX cuts off bits on a CPU and saturates on a GPU. Nothing
    where no float becomes an integer.
    """
    if not any(_becomes_integer(graph, node) for node in graph.nodes):
        return []
    nearest, first = run_oracle(graph, inputs), run_oracle(graph, inputs, clamp="first")
    return [
        _are_different(own, one) | _are_different(one, other)
        for own, one, other in zip(expected, nearest, first, strict=True)
    ]


def _becomes_integer(graph: Graph, node: Node) -> bool:
    if node.op != "cast":
        return False
    made, read = graph.types[node.outputs[0]].dtype, graph.types[node.inputs[0]].dtype
    return made.is_integer and read.is_float


def _nudged(array: Array, random: np.random.Generator) -> Array:
    """Move float inputs by up to four float32 roundings, in float64 so that nothing is lost."""
    if array.dtype.name not in ("float32", "float16", "bfloat16"):
        return array
    wide = array.astype(np.float64)
    return wide * (1.0 + random.uniform(-4, 4, wide.shape) * 2.0**-24)


def _differs(before: Array, after: Array, tolerance: Tolerance) -> Mask:
    if not np.issubdtype(before.dtype, np.floating):
        return np.asarray(before != after)
    old, new = before.astype(np.float64), after.astype(np.float64)
    with np.errstate(invalid="ignore"):
        limit = tolerance.absolute + tolerance.relative * np.abs(old)
        return np.asarray(~(np.abs(old - new) <= limit) & (old != new))


def _tried(prepared: Reference) -> Reference:
    """List the trivial answers that outputs would accept.

    An output that hangs on no input has one right answer, be it trivial or not, and one of
    flags and constants has no digits to lose.
    """
    accepted, exact = list[tuple[int, str]](), set[int]()
    for place, name, answer in _trivial_answers(prepared):
        yardstick = prepared.yardsticks[place]
        right = _cast(yardstick.expected, yardstick.type) if name == COARSE else None
        if right is not None and np.array_equal(answer, right, equal_nan=True):
            exact.add(place)
        elif accepts(yardstick, answer):
            accepted.append((place, name))
    return replace(prepared, accepted=tuple(accepted), exact=frozenset(exact))


def survivors(prepared: Reference) -> frozenset[tuple[int, str]]:
    """Return the trivial answers that pass a case even as a candidate's outputs are judged.

    A candidate that misses the strict bound may still keep to the forgiving one, so what proves
    something has to break that one too.
    """
    return frozenset(
        (place, name)
        for place, name, answer in _trivial_answers(prepared)
        if accepts(prepared.forgiving[place], answer)
    )


def _trivial_answers(prepared: Reference) -> Iterator[tuple[int, str, Array]]:
    """Yield output, name and value of every answer that no case should accept."""
    graph = prepared.case.graph
    fixed, discrete = constant_outputs(graph), discrete_outputs(graph)
    coarse = run_oracle(graph, [lower_precision(a) for a in prepared.inputs])
    for place, precision in enumerate(precisions(graph)):
        if place in fixed:
            continue
        yardstick = prepared.yardsticks[place]
        for name, answer in trivial_answers(yardstick.type, yardstick.expected, prepared.inputs):
            yield place, name, answer
        if place not in discrete and has_lower_precision(precision):
            answer = lower_precision_output(coarse[place], yardstick.type, precision)
            yield place, COARSE, answer


def _passes_with(prepared: Reference, place: int, value: int) -> bool:
    inputs = list(prepared.inputs)
    inputs[place] = np.full_like(inputs[place], value)
    outputs = run_oracle(prepared.case.graph, inputs)
    return all(
        accepts(y, _cast(array, y.type))
        for array, y in zip(outputs, prepared.yardsticks, strict=True)
    )


def _cast(array: Array, type_: TensorType) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(type_.dtype.numpy)
