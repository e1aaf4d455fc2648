"""Rotary embeddings in one form: two parts of a row as sums of products, joined again."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kernelwright.ir.graph import Graph, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, rebuild
from kernelwright.ir.match.graph_source import GraphSource
from kernelwright.ir.match.rotation import Rotation, find_rotation
from kernelwright.ir.match.row_map import Element, RowMaps
from kernelwright.ir.passes.reading import ordered, same
from kernelwright.ir.passes.standard.columns import Columns
from kernelwright.ir.passes.view import reshape

_Places = TypeVar("_Places", range, tuple[Element, ...])
_SEEN_AS = frozenset({"reshape", "broadcast", "cast"})


def turn_rows(graph: Graph) -> Graph:
    """Return the graph with every rotary embedding in one form, which computes the same.

    A row is cut in both parts of its pairs, which are turned and joined again beside the places
    that stay as they are. Tables that hold a cosine and a sine for each place are cut in half where
    both halves are one; rows turned by others stay as they are written.
    """
    source = GraphSource(graph)
    maps = RowMaps(graph, source, source, is_exact=True)
    found: dict[int, Rotation] = {}
    for index, node in enumerate(graph.nodes):
        if node.op not in _SEEN_AS and (turned := find_rotation(maps, node.outputs[0])):
            found[index] = turned
    if not found:
        return graph

    def write(
        builder: GraphBuilder, index: int, number: Mapping[ValueId, ValueId]
    ) -> Sequence[ValueId]:
        node = graph.nodes[index]
        outputs = [graph.types[v] for v in node.outputs]
        if index in found:
            writer = _Writer(builder, Columns(builder, maps, number), found[index])
            if (made := writer.made(outputs[0])) is not None:
                return [made]
        return builder.add(node.op, [number[v] for v in node.inputs], outputs, node.attributes)

    return rebuild(graph, write, merge=True)


@dataclass(frozen=True)
class _Writer:
    """Writes one rotary embedding."""

    builder: GraphBuilder
    columns: Columns
    found: Rotation

    def made(self, type_: TensorType) -> ValueId | None:
        """Write the rows; None where they are turned by tables of two different halves."""
        shape = type_.shape
        axes = next(
            n for n in range(1, len(shape) + 1) if math.prod(shape[-n:]) == self.found.width
        )
        lead = shape[:-axes]
        parts = self._turned(lead)
        if parts is None:
            return None
        places, turned = range(self.found.width), self.found.turned
        before, after = places[: turned.start], places[turned.stop :]
        pieces = [
            *([self._of_x(before, lead)] if before else []),
            *self._joined(parts),
            *([self._of_x(after, lead)] if after else []),
        ]
        rows = TensorType((*lead, self.found.width), type_.dtype)
        if any(piece is None for piece in pieces):
            return None
        whole = [piece for piece in pieces if piece is not None]
        if len(whole) > 1:
            whole = list(self.builder.add("concatenate", whole, [rows], (("axis", len(lead)),)))
        return reshape(self.builder, whole[0], shape)

    def _turned(self, lead: tuple[int, ...]) -> tuple[ValueId, ValueId] | None:
        """Write both parts in the one order."""
        turned = self.found.turned
        a, b = (self._of_x(places, lead) for places in self._parts(turned))
        cosine, sine = (self._table(t, lead) for t in (self.found.cosines, self.found.sines))
        if a is None or b is None or cosine is None or sine is None:
            return None
        a_cos, b_sin, a_sin, b_cos = (
            ordered(self.builder, "multiply", part, table)
            for part, table in ((a, cosine), (b, sine), (a, sine), (b, cosine))
        )
        down = same(self.builder, "subtract", a_cos, b_sin)
        return down, ordered(self.builder, "add", a_sin, b_cos)

    def _parts(self, whole: _Places) -> tuple[_Places, _Places]:
        """Return both parts of what there is for each turned place."""
        if self.found.layout == "interleaved":
            return whole[::2], whole[1::2]
        half = len(whole) // 2
        return whole[:half], whole[half:]

    def _of_x(self, places: range, lead: tuple[int, ...]) -> ValueId | None:
        start, stop = (self.found.first + place for place in (places.start, places.stop))
        shifted = range(start, stop, places.step)
        return self.columns.of_rows(self.found.x, shifted, lead)

    def _table(self, elements: tuple[Element, ...], lead: tuple[int, ...]) -> ValueId | None:
        """Return the one table of both parts."""
        one, other = (self.columns.shown(part, lead) for part in self._parts(elements))
        return one if one == other else None

    def _joined(self, parts: tuple[ValueId, ValueId]) -> tuple[ValueId, ...]:
        """Return parts as they stand side by side in a row: one behind the other, or in turns."""
        if self.found.layout == "halves":
            return parts
        type_ = self.builder.types[parts[0]]
        lead, half = type_.shape[:-1], type_.shape[-1]
        apart = [reshape(self.builder, part, (*lead, half, 1)) for part in parts]
        wide = TensorType((*lead, half, 2), type_.dtype)
        axis = ("axis", len(lead) + 1)
        (joined,) = self.builder.add("concatenate", apart, [wide], (axis,))
        return (reshape(self.builder, joined, (*lead, 2 * half)),)
