"""What the judge tries on a task's ops, in a sentence each: no case is given away by it."""

from collections.abc import Iterator

from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Kind, op_named

_MOST = 8
_OPS = {
    "extremes": {"max", "min", "maximum", "minimum", "clip"},
    "places": {"argmax", "argmin"},
    "orders": {"sort", "argsort", "partition", "argpartition", "topk"},
    "exponentials": {"exp", "sigmoid", "tanh", "erf"},
    "totals": {"softmax", "logsumexp", "log_softmax", "logcumsumexp"},
    "poles": {"log", "log1p", "sqrt", "rsqrt", "power", "divide", "reciprocal"},
    "sums": {"sum", "mean", "var", "cumsum", "logcumsumexp", "prod"},
    "variances": {"var"},
    "halves": {"round"},
    "steps": {"round", "floor", "ceil", "remainder", "floor_divide", "sign"},
    "indices": {"gather", "take", "scatter", "scatter_add", "take_along_axis"},
    "choices": {"where", "select", "equal", "less", "greater", "logical_and"},
}
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
    "variances": """Variances: take them from differences to the mean, not from squares' mean.""",
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
    found = [subject for subject, names in _OPS.items() if ops & names]
    if "exp" in ops and ops & _ADDED_UP:
        found = list(dict.fromkeys("totals" if s == "exponentials" else s for s in found))
    yield from dict.fromkeys(found)
    if any(not t.dtype.is_float and t.dtype is not Dtype.BOOL for t in graph.input_types):
        yield "integers"
    if any(t.dtype.is_float for t in graph.input_types):
        yield "floats"
    if any(op_named(op).kind is Kind.CONTRACTION for op in ops):
        yield "products"
