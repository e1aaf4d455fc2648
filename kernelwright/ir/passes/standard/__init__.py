"""One way to write what people write in many: the same real function, not the same bits."""

from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.builder import Rule, rewrite
from kernelwright.ir.passes import fold, mean, quantization, view
from kernelwright.ir.passes.duplicate import split_views
from kernelwright.ir.passes.standard import algebra, choice, product, sign, slicing, softmax
from kernelwright.ir.passes.standard.rope import turn_rows

_RULES: tuple[Rule, ...] = (
    *fold.RULES,
    *slicing.VIEWS,
    *view.RULES,
    *mean.RULES,
    *quantization.RULES,
    *algebra.RULES,
    *sign.RULES,
    *choice.RULES,
    *softmax.RULES,
    *product.RULES,
    *slicing.RULES,
    *algebra.ORDER,
)
_MOST_SWEEPS = 16
"""Sweeps until nothing changes are two or three; no rule may keep a search from starting."""


def standardize(graph: Graph) -> Graph:
    """Return the graph that stands for all safe ways to write the same real function.

    Where `canonicalize` keeps every bit, this keeps the function and its accuracy: the result
    overflows nowhere that the graph does not, rounds no more coarsely, and is NaN or infinite where
    the graph is, for infinite and undefined inputs too, but for a log-softmax, whose rows with an
    infinity are NaN. What is rounded to which dtype stays, and
    so does what is written unsafely: an exponential without its shift, a variance as a difference
    of squares, a logarithm of a softmax.
    """
    for sweep in range(_MOST_SWEEPS):
        simpler = rewrite(graph, _RULES, merge=True)
        if sweep and simpler == graph:
            # Its rotary embeddings have been looked for.
            break
        turned = turn_rows(simpler)
        if turned == graph:
            break
        graph = turned
    return split_views(graph)


__all__ = ["standardize"]
