"""Sizes of a graph's values as expressions over the shapes of its inputs."""

from collections.abc import Sequence
from dataclasses import replace

from kernelwright.ir.analysis.shape import Shapes
from kernelwright.ir.graph import Graph, Node, TensorType
from kernelwright.ir.graph.dimension import Affine, Size
from kernelwright.ir.ops import Call, op_named


class SizeText(int):
    """A size whose text is an expression, such as `x.shape[0]`."""

    text: str

    def __new__(cls, size: int, text: str) -> "SizeText":
        """Return a number with a text."""
        made = super().__new__(cls, size)
        made.text = text
        return made

    def __repr__(self) -> str:
        """Return the expression."""
        return self.text


class SizeNames:
    """Writes sizes as the inputs' own, wherever the graph ties them to those."""

    def __init__(self, graph: Graph, names: Sequence[str]) -> None:
        self._graph = graph
        self._shapes = Shapes(graph)
        self._texts: dict[int, str] = {}
        found = [
            (affine, f"{name}.shape[{axis}]")
            for value, name in zip(graph.inputs, names, strict=True)
            for axis, size in enumerate(self._shapes.resolved(value))
            if (affine := size.affine) is not None
        ]
        # An axis that is the dimension itself says more plainly what it is than a multiple of it.
        for affine, text in sorted(found, key=lambda pair: (pair[0].factor, abs(pair[0].offset))):
            self._texts.setdefault(affine.symbol, _solved(text, affine))

    def call(self, node: Node) -> Call:
        """Return a node's call, with expressions for its sizes where it spells them out."""
        plain = Call.of(self._graph, node)
        if op_named(node.op).resized is None and node.op != "full":
            return plain
        shape = self._named(node.outputs[0])
        attributes = dict(plain.attributes)
        if node.op in ("reshape", "broadcast"):
            attributes["shape"] = shape
        elif node.op == "unflatten":
            axis, rank = plain.integer("axis"), len(plain.integers("shape"))
            attributes["shape"] = shape[axis : axis + rank]
        output = TensorType(shape, plain.outputs[0].dtype)
        return replace(plain, attributes=attributes, outputs=(output, *plain.outputs[1:]))

    def _named(self, value: int) -> tuple[int, ...]:
        concrete = self._graph.types[value].shape
        sizes = self._shapes.resolved(value)
        return tuple(self._size(size, n) for size, n in zip(sizes, concrete, strict=True))

    def _size(self, size: Size, concrete: int) -> int:
        if not size.symbols or any(s not in self._texts for s in size.symbols):
            return concrete
        # Numbers stand last, as in `x.shape[0] + 1`.
        terms = sorted(size.terms, key=lambda term: (not term[0], term[1] < 0))
        signed = [("-" if n < 0 else "+", self._product(p, abs(n))) for p, n in terms]
        text = " ".join(f"{sign} {part}" for sign, part in signed).removeprefix("+ ")
        return SizeText(concrete, text)

    def _product(self, symbols: tuple[int, ...], factor: int) -> str:
        parts = [self._texts[s] for s in symbols]
        factors = [] if factor == 1 and parts else [str(factor)]
        if len(factors) + len(parts) > 1:
            parts = [f"({part})" if " " in part else part for part in parts]
        return " * ".join([*factors, *parts])


def _solved(text: str, affine: Affine) -> str:
    """Return the text of a dimension, of which an axis has a multiple and some more."""
    if affine.offset:
        sign = "-" if affine.offset > 0 else "+"
        text = f"{text} {sign} {abs(affine.offset)}"
    if affine.factor == 1:
        return text
    return f"({text}) // {affine.factor}" if affine.offset else f"{text} // {affine.factor}"
