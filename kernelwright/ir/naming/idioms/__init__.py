"""Naming what a graph computes: softmax, norms, activations, attention, as people know them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kernelwright.ir.graph import Graph, ValueId
from kernelwright.ir.naming.idioms import activation, attention, curve, gate, row
from kernelwright.ir.naming.idioms.reader import SPREADING, Match, Parameter, Reader


@dataclass(frozen=True)
class Idiom:
    """A computation with a name, seen in the nodes of a canonical graph.

    `indices` are the nodes from the operands to the output; they stay what they are. Operands
    are named by role (`x`, `weight`, `query` …); parameters hold axes, epsilon and the like.
    """

    name: str
    indices: tuple[int, ...]
    output: ValueId
    operands: tuple[tuple[str, ValueId], ...]
    parameters: tuple[tuple[str, Parameter], ...] = ()

    def parameter(self, name: str) -> Parameter:
        """Return one parameter; KeyError when the idiom has none of that name."""
        return dict(self.parameters)[name]


# Of two that are as wide, the first is meant.
_MATCHERS: tuple[Callable[[Reader, ValueId], Match | None], ...] = (
    attention.attention,
    gate.gate,
    row.cross_entropy,
    row.log_likelihood,
    row.norm,
    row.log_softmax,
    row.softmax,
    row.logsumexp,
    attention.rope,
    activation.activation,
    curve.glu,
    curve.element_curve,
    row.variance,
)


# Its regions' names, what is put back and its fast forms are asked for one after the other.
@lru_cache(maxsize=16)
def idioms(graph: Graph) -> tuple[Idiom, ...]:
    """List the idioms of a canonical graph, widest first where they overlap, in graph order.

    No node is in two of them.
    """
    reader = Reader(graph)
    found: list[Idiom] = []
    taken: set[int] = set()
    values = _results(reader)
    fresh = [idiom for matcher in _MATCHERS for idiom in _matches(reader, matcher, values)]
    # A matcher may see an idiom with and without its weight; the wider one is meant.
    for idiom in sorted(fresh, key=lambda idiom: -len(idiom.indices)):
        if taken.isdisjoint(idiom.indices):
            found.append(idiom)
            taken.update(idiom.indices)
    return tuple(sorted(found, key=lambda idiom: idiom.indices))


def _results(reader: Reader) -> list[ValueId]:
    """Return the values that computing makes, or a cast of them: no mere views."""
    firsts = ((node.op, node.outputs[0]) for node in reader.graph.nodes)
    return [
        value
        for op, value in firsts
        if op not in SPREADING and (op == "cast" or reader.base(value) == value)
    ]


def _matches(
    reader: Reader, matcher: Callable[[Reader, ValueId], Match | None], values: Sequence[ValueId]
) -> list[Idiom]:
    result = []
    for value in values:
        match = matcher(reader, value)
        if match is None:
            continue
        indices = reader.covered(value, list(match.operands.values()))
        if indices:
            result.append(
                Idiom(
                    match.name,
                    indices,
                    value,
                    tuple(match.operands.items()),
                    tuple(match.parameters.items()),
                )
            )
    return result


__all__ = ["Idiom", "idioms"]
