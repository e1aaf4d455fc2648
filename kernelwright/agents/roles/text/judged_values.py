"""What the judge tries on a task's ops, in a sentence each: no case is given away by it."""

from collections.abc import Callable, Iterator

from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Kind, Op, op_named
from kernelwright.ir.ops.behaviour import Domain

_MOST = 8
_IS_SUBJECT: dict[str, Callable[[Op], bool]] = {
    "extremes": lambda op: op.behaviour.is_extreme,
    "places": lambda op: op.behaviour.makes_places and op.kind is Kind.REDUCTION,
    "orders": lambda op: op.kind is Kind.SORT,
    "exponentials": lambda op: op.name in ("exp", "sigmoid", "tanh", "erf"),
    "totals": lambda op: op.name in ("softmax", "logsumexp", "logcumsumexp"),
    "poles": lambda op: (
        Domain.POSITIVE in op.behaviour.domains
        or op.behaviour.divides
        or op.name in ("log1p", "power")
    ),
    "sums": lambda op: op.behaviour.accumulates,
    "halves": lambda op: op.name == "round",
    "steps": lambda op: (
        op.kind is Kind.ELEMENTWISE
        and not op.behaviour.makes_bool
        and (bool(op.behaviour.steps) or not op.behaviour.is_continuous)
    ),
    "indices": lambda op: Domain.INDEX in op.behaviour.domains,
    "choices": lambda op: op.behaviour.chooses or op.behaviour.compares,
}
"""Which ops a sentence is about, by what their records say."""
_ADDED_UP = {"sum", "mean", "cumsum"}
_SENTENCES = {
    "extremes": """Maxima and minima: a NaN anywhere gives NaN; rows of infinities alone and of
        equal values occur; start from an infinity, or from the first element.""",
    "places": """argmax, argmin: the place is exact; among equal values the first one wins, and the
        first NaN wins over every number.""",
    "orders": """Orders: ties occur, and argsort names the earlier place first; NaN comes last, and
        zeros of both signs keep their sign.""",
    "exponentials": """Exponentials: arguments of some hundreds and infinities occur; what is too
        large becomes an infinity, and what is too small 0.""",
    "totals": """Sums of exponentials: arguments of some hundreds and infinities occur; subtract a
        row's maximum first; a row of -inf gives what MLX makes of it, and a part of a row may be
        -inf where the row is not.""",
    "poles": """Zeros, negative and denormal arguments occur: infinities and NaN are kept as IEEE
        has them.""",
    "sums": """Sums: values far from zero with small differences occur; accumulate floats in float,
        integers in their own type.""",
    "halves": """round: halves go to the even neighbour.""",
    "steps": """Steps: whole numbers and both zeros are hit exactly.""",
    "indices": """Indices are within their axis, repeat, and come in any order.""",
    "choices": """Choices: what is not chosen may be NaN or infinite, and must not show.""",
    "integers": """Integers cover their whole range and wrap as MLX's do.""",
    "floats": """Floats: rows with NaN, infinities, zeros of either sign and tiny values occur
        among others.""",
    "products": """Products are summed in float, in any order that keeps the sum's accuracy.""",
}


_OF_INTEGERS = {
    "extremes": """Maxima and minima: rows of equal values occur; start from the first element.""",
    "places": """argmax, argmin: the place is exact; among equal values the first one wins.""",
    "orders": """Orders: ties occur, and argsort names the earlier place first.""",
    "sums": """Sums: add in the type of the sum, which wraps.""",
    "choices": "",
    "products": """Products are summed in their own type, which wraps.""",
}
"""What holds instead where a graph has no floats."""


def judged_sentences(graph: Graph) -> tuple[str, ...]:
    """Return a sentence for each kind of op that a graph holds."""
    has_floats = any(type_.dtype.is_float for type_ in graph.types)
    sentences = _SENTENCES if has_floats else _SENTENCES | _OF_INTEGERS
    found = (" ".join(sentences[subject].split()) for subject in _subjects(graph))
    return tuple(filter(None, found))[:_MOST]


def _subjects(graph: Graph) -> Iterator[str]:
    ops = {node.op for node in graph.nodes}
    records = [op_named(op) for op in ops]
    found = [subject for subject, is_about in _IS_SUBJECT.items() if any(map(is_about, records))]
    if "exp" in ops and ops & _ADDED_UP:
        found = list(dict.fromkeys("totals" if s == "exponentials" else s for s in found))
    yield from dict.fromkeys(found)
    if any(not t.dtype.is_float and t.dtype is not Dtype.BOOL for t in graph.input_types):
        yield "integers"
    if any(t.dtype.is_float for t in graph.input_types):
        yield "floats"
    if any(op_named(op).kind is Kind.CONTRACTION for op in ops):
        yield "products"
