"""What values an input may take, read off the operations that consume it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernelwright.evaluator.inputs.interval import (
    compares,
    is_matched,
    known_numbers,
    only_moves,
    span_of,
)
from kernelwright.evaluator.inputs.wrapping import avoids_least, may_be_anything
from kernelwright.ir.analysis.continuity import is_discontinuous
from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.graph.kept import kept_with_graph
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.ir.ops import Domain as Needed

_MOST_LANDMARKS = 8
_FARTHEST_LANDMARK = 1e6
"""What masks are compared with, as -1e9, drowns whatever else is added up."""


_SCALES = {"mxfp4": (122, 129), "mxfp8": (122, 129), "nvfp4": (0x28, 0x47)}
"""Bytes of scales about one: exponents, or eight-bit floats; beyond them everything overflows."""
_EIGHT_BIT_NAN = 0x40404040
"""The highest bit of each exponent of four eight-bit floats."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The range of one input.

    `index_limit` bounds indices and shifts, `is_positive` keeps logs defined, `is_divisor` keeps
    integer divisions so, and `is_packed` asks for every bit of an integer: a small number would
    leave all but the first packed digits zero. Integers `is_of_any_size` are no matter of bits or
    places: sums of them exceed 16 bits. `landmarks` are the numbers that the input is compared
    with, where `<` and `<=` part, or at which it is rounded the other way.
    """

    index_limit: int | None = None
    is_bounded_below: bool = False
    is_bounded_above: bool = False
    """The task bounds indices itself on that side, so that they may lie beyond."""
    is_target: bool = False
    """What the indices name is written, added to or multiplied, as segments and experts are, so
    that one which none of them names is a case of its own."""
    is_positive: bool = False
    is_share: bool = False
    """A logarithm is taken of its negated logarithm, as of uniform noise: it is below one."""
    is_divisor: bool = False
    is_packed: bool = False
    is_of_any_size: bool = False
    levels: tuple[int, int] | None = None
    """The smallest and the largest value of a byte that stands for a scale."""
    unset: int = 0
    """Bits that no packed word has: digits that are floats would be NaN."""
    landmarks: tuple[float, ...] = ()
    span: tuple[int, int] | None = None
    """Between which integers are told apart by the numbers that they, or what is added to them,
    are compared with: a length or an offset among positions. All beyond are alike."""
    is_matched: bool = False
    """Integers are compared for equality with others that are drawn, as those of segments."""
    is_summed: bool = False
    """Squares and products of the input are added up, so that its largest numbers would overflow
    in one order of computation and not in another."""
    is_whole_range: bool = False
    """The integers may lie anywhere: what reads them chooses among them, or wraps around."""
    avoids_least: bool = False
    """The integers are divided by what may be minus one: of the least, nobody knows the result."""


@kept_with_graph
def domains_of(graph: Graph) -> tuple[Domain, ...]:
    """Return one domain per input of the graph."""
    return tuple(_domain(graph, value) for value in graph.inputs)


@dataclass(frozen=True, slots=True)
class _Use:
    """Where an input is read: the node, and the place among what that reads."""

    node: Node
    place: int
    is_guarded: bool
    """A selection or a bound stands before it, so that the input itself may be beyond."""
    least: float = -math.inf
    greatest: float = math.inf
    """Where constant bounds keep what is read."""


def _domain(graph: Graph, value: ValueId) -> Domain:
    uses = tuple(_uses(graph, value))
    limits = [_limit_of(graph, use) for use in uses]
    known = [limit for limit in limits if limit is not None]
    modes = [(str(u.node.attribute("mode")), u.place) for u in uses if u.node.has("mode")]
    levels = [_SCALES[mode] for mode, place in modes if place == 2 and mode in _SCALES]
    is_integer = graph.types[value].dtype.is_integer
    is_index = is_integer and _becomes_index(graph, value)
    is_packed = any(_domain_at(use.node, use.place) is Needed.PACKED for use in uses)
    # A mask of the lower bits changes no number that has only those.
    is_packed |= is_integer and not is_index and any(_is_bitwise(use.node) for use in uses)
    is_positive = any(_needs_positive(graph, use.node) for use in uses)
    landmarks = _landmarks(graph, uses, limits)
    return Domain(
        index_limit=min(known) if known else None,
        is_bounded_below=bool(known) and all(_is_bounded(uses, limits, above=False)),
        is_bounded_above=bool(known) and all(_is_bounded(uses, limits, above=True)),
        is_target=bool(known) and any(_names_target(use.node) for use in uses),
        is_positive=is_positive,
        is_share=any(_is_share(graph, use.node) for use in uses),
        is_divisor=any(_divides(graph, use) and not use.is_guarded for use in uses),
        is_packed=is_packed,
        is_of_any_size=is_integer and not (known or levels or is_packed or is_index),
        levels=levels[-1] if levels else None,
        unset=_EIGHT_BIT_NAN if ("mxfp8", 1) in modes else 0,
        landmarks=tuple(c for c in landmarks if not is_positive or c > 0),
        span=span_of(graph, value) if is_integer else None,
        is_matched=is_integer and is_matched(graph, value),
        is_summed=not is_integer and is_summed(graph, value),
        is_whole_range=is_integer and not (known or is_index) and may_be_anything(graph, value),
        avoids_least=is_integer and avoids_least(graph, value),
    )


def _is_bounded(
    uses: Sequence[_Use], limits: Sequence[int | None], *, above: bool
) -> Iterator[bool]:
    """Say of each use as an index if a constant keeps it from leaving the array on a side."""
    for use, limit in zip(uses, limits, strict=True):
        if limit is not None:
            yield use.greatest < limit if above else use.least >= 0


def is_summed(graph: Graph, value: ValueId) -> bool:
    """Say whether what becomes of a value may overflow on the way to a result that does not.

    So do sums and products of matrices, and products that are added, or divided by, afterwards.
    """
    made, products = {value}, set[ValueId]()
    for node in graph.nodes:
        if not made.intersection(node.inputs):
            continue
        op = op_named(node.op)
        if op.behaviour.accumulates or op.kind is Kind.CONTRACTION:
            return True
        if op.behaviour.joins and products.intersection(node.inputs):
            return True
        if op.behaviour.is_bounded:
            continue
        floats = [v for v in node.outputs if graph.types[v].dtype.is_float]
        made.update(floats)
        varies = sum(v not in graph.constant_of for v in node.inputs) > 1
        is_product = op.behaviour.is_power or (op.behaviour.annihilates and varies)
        if is_product or products.intersection(node.inputs):
            products.update(floats)
    return False


def _limit_of(graph: Graph, use: _Use) -> int | None:
    operand = graph.types[use.node.inputs[use.place]].dtype
    needed = _domain_at(use.node, use.place)
    if needed is Needed.SHIFT:
        return 8 * operand.itemsize
    is_index = needed is Needed.INDEX and operand.is_integer
    return _limit(graph, use.node, use.place) if is_index else None


def _names_target(node: Node) -> bool:
    op = op_named(node.op)
    return op.joins_at_indices or op.kind is Kind.CONTRACTION


def _divides(graph: Graph, use: _Use) -> bool:
    is_divisor = _domain_at(use.node, use.place) is Needed.DIVISOR
    return is_divisor and graph.types[use.node.inputs[1]].dtype.is_integer


def _landmarks(
    graph: Graph, uses: Sequence[_Use], limits: Sequence[int | None]
) -> tuple[float, ...]:
    """Return the constants that comparisons hold an input against, and where it jumps.

    What indexes or divides as it comes takes those only with which it may.
    """
    found = {c for use in uses for c in _compared_with(graph, use)}
    for use, limit in zip(uses, limits, strict=True):
        if limit is not None and not use.is_guarded:
            found = {c for c in found if 0 <= c < limit}
        if _divides(graph, use) and not use.is_guarded:
            found.discard(0)
    return tuple(sorted(found))


def _compared_with(graph: Graph, use: _Use) -> Iterator[float]:
    if compares(use.node):
        yield from _constants(graph, use.node.inputs[1 - use.place])
    yield from op_named(use.node.op).behaviour.steps
    slopes = op_named(use.node.op).behaviour.slopes
    if len(slopes) == 2:
        # A sum that meets its constant leaves zero, and what follows divides by it or takes a log.
        factor = -slopes[1 - use.place] / slopes[use.place]
        yield from (factor * c for c in _lone_constant(graph, use.node.inputs[1 - use.place]))
    if _keeps_size(use.node):
        made = use.node.outputs[0]
        for node in (graph.nodes[index] for index in graph.consumers_of[made]):
            if compares(node):
                other = node.inputs[1 - node.inputs.index(made)]
                yield from (sign * c for c in _constants(graph, other) for sign in (1, -1))


def _keeps_size(node: Node) -> bool:
    """Say whether a node's result is its one operand but for the sign."""
    behaviour = op_named(node.op).behaviour
    return behaviour.picks and len(node.inputs) == 1 and not behaviour.converts


def _constants(graph: Graph, value: ValueId) -> Iterator[float]:
    """Yield some of the finite numbers that a value holds, if it is a constant."""
    known = known_numbers(graph, value)
    if known is None or known.dtype.kind == "c":
        return
    numbers = np.unique(known.astype(np.float64))
    if known.dtype.kind not in "iub":
        numbers = numbers[np.abs(numbers) <= _FARTHEST_LANDMARK]
    places = np.linspace(0, len(numbers) - 1, min(len(numbers), _MOST_LANDMARKS))
    yield from numbers[places.astype(int)].tolist()


def _lone_constant(graph: Graph, value: ValueId) -> Iterator[float]:
    """Yield the one number of a value that is one, unless masks are made of it."""
    known = known_numbers(graph, value)
    if known is not None and known.size and known.dtype.kind != "c" and np.unique(known).size == 1:
        number = float(np.asarray(known).reshape(-1)[0])
        if np.isfinite(number) and abs(number) <= _FARTHEST_LANDMARK:
            yield number


def _becomes_index(graph: Graph, value: ValueId) -> bool:
    """Say whether an index is computed of a value."""
    made = {value}
    for node in graph.nodes:
        places = range(len(node.inputs))
        if any(node.inputs[p] in made and _domain_at(node, p) is Needed.INDEX for p in places):
            return True
        if made.intersection(node.inputs):
            made.update(node.outputs)
    return False


def _needs_positive(graph: Graph, node: Node) -> bool:
    """Say whether a node takes a logarithm or a root of what it reads, or of its sum or mean."""
    found = _behind_sums(graph, node)
    return found is not None and _domain_at(found, 0) is Needed.POSITIVE


def _is_share(graph: Graph, node: Node) -> bool:
    """Say whether a node takes a logarithm whose negative must be positive, as Gumbel noise is."""
    found = _behind_sums(graph, node)
    if found is None or not _needs_positive(graph, found):
        return False
    return any(
        op_named(negated.op).behaviour.slopes == (-1.0,)
        and any(_needs_positive(graph, n) for n in _readers(graph, negated))
        for negated in _readers(graph, found)
    )


def _readers(graph: Graph, node: Node) -> list[Node]:
    return [graph.nodes[index] for index in graph.consumers_of[node.outputs[0]]]


def _behind_sums(graph: Graph, node: Node) -> Node | None:
    """Return what alone reads a sum or mean, such as one of a node's operand and a constant."""
    while op_named(node.op).behaviour.keeps_sign:
        others = [v for v in node.inputs[1:] if not _is_positive_constant(graph, v)]
        readers = graph.consumers_of[node.outputs[0]]
        if others or len(readers) != 1:
            return None
        node = graph.nodes[readers[0]]
        while only_moves(node) and len(graph.consumers_of[node.outputs[0]]) == 1:
            node = graph.nodes[graph.consumers_of[node.outputs[0]][0]]
    return node


def _is_positive_constant(graph: Graph, value: ValueId) -> bool:
    known = known_numbers(graph, value)
    return known is not None and bool((known.astype(float) > 0).all())


def _is_bitwise(node: Node) -> bool:
    return op_named(node.op).behaviour.is_bitwise


def _domain_at(node: Node, place: int) -> Needed:
    """Return what an operand of a node has to be."""
    return op_named(node.op).behaviour.domain(place, len(node.inputs))


def _limit(graph: Graph, node: Node, place: int) -> int:
    """Count the places that an index input may name, or where a window may start.

    One limit stands for the starts along all axes: that of the axis with the fewest places.
    """
    ranges = op_named(node.op).index_ranges
    assert ranges is not None, node.op
    return min(ranges(Call.of(graph, node))[place].highest) + 1


def _uses(graph: Graph, value: ValueId) -> Iterator[_Use]:
    """Yield each use, looking through what only passes it on or bounds it."""
    waiting, seen = [_Passed(value)], {value}
    while waiting:
        passed = waiting.pop()
        current = passed.value
        for index in graph.consumers_of[current]:
            node = graph.nodes[index]
            for place in (i for i, operand in enumerate(node.inputs) if operand == current):
                yield _Use(node, place, passed.is_guarded, passed.least, passed.greatest)
            guards = _guards(graph, node, current)
            for output in node.outputs if guards or only_moves(node) else ():
                if output not in seen:
                    seen.add(output)
                    waiting.append(passed.through(graph, node, output, guards=guards))


@dataclass(frozen=True, slots=True)
class _Passed:
    """An input, or what became of it behind selections and bounds."""

    value: ValueId
    is_guarded: bool = False
    least: float = -math.inf
    greatest: float = math.inf

    def through(self, graph: Graph, node: Node, output: ValueId, *, guards: bool) -> "_Passed":
        """Follow the value through a node that passes it on or bounds it."""
        least, greatest = self.least, self.greatest
        op = op_named(node.op)
        if guards and op.behaviour.is_extreme and op.meaning is not None:
            call = Call.of(graph, node)
            others = (known_numbers(graph, v) for v in node.inputs if v != self.value)
            for known in (k for k in others if k is not None and k.size):
                ends = np.array([least, greatest]), np.array([known.min(), known.max()], float)
                least, greatest = map(float, np.asarray(op.meaning(call, *ends)))
        return _Passed(output, self.is_guarded or guards, least, greatest)


def _guards(graph: Graph, node: Node, value: ValueId) -> bool:
    """Say whether an integer may pass, or a bound instead; of floats both arms must be seen."""
    if not graph.types[value].dtype.is_integer:
        return False
    op = op_named(node.op)
    bounds = op.kind is Kind.ELEMENTWISE and op.behaviour.is_extreme
    return bounds or (op.behaviour.chooses and value in node.inputs[1:])


def accumulation_length(graph: Graph) -> int:
    """Return the largest number of terms that one output element of any node sums up."""
    return max((_terms(graph, node) for node in graph.nodes), default=1)


def _terms(graph: Graph, node: Node) -> int:
    kind = op_named(node.op).kind
    if kind not in (Kind.REDUCTION, Kind.SCAN, Kind.CONTRACTION):
        return 1
    first, made = graph.types[node.inputs[0]], graph.types[node.outputs[0]]
    if kind is Kind.REDUCTION and made.size < first.size:
        return first.size // max(1, made.size)
    return max((*first.shape[-1:], 1))


def has_jump_after_rounding(graph: Graph) -> bool:
    """Say whether a discontinuous op reads computed values, so that one rounding may flip it."""
    exact = set(graph.inputs) | set(graph.constant_of)
    for node in graph.nodes:
        reads_exact = all(v in exact for v in node.inputs)
        if is_discontinuous(graph, node) and not reads_exact:
            return True
        if reads_exact and only_moves(node) and not _narrows(graph, node):
            exact.update(node.outputs)
    return False


def _narrows(graph: Graph, node: Node) -> bool:
    """A cast that may round; widening half to float does not."""
    before, after = graph.types[node.inputs[0]].dtype, graph.types[node.outputs[0]].dtype
    return after is not before and not (before.is_float and after is Dtype.FLOAT32)
