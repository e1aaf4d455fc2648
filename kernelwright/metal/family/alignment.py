"""Reductions over any axes of one shape: whether what depends on them stays in its own row."""

import math
from collections.abc import Sequence

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.ops import Call, Kind, op_named, reduced_axes

Label = tuple[int, int] | None
"""An axis of the reduced shape and the step along it, which is not 1 for the outer part of a cut
axis; None where a value was repeated along whatever axis it meets."""
Axes = tuple[tuple[tuple[Label, int], ...], ...]
"""For each axis of a value, the (label, extent) pairs that it runs over, outermost first."""


class CrossingError(Exception):
    """A node takes what a reduction made into another row; the text says how."""


class Alignment:
    """Follows the axes of `shape` from the reductions over `reduced` to the outputs."""

    def __init__(self, graph: Graph, shape: tuple[int, ...], reduced: tuple[int, ...]) -> None:
        self._graph, self._shape = graph, shape
        self._all = [i for i, n in enumerate(shape) if n != 1]
        self._reduced = [i for i in self._all if i in reduced]
        self._axes: dict[ValueId, Axes] = {}
        """Where each value that depends on a reduction stands."""

    def crossing(self) -> str:
        """Say what leaves its row, or nothing."""
        try:
            for node in self._graph.nodes:
                self._visit(node)
            for value in self._graph.outputs:
                self._check_output(value)
        except CrossingError as found:
            return str(found)
        return ""

    def _visit(self, node: Node) -> None:
        kind = op_named(node.op).kind
        if kind is Kind.REDUCTION:
            self._axes[node.outputs[0]] = self._reduce(node)
        elif any(v in self._axes for v in node.inputs):
            self._axes.update(dict.fromkeys(node.outputs, self._pass_on(node, kind)))

    def _reduce(self, node: Node) -> Axes:
        call = Call.of(self._graph, node)
        source = call.inputs[0].shape
        axes = reduced_axes(call)
        live = [i for i, n in enumerate(source) if n != 1]
        same = [source[i] for i in live] == [self._shape[i] for i in self._all]
        turned = [self._all[p] for p, i in enumerate(live) if i in axes] if same else []
        if not same or turned != self._reduced:
            raise CrossingError(
                f"{node.op} over axes {axes} of {source} has other rows than those of {self._shape}"
            )
        if node.inputs[0] in self._axes:
            self._check_order(node.inputs[0], node.op)
        named = dict(zip(live, self._all, strict=True))
        is_spread = node.op == "softmax"
        return tuple(
            (((named[i], 1), n),) if i in named and (is_spread or i not in axes) else ()
            for i, n in enumerate(source)
        )

    def _pass_on(self, node: Node, kind: Kind) -> Axes:
        if kind is Kind.ELEMENTWISE:
            return self._united(node)
        before = self._axes.get(node.inputs[0])
        call, after = Call.of(self._graph, node), self._graph.types[node.outputs[0]].shape
        if before is not None and node.op == "transpose":
            return tuple(before[a] for a in call.integers("axes"))
        if before is not None and node.op == "broadcast":
            padded = ((),) * (len(after) - len(before)) + before
            return tuple(
                axis or (((None, n),) if n != 1 else ())
                for axis, n in zip(padded, after, strict=True)
            )
        if before is not None and node.op == "reshape":
            return _regrouped([pair for axis in before for pair in axis], after, node.op)
        if before is not None and kind is Kind.VIEW:
            raise CrossingError(f"{node.op} from {call.inputs[0].shape} to {after} mixes rows")
        raise CrossingError(f"{node.op} takes what a reduction made into another row")

    def _united(self, node: Node) -> Axes:
        """Return the axes of an elementwise result; operands that meet have to agree."""
        united: list[tuple[tuple[Label, int], ...]] = []
        known = [self._axes[v] for v in node.inputs if v in self._axes]
        for axes in zip(*known, strict=True):
            certain = {axis for axis in axes if all(label is not None for label, _ in axis)}
            if len(certain - {()}) > 1:
                raise CrossingError(f"{node.op} joins rows that run along different axes")
            united.append(max(certain or set(axes), key=len))
        return tuple(united)

    def _check_output(self, value: ValueId) -> None:
        graph, source = self._graph, value
        if graph.types[value].size != math.prod(self._shape) or value not in self._axes:
            return
        while graph.types[source].shape != self._shape and source in graph.producer_of:
            node = graph.nodes[graph.producer_of[source]]
            if node.op not in ("reshape", "transpose"):
                break
            source = node.inputs[0]
        found = source if graph.types[source].shape == self._shape else value
        if found in self._axes:
            self._check_order(found, "an output")

    def _check_order(self, value: ValueId, reader: str) -> None:
        """Check that a value's elements stand as those of the reduced shape do."""
        pairs = [pair for axis in self._axes[value] for pair in axis]
        if not _stand_in_order(pairs, [(place, self._shape[place]) for place in self._all]):
            raise CrossingError(f"{reader} needs what a reduction made in another order")


def _stand_in_order(pairs: Sequence[tuple[Label, int]], axes: Sequence[tuple[int, int]]) -> bool:
    """Say whether (label, extent) pairs run over whole axes, one after the other."""
    left = list(axes)
    for label, extent in pairs:
        while extent > 1:
            if not left:
                return False
            place, whole = left.pop(0)
            shared = math.gcd(extent, whole)
            extent, rest = extent // shared, whole // shared
            if (extent > 1 and rest > 1) or label not in (None, (place, rest)):
                return False
            if rest > 1:
                left.insert(0, (place, rest))
    return not left


def _regrouped(pairs: Sequence[tuple[Label, int]], shape: Sequence[int], op: str) -> Axes:
    """Spread (label, extent) pairs over the axes of another shape, cut where an axis ends."""
    left, axes = list(pairs), []
    for extent in shape:
        taken: list[tuple[Label, int]] = []
        while extent > 1:
            label, whole = left.pop(0)
            if whole > extent and whole % extent == 0:
                inner = whole // extent
                left.insert(0, (label, inner))
                label, whole = (label and (label[0], label[1] * inner)), extent
            if extent % whole:
                raise CrossingError(f"{op} to {tuple(shape)} cuts an axis of the rows")
            extent //= whole
            _append(taken, label, whole)
        axes.append(tuple(taken))
    return tuple(axes)


def _append(pairs: list[tuple[Label, int]], label: Label, extent: int) -> None:
    """Append a pair, or make it one with the last where that is the outer part of the same axis."""
    if pairs and label is not None and (last := pairs[-1][0]) == (label[0], label[1] * extent):
        assert last is not None
        pairs[-1] = (label, pairs[-1][1] * extent)
    elif extent > 1:
        pairs.append((label, extent))
