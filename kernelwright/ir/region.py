"""A connected, convex set of nodes of a graph that one program may replace."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import cast

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.nest import Given, Leaf, Nest, Output, Setting, Tree, View, leaves, moved
from kernelwright.ir.naming.role import names_of
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.passes.standard import standardize


def _is_plain_view(node: Node) -> bool:
    is_view = op_named(node.op).kind is Kind.VIEW
    return is_view and len(node.inputs) == len(node.outputs) == 1


_standard = lru_cache(maxsize=128)(standardize)
"""Regions of a model's layers are alike, and a plan asks for each of them."""


@dataclass(frozen=True)
class Region:
    """Nodes of `graph`, by index in `graph.nodes`, in ascending order.

    Constants of one element belong to the region. Its inputs are the other values that it
    reads and does not make, captured weights among them, so that a task depends on no
    weight's values. Its outputs are the values that something outside it reads.
    """

    graph: Graph
    indices: tuple[int, ...]

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The region's nodes in topological order."""
        return tuple(self.graph.nodes[i] for i in self.indices)

    @cached_property
    def inputs(self) -> tuple[ValueId, ...]:
        """Values read and neither made here nor inlined, in order of first use."""
        made = {v for node in self.nodes for v in node.outputs}
        read = dict.fromkeys(v for node in self.nodes for v in node.inputs)
        return tuple(v for v in read if v not in made and not self._is_inlined(v))

    def _is_inlined(self, value: ValueId) -> bool:
        return value in self.graph.constant_of and self.graph.types[value].size == 1

    @cached_property
    def outputs(self) -> tuple[ValueId, ...]:
        """Values made here that the graph returns or a node outside reads."""
        inside = set(self.indices)
        returned = set(self.graph.outputs)
        return tuple(
            v
            for node in self.nodes
            for v in node.outputs
            if v in returned or any(i not in inside for i in self.graph.consumers_of[v])
        )

    def extract(self) -> Graph:
        """Return the region as a graph of its own: what a task's reference is.

        It is written in the standard form, so that kernels are shared however people write.
        Its inputs have the names that the graph's caller gave them, or those of their roles; in
        which order the caller passes them is kept beside, and so is what it gets of the outputs.
        """
        names = names_of(self.graph, self.inputs, self.nodes)
        return replace(self.standard(), names=names, turns=self._turns, results=self._results)

    def standard(self) -> Graph:
        """Return the extracted graph without what its user calls its inputs, which is quicker."""
        return _standard(self.bare())

    @property
    def _turns(self) -> tuple[int, ...]:
        """Return the places of its inputs among the graph's, what the graph makes behind them."""
        places = {value: place for place, value in enumerate(self.graph.inputs)}
        found = [places.get(value, len(places)) for value in self.inputs]
        return tuple(found) if found != sorted(found) else ()

    @property
    def _results(self) -> Tree:
        """Return what the function makes of its outputs; of some of them, those it returns first.

        What the function returns of its inputs as they are, or as views show them, goes with them.
        One result that the function returns as it is needs no word.
        """
        returned = self.graph.outputs
        every = tuple(map(Output, range(len(returned))))
        whole = self.graph.results or (every[0] if len(every) == 1 else Nest("tuple", every))
        own: dict[ValueId, Leaf] = {v: Output(place) for place, v in enumerate(self.outputs)}
        passed = {v: Given(i) for i, v in enumerate(self.inputs) if v in self.graph.inputs}
        known = {**passed, **own}
        shown = {i: leaf for i, v in enumerate(returned) if (leaf := self._shown(v, known))}
        given = tuple(leaf.place for leaf in leaves(whole))
        first = [leaf.place for leaf in shown.values() if isinstance(leaf, Output)]
        if shown.keys() >= {*given} and len({*first}) == len(own):
            result = moved(whole, shown)
            return None if result == Output(0) else result
        order = dict.fromkeys((*first, *range(len(own))))
        absent = (i for i, place in enumerate(given) if not isinstance(shown.get(place), Output))
        return Nest("part", tuple(map(Output, order)), tuple(absent))

    def _shown(self, value: ValueId, known: Mapping[ValueId, Leaf]) -> Leaf | None:
        """Return which known value a value of the graph is, or shows; None of any other value."""
        views: list[View] = []
        while value not in known:
            producer = self.graph.producer_of.get(value)
            node = None if producer is None else self.graph.nodes[producer]
            if node is None or not _is_plain_view(node):
                return None
            settings = cast("tuple[tuple[str, Setting], ...]", node.attributes)
            views.append(View(node.op, settings, self.graph.types[value].shape))
            (value,) = node.inputs
        return replace(known[value], views=tuple(reversed(views)))

    def bare(self) -> Graph:
        """Return the region as a graph of its own without names, which is quicker."""
        return self._bare

    @cached_property
    def _bare(self) -> Graph:
        number: dict[ValueId, ValueId] = {}
        constants = [
            v
            for v in dict.fromkeys(v for node in self.nodes for v in node.inputs)
            if self._is_inlined(v)
        ]
        made = [v for node in self.nodes for v in node.outputs]
        for value in (*self.inputs, *constants, *made):
            number[value] = len(number)
        return Graph(
            types=tuple(self.graph.types[v] for v in number),
            inputs=tuple(number[v] for v in self.inputs),
            constants=tuple((number[v], self.graph.constant_of[v]) for v in constants),
            nodes=tuple(
                Node(
                    node.op,
                    tuple(number[v] for v in node.inputs),
                    tuple(number[v] for v in node.outputs),
                    node.attributes,
                )
                for node in self.nodes
            ),
            outputs=tuple(number[v] for v in self.outputs),
        )
