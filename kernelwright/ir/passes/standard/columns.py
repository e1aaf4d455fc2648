"""Some columns of a value, written from what is joined, repeated or computed to make it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelwright.ir.graph import TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder
from kernelwright.ir.match.placement import Placement, View, broadcast_placement
from kernelwright.ir.match.row_map import Element, RowMaps, Sum
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.passes.reading import filled, same
from kernelwright.ir.passes.standard.slicing import cut_last_axis
from kernelwright.ir.passes.view import broadcast, reshape

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Columns:
    """Writes columns of the values of a graph, whose maps are read, in another."""

    builder: GraphBuilder
    maps: RowMaps
    number: Mapping[ValueId, ValueId]
    """What stands for the graph's values."""

    def shown(self, elements: Sequence[Element], lead: Shape) -> ValueId | None:
        """Write elements of the rows of one view, even steps apart, as an array of leading axes.

        None where the rows do not repeat those of what is viewed as NumPy repeats them.
        """
        (value, rows), start = elements[0]
        step = elements[1][1] - start if len(elements) > 1 else 1
        places = range(start, start + step * len(elements), step or 1)
        if step < 1 or [*elements] != [((value, rows), place) for place in places]:
            return None
        shape = self.maps.plain.type(value).shape
        axes = next(
            (n for n in range(1, len(shape) + 1) if math.prod(shape[-n:]) > places[-1]), None
        )
        if axes is None:
            return None
        width = math.prod(shape[-axes:])
        if any(stride % width for _, stride in rows):
            return None
        column = self._columns(value, places, axes)
        repeated = tuple((size, stride // width) for size, stride in rows)
        return self._spread(column, repeated, (*lead, len(places)))

    def of_rows(self, view: View, places: range, lead: Shape) -> ValueId | None:
        """Write places of all rows of a view in order, as a slice of what is viewed."""
        value, rows = view
        size = self.maps.plain.type(value).size
        count, width = rows[0] if rows else (1, size)
        if count * width != size or count != math.prod(lead):
            return None
        whole = reshape(self.builder, self.number[value], (*lead, width))
        return _slice(self.builder, whole, places)

    def _columns(self, value: ValueId, places: range, axes: int) -> ValueId:
        shape = self.maps.plain.type(value).shape
        if places == range(math.prod(shape[-axes:])):
            return reshape(self.builder, self.number[value], (*shape[:-axes], len(places)))
        pushed = self._before_join(value, places, axes)
        return self.cut(value, places, axes) if pushed is None else pushed

    def cut(self, value: ValueId, places: range, axes: int = 1) -> ValueId:
        """Slice rows of a value, which are its last axes."""
        shape = self.maps.plain.type(value).shape
        width = math.prod(shape[-axes:])
        rows = reshape(self.builder, self.number[value], (*shape[:-axes], width))
        return _slice(self.builder, rows, places)

    def _before_join(self, value: ValueId, places: range, axes: int) -> ValueId | None:
        """Compute columns of what was joined or repeated; None where nothing was."""
        type_, node = self.maps.plain.type(value), self.maps.plain.node(value)
        row = self.maps.row(value, axes)
        shape = (*type_.shape[:-axes], len(places))
        if any(value != of for terms in row for key in terms for (of, _), _ in key) or {} in row:
            return self._written([row[place] for place in places], TensorType(shape, type_.dtype))
        if node is None or op_named(node.op).kind is not Kind.ELEMENTWISE:
            return None
        parts = [self._operand(v, places, axes) for v in node.inputs]
        if not any(is_joined for _, is_joined in parts):
            return None
        made = TensorType(shape, type_.dtype)
        return self.builder.add(node.op, [v for v, _ in parts], [made], node.attributes)[0]

    def _operand(self, value: ValueId, places: range, axes: int) -> tuple[ValueId, bool]:
        """Return columns of an operand, and whether a join or a repetition lies below."""
        number = self.maps.plain.number(value)
        if number is not None:
            cut = self.cut(value, places, axes)
            return filled(self.builder, number, cut), False
        pushed = self._before_join(value, places, axes)
        return (self.cut(value, places, axes), False) if pushed is None else (pushed, True)

    def _written(self, row: Sequence[Sum], type_: TensorType) -> ValueId | None:
        """Write elements that are one of a view each, all with one sign."""
        keys = [key for terms in row for key in terms]
        signs = {number for terms in row for number in terms.values()}
        if len(keys) != len(row) or signs not in ({1.0}, {-1.0}):
            return None
        if any(len(key) != 1 for key in keys):
            return None
        made = self.shown([key[0] for key in keys], type_.shape[:-1])
        if made is None or self.builder.types[made] != type_:
            return None
        return made if signs == {1.0} else same(self.builder, "negative", made)

    def _spread(self, column: ValueId, rows: Placement, shape: Shape) -> ValueId | None:
        """Repeat rows along the axes that they do not have."""
        lead, before = shape[:-1], self.builder.types[column].shape
        fits = len(before) <= len(shape)
        if fits and broadcast_placement(before, shape) == _with_columns(rows, shape[-1]):
            return broadcast(self.builder, column, shape)
        aligned: list[int] = []
        left = list(rows)
        for size in reversed(lead):
            if size == 1:
                aligned.append(1)
                continue
            count, stride = left.pop() if left else (1, 0)
            if count % size:
                return None
            if count > size:
                left.append((count // size, stride * size))
            aligned.append(size if stride else 1)
        aligned.reverse()
        if math.prod(aligned) != math.prod(before[:-1]):
            return None
        if broadcast_placement(aligned, lead) != rows:
            return None
        column = reshape(self.builder, column, (*aligned, shape[-1]))
        return broadcast(self.builder, column, shape)


def _with_columns(rows: Placement, count: int) -> Placement:
    """Return where the elements of rows of some columns lie."""
    repeated = tuple((size, stride * count) for size, stride in rows)
    if count == 1:
        return repeated
    if repeated and repeated[-1][1] == count:
        return (*repeated[:-1], (repeated[-1][0] * count, 1))
    return (*repeated, (count, 1))


def _slice(builder: GraphBuilder, rows: ValueId, places: range) -> ValueId:
    width = builder.types[rows].shape[-1]
    if places == range(width):
        return rows
    stop = min(places[-1] + places.step, width)
    return cut_last_axis(builder, rows, places.start, stop, places.step)
