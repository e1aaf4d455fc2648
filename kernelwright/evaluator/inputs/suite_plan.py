"""Which cases a suite holds: every kind of data, in rows of one case where the shape is large."""

from collections.abc import Iterator, Sequence

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.boundary import boundaries_of
from kernelwright.evaluator.inputs.case import Case, floats_by_size, masked_inputs
from kernelwright.evaluator.inputs.distribution import ROTATED, Distribution
from kernelwright.evaluator.inputs.independence import weighted_input
from kernelwright.evaluator.inputs.layout import Layout
from kernelwright.evaluator.inputs.literals import is_special
from kernelwright.evaluator.inputs.lone import lone_parts
from kernelwright.evaluator.inputs.mixed import MixedPlan, plan_of
from kernelwright.evaluator.inputs.structures.placing import structure_plan
from kernelwright.evaluator.inputs.value_domain import accumulation_length
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Kind, Op, op_named

_MOST_PARTS = 4
"""Mixed cases of a small shape with few rows."""
_MOST_MIXED_ELEMENTS = 1 << 22
"""Of the mixed cases of a larger shape with few rows together; two there are in any case."""
_MOST_SIZED_ELEMENTS = 1 << 15
"""Of a shape that one program's text asks for, which has rows of all kinds besides."""
_MOST_ROTATED_INPUTS = 4
"""Further float inputs that take each rotated kind in a case of their own."""
_LEAST_SUM, _LONG_SUM, _LONG_PRODUCT = 1 << 5, 1 << 14, 1 << 12
_ENDS = (Distribution.BESIDE_NAN, Distribution.NEAR_ENDS)
"""Kinds of which a few rows leave much to luck."""
_JOINED = (Distribution.MASKED, Distribution.SPECIAL, Distribution.DISTANT, *_ENDS)
"""Whole cases of a large shape of which no rows stand apart."""
_FEW_EVENT_ROWS = 256
"""So few rows hold each kind of event in a handful."""
_FEW_ROWS = 16
"""So few rows leave most kinds out."""
HIDDEN_DISTRIBUTIONS = (
    *(Distribution.NORMAL, Distribution.WIDE, Distribution.OFFSET),
    *(Distribution.MASKED, Distribution.TIED),
)
"""Kinds on which programs are timed that nobody has seen."""
_OFF_GRID = (
    *(Distribution.MIXED, Distribution.SPECIAL, Distribution.MASKED, Distribution.WIDE),
    *(Distribution.TIED, Distribution.OFFSET, Distribution.CONSTANT, Distribution.EXTREME),
    *(Distribution.PAIRED, Distribution.ZERO, Distribution.INFINITE, Distribution.SENTINEL),
    *(Distribution.STRUCTURED, Distribution.BESIDE_NAN, Distribution.NEAR_ENDS),
)
"""Kinds of further shapes, in turn, beside an ordinary case each."""


def visible_cases(
    graph: Graph, others: Sequence[Graph], config: EvaluatorConfig
) -> tuple[Case, ...]:
    """List the cases of the task's own graph and of further graphs of the same function."""
    own = list(_own_cases(graph, config, has_others=bool(others)))
    if is_large(graph, config) and others:
        # What is odd about layouts shows as well where it takes a hundredth of the time.
        own += [*_other_cases(others), *_layouts(_largest(others, config))]
    else:
        own += _other_cases(others)
    return tuple(own)


def hidden_cases(
    graph: Graph, others: Sequence[Graph], config: EvaluatorConfig
) -> tuple[Case, ...]:
    """List cases as strong as the visible ones, drawn by another secret."""
    cases = (*_own_cases(graph, config, has_others=bool(others)), *_hidden_others(others))
    dense = [c for c in cases if c.layout is Layout.DENSE]
    parts = sum(c.distribution is Distribution.MIXED and c.graph is graph for c in dense)
    return tuple(_hidden(case, parts) for case in dense)


def _hidden(case: Case, parts: int) -> Case:
    """Return a case that nobody sees; where rows are few, they hold the next kinds."""
    part = case.part + parts if case.distribution is Distribution.MIXED else case.part
    return Case(case.graph, case.distribution, part=part, is_hidden=True)


def literal_cases(
    graph: Graph,
    others: Sequence[Graph],
    sized: Sequence[Graph],
    literals: tuple[float, ...],
    config: EvaluatorConfig,
) -> tuple[Case, ...]:
    """List the cases of one program's own numbers, at the largest shape that costs little.

    Where none does, that is the smallest.
    """
    cases = [case for g in sized for case in _sized_cases(g)]
    served = (graph, *others)
    small = [g for g in served if g.element_count <= config.case_elements]
    by_size = max if small else min
    chosen = by_size(small or served, key=lambda g: g.element_count)
    if literals and (small or is_special(literals)):
        cases.append(Case(chosen, Distribution.LITERALS, literals=literals))
    return tuple(cases)


def _sized_cases(graph: Graph) -> Iterator[Case]:
    """Yield the cases of a size of the text: what is left of a row there may decide alone."""
    yield Case(graph, Distribution.NORMAL, part=1)
    if lone_parts(graph):
        yield Case(graph, Distribution.LONE)
    if graph.element_count <= _MOST_SIZED_ELEMENTS:
        yield Case(graph, Distribution.MIXED)


def _own_cases(graph: Graph, config: EvaluatorConfig, *, has_others: bool) -> Iterator[Case]:
    if graph.element_count <= config.case_elements and not is_large(graph, config):
        yield from small_cases(graph)
        yield from _layouts(graph)
        return
    yield Case(graph, Distribution.MIXED)
    plan = plan_of(graph)
    if is_large(graph, config) and has_others:
        return
    # Without smaller shapes, everything has to show here.
    rotated = () if has_others else _unreached(graph, plan)
    is_thin = plan.count < _FEW_EVENT_ROWS and not is_large(graph, config)
    kinds = (_ENDS if is_thin else ()) if plan.at_once else _JOINED
    yield from (Case(graph, kind) for kind in kinds)
    if _decides_for_all(graph, plan):
        yield Case(graph, Distribution.FAINT)
    if weighted_input(graph) is not None:
        yield Case(graph, Distribution.FADING)
    yield from (Case(graph, Distribution.SPECIAL, part=part) for part in rotated)
    if not is_large(graph, config):
        most = min(plan.parts_of_all, max(_MOST_MIXED_ELEMENTS // graph.element_count, 2))
        yield from (Case(graph, Distribution.MIXED, part=part) for part in range(1, most))
    if not is_large(graph, config):
        yield from _lone_cases(graph)
        yield Case(graph, Distribution.STRUCTURED)
    last = _summed_kind(graph)
    if boundaries_of(graph) and last is not Distribution.BOUNDARY:
        yield Case(graph, Distribution.BOUNDARY)
    yield Case(graph, last, Layout.VARIED)


def _summed_kind(graph: Graph) -> Distribution:
    """Return what shows most of a large task's sums, ordinary data where these are short."""
    if _joins_many(graph):
        return Distribution.SIGNS
    has_products = any(op_named(node.op).kind is Kind.CONTRACTION for node in graph.nodes)
    if has_products and accumulation_length(graph) >= _LONG_PRODUCT:
        return Distribution.CUT
    return Distribution.BOUNDARY if boundaries_of(graph) else Distribution.NORMAL


def _joins_many(graph: Graph) -> bool:
    """Say whether sums are so long that the bound of ordinary ones hides a term."""
    read = [(Call.of(graph, node), op_named(node.op)) for node in graph.nodes]
    return any(
        call.inputs[place].size >= _LONG_SUM * call.outputs[0].size
        for call, op in read
        for place in _added_up(op)
        if call.inputs[place].dtype is not Dtype.BOOL
    )


def _decides_for_all(graph: Graph, plan: MixedPlan) -> bool:
    """Say whether a task joins its rows, of which no case holds all kinds, and then compares."""
    joins = any(op_named(node.op).kind is Kind.REDUCTION for node in graph.nodes)
    is_deciding = any(_is_deciding(op_named(node.op)) for node in graph.nodes)
    return joins and is_deciding and plan.count < _FEW_ROWS


def _is_deciding(op: Op) -> bool:
    """Say whether an op compares numbers, or chooses between them."""
    does = op.behaviour
    return op.kind is Kind.ELEMENTWISE and (does.compares or does.chooses or does.is_extreme)


def _added_up(op: Op) -> tuple[int, ...]:
    """Return which operand of an op, if any, holds the terms of sums."""
    if op.joins_at_indices:
        return (-1,)
    is_long = op.kind is Kind.REDUCTION and op.behaviour.accumulates
    return (0,) if is_long and not op.behaviour.absorbs else ()


def _unreached(graph: Graph, plan: MixedPlan) -> tuple[int, ...]:
    """Return which turn gives a special kind to an input that a mixed case leaves ordinary."""
    by_size = floats_by_size(graph.input_types)
    return tuple(turn for turn, place in enumerate(by_size) if plan.is_ordinary(place))[:1]


def small_cases(graph: Graph) -> Iterator[Case]:
    """Yield whole cases of every kind, the special ones for every float input, and mixed ones."""
    types = graph.input_types
    left_out = {Distribution.LITERALS, Distribution.LONE}
    if not _decides_for_all(graph, plan_of(graph)):
        left_out.add(Distribution.FAINT)
    if not _joins_many(graph):
        left_out.add(Distribution.SIGNS)
    if not boundaries_of(graph):
        left_out.add(Distribution.BOUNDARY)
    if accumulation_length(graph) < _LEAST_SUM:
        left_out.add(Distribution.CUT)
    if weighted_input(graph) is None:
        left_out.add(Distribution.FADING)
    floats = floats_by_size(types)
    if not masked_inputs(types):
        left_out.add(Distribution.BEHIND_MASK)
    if len({types[i] for i in floats}) == len(floats):
        left_out.add(Distribution.PAIRED)
    yield from (Case(graph, kind) for kind in Distribution if kind not in left_out)
    yield from (Case(graph, Distribution.STRUCTURED, part=part) for part in _structured(graph))
    if Distribution.FADING not in left_out:
        # Few queries may all see the large values well, or none of them.
        yield Case(graph, Distribution.FADING, part=1)
    for part in range(1, min(plan_of(graph).parts, _MOST_PARTS)):
        yield Case(graph, Distribution.MIXED, part=part)
    yield from _lone_cases(graph)
    for part in range(1, min(len(floats), 1 + _MOST_ROTATED_INPUTS)):
        yield from (Case(graph, kind, part=part) for kind in ROTATED)


def _structured(graph: Graph) -> range:
    """Return the parts beside the first."""
    return range(1, structure_plan(graph).parts)


def _lone_cases(graph: Graph) -> Iterator[Case]:
    yield from (Case(graph, Distribution.LONE, part=part) for part in range(lone_parts(graph)))


def _layouts(graph: Graph) -> Iterator[Case]:
    for layout in (Layout.STRIDED, Layout.BROADCAST, Layout.VARIED):
        yield Case(graph, Distribution.NORMAL, layout)


def _largest(graphs: Sequence[Graph], config: EvaluatorConfig) -> Graph:
    """Return the largest that is not large itself."""
    small = [g for g in graphs if not is_large(g, config)]
    return max(small or graphs, key=lambda g: g.element_count)


def is_large(graph: Graph, config: EvaluatorConfig) -> bool:
    """Say whether a case of the graph takes gigabytes and the better part of a minute."""
    return graph.element_count > config.large_elements


def _other_cases(graphs: Sequence[Graph]) -> Iterator[Case]:
    """Give each further shape an ordinary case and one other kind, in turn."""
    for place, graph in enumerate(graphs):
        yield Case(graph, Distribution.NORMAL)
        yield Case(graph, _OFF_GRID[place % len(_OFF_GRID)])
        if place == 0 and _decides_for_all(graph, plan_of(graph)):
            yield Case(graph, Distribution.FAINT)
        if place == 0 and boundaries_of(graph):
            yield Case(graph, Distribution.BOUNDARY)


def _hidden_others(graphs: Sequence[Graph]) -> Iterator[Case]:
    """Give each hidden shape one mixed case: all its kinds at once, each part in turn."""
    for place, graph in enumerate(graphs):
        is_whole = place % 2 and plan_of(graph).at_once < len(_OFF_GRID)
        kind = _OFF_GRID[place % len(_OFF_GRID)] if is_whole else Distribution.MIXED
        yield Case(graph, kind, part=0 if is_whole else place)
