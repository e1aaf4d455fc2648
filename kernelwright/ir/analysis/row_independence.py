"""Whether rows are computed independently: where they stand in all that depends on whole rows."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.ops import Call, Kind, op_named, reduced_axes
from kernelwright.ir.ops.axes import slices

Part = tuple[int | None, int]
"""(step from one row's number to the next, extent); without a step along elements of one row."""
Layout = tuple[tuple[Part, ...], ...]
"""For each axis of a value, the parts that it runs over, outermost first."""
_WHOLE_ROW = frozenset({Kind.REDUCTION, Kind.SCAN, Kind.SORT})
"""Kinds whose results depend on all of a row."""


@dataclass(frozen=True)
class RowIndependence:
    """What an analysis of rows found."""

    reason: str = ""
    """What takes a part of one row into another, or nothing where each row stands alone."""

    def __bool__(self) -> bool:
        """Say whether no row reads another."""
        return not self.reason


def row_independence(
    graph: Graph, shape: tuple[int, ...], axes: Iterable[int], given: Iterable[ValueId] = ()
) -> RowIndependence:
    """Say whether each row of a graph depends on no other row.

    The rows are those of `shape` along `axes`, numbered over its other axes. Outputs with elements
    of rows have to hold them in one order; what has one element a row may have another. Each of
    `given` holds one element a row, as results of reductions do.
    """
    rows = _Rows(graph, shape, frozenset(axes))
    try:
        for node in graph.nodes:
            rows.visit(node, is_given=not set(node.outputs).isdisjoint(given))
        orders = {rows.order_of(v) for v in graph.outputs if rows.has_elements(v)}
    except _CrossingError as found:
        return RowIndependence(str(found))
    is_one = len(orders) <= 1
    return RowIndependence("" if is_one else "its outputs hold the same rows in two orders")


def views_of_shape(graph: Graph, value: ValueId, shape: tuple[int, ...]) -> list[Node] | None:
    """Return the reshapes and transposes between a value of a shape and a later one, last first.

    None where no value of that shape is found behind them.
    """
    views: list[Node] = []
    while graph.types[value].shape != shape:
        node = graph.nodes[graph.producer_of[value]] if value in graph.producer_of else None
        if node is None or node.op not in ("reshape", "transpose"):
            return None
        views.append(node)
        value = node.inputs[0]
    return views


class _CrossingError(Exception):
    """A row reads another one; the text says where."""


class _Rows:
    """Follows rows from what depends on all of a row to the outputs."""

    def __init__(self, graph: Graph, shape: tuple[int, ...], reduced: frozenset[int]) -> None:
        self.layouts: dict[ValueId, Layout] = {}
        """Of values that depend on whole rows. Each holds every row, and holds it once."""
        self._graph, self._shape, self._reduced = graph, shape, reduced
        self._natural = _joined(_natural(shape, reduced))
        self._order = _rows_alone(self._natural)

    def visit(self, node: Node, *, is_given: bool) -> None:
        """Find where the rows stand in what a node makes, if it depends on any.

        Raises:
            _CrossingError: a row reads another one there.
        """
        if is_given:
            shape = self._graph.types[node.outputs[0]].shape
            self._place(node, _natural(shape, frozenset()))
        elif op_named(node.op).kind in _WHOLE_ROW and len(node.inputs) == 1:
            self._place(node, self._reduce(node))
        elif any(v in self.layouts for v in node.inputs):
            self._place(node, self._pass_on(node))

    def has_elements(self, value: ValueId) -> bool:
        """Say whether a value depends on whole rows and has several elements of each."""
        layout = self.layouts.get(value, ())
        return any(step is None for axis in layout for step, _ in axis)

    def order_of(self, value: ValueId) -> tuple[Part, ...]:
        """Return the order in which an output holds the rows.

        Raises:
            _CrossingError: elements of several rows alternate, and not as in the reduced shape.
        """
        type_, layout = self._graph.types[value], self.layouts[value]
        is_whole = type_.size == math.prod(self._shape)
        views = views_of_shape(self._graph, value, self._shape) if is_whole else None
        if views is not None:
            layout = self.layouts[views[-1].inputs[0] if views else value]
        parts = _joined(layout)
        if is_whole and parts == self._natural:
            return self._order
        if views is not None and _separates(layout, self._reduced):
            return _rows_alone(part for axis in layout for part in axis)
        are_apart = all(_are_rows_first(p) for p in (parts, self._natural))
        if views is not None or not are_apart:
            raise _CrossingError(f"the output {type_} alternates between rows in another order")
        return _rows_alone(parts)

    def _place(self, node: Node, layout: Layout) -> None:
        self.layouts.update(dict.fromkeys(node.outputs, layout))

    def _reduce(self, node: Node) -> Layout:
        call = Call.of(self._graph, node)
        source, made, axes = call.inputs[0].shape, call.outputs[0].shape, reduced_axes(call)
        layout = self.layouts.get(node.inputs[0])
        if layout is None:
            layout = _natural(source, frozenset(axes))
            is_same = _joined(layout) == self._natural
        else:
            is_same = _separates(layout, axes)
        if not is_same:
            raise _CrossingError(f"{node.op} over axes {axes} of {source} has other rows")
        return _with_elements(layout, axes, made)

    def _pass_on(self, node: Node) -> Layout:
        if op_named(node.op).kind is Kind.ELEMENTWISE:
            return self._agreed(node, {self.layouts[v] for v in node.inputs if v in self.layouts})
        call = Call.of(self._graph, node)
        layout, after = self.layouts.get(node.inputs[0]), call.outputs[0].shape
        match node.op:
            case "transpose" if layout is not None:
                return tuple(layout[axis] for axis in call.integers("axes"))
            case "broadcast" if layout is not None:
                layout = ((),) * (len(after) - len(layout)) + layout
                return _with_elements(layout, [i for i, a in enumerate(layout) if not a], after)
            case "reshape" if layout is not None:
                found = _regrouped(_joined(layout), after)
                if found is not None:
                    return found
            case "concatenate" | "gather_axis" | "scatter_axis":
                return self._moved_along(node, call, {call.integer("axis") % len(after)})
            case "slice" | "slice_update":
                sizes, cut = call.inputs[0].shape, slices(call)
                pairs = enumerate(zip(sizes, cut, strict=True))
                return self._moved_along(
                    node, call, {i for i, (n, s) in pairs if range(n)[s] != range(n)}
                )
        raise self._mixing(node, call.inputs[0])

    def _moved_along(self, node: Node, call: Call, axes: set[int]) -> Layout:
        """Return the layout of what is moved along some axes, which has to be within its row."""
        known = [(v, self.layouts[v]) for v in node.inputs if v in self.layouts]
        for value, layout in known:
            if any(step is not None for axis in axes for step, _ in layout[axis]):
                raise self._mixing(node, self._graph.types[value])
        moved = {_with_elements(layout, axes, call.outputs[0].shape) for _, layout in known}
        return self._agreed(node, moved)

    def _agreed(self, node: Node, layouts: set[Layout]) -> Layout:
        if len(layouts) > 1:
            raise _CrossingError(f"{node.op} joins rows that run along different axes")
        return layouts.pop()

    def _mixing(self, node: Node, source: TensorType) -> _CrossingError:
        after = self._graph.types[node.outputs[0]].shape
        return _CrossingError(f"{node.op} from {source.shape} to {after} mixes rows")


def _natural(shape: tuple[int, ...], reduced: frozenset[int]) -> Layout:
    """Return where rows stand that are numbered over the axes of a shape but for the reduced."""
    axes: list[tuple[Part, ...]] = []
    step = 1
    for axis, extent in reversed([*enumerate(shape)]):
        axes.append(((None if axis in reduced else step, extent),) if extent != 1 else ())
        step *= 1 if axis in reduced else extent
    return tuple(reversed(axes))


def _with_elements(layout: Layout, axes: Iterable[int], shape: tuple[int, ...]) -> Layout:
    """Return a layout whose `axes` run over elements of a row, as many as a shape has there."""
    found = list(layout)
    for axis in axes:
        found[axis] = ((None, shape[axis]),) if shape[axis] != 1 else ()
    return tuple(found)


def _separates(layout: Layout, axes: Iterable[int]) -> bool:
    """Say whether axes run over elements of rows alone, and all others over rows alone."""
    return all(
        (step is None) == (axis in axes) for axis, parts in enumerate(layout) for step, _ in parts
    )


def _are_rows_first(parts: Sequence[Part]) -> bool:
    """Say whether elements of one row stand side by side, one row after the other."""
    return all(step is not None for step, _ in parts[:-1])


def _rows_alone(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return the parts that run over rows."""
    return _joined([[part for part in parts if part[0] is not None]])


def _joined(axes: Iterable[Sequence[Part]]) -> tuple[Part, ...]:
    """Return the parts of axes in order, as one where they continue each other."""
    found: list[Part] = []
    for step, extent in (part for axis in axes for part in axis):
        last, whole = found[-1] if found else (None, 1)
        if found and last == (None if step is None else step * extent):
            found[-1] = (step, whole * extent)
        else:
            found.append((step, extent))
    return tuple(found)


def _regrouped(parts: Sequence[Part], shape: tuple[int, ...]) -> Layout | None:
    """Spread parts over the axes of another shape; None where that cuts one unevenly."""
    left, axes = list(parts), list[tuple[Part, ...]]()
    for extent in shape:
        taken: list[Part] = []
        while extent > 1:
            step, whole = left.pop(0)
            if whole > extent and whole % extent == 0:
                inner = whole // extent
                left.insert(0, (step, inner))
                step, whole = (None if step is None else step * inner), extent
            if extent % whole:
                return None
            extent //= whole
            taken.append((step, whole))
        axes.append(tuple(taken))
    return tuple(axes)
