"""What every kernel must read of operands that indices, windows and masks choose from."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelwright.ir.analysis.input_independent import Known
from kernelwright.ir.graph import Graph, Node
from kernelwright.ir.ops import Call, Domain, Kind, op_named
from kernelwright.ir.ops.axes import slices

Counts = NDArray[np.int64]
_LARGEST_MASK = 1 << 24
"""Elements of a condition that is worked out for a count."""
_NEGATIVE = 2
"""An index may count from the end as well, which doubles what it may be."""
_HIDDEN = float(np.finfo(np.float16).min)
"""What scores are set to that have no weight, or less, in the narrowest dtype."""
_OPERANDS = 3
"""Queries, keys and values of attention; masks and sinks follow."""
Rule = Callable[[Graph, Node, int, int], int]
"""`(graph, node, place, wanted)` -> the least elements of an operand that `wanted` of the first
output hang on, whatever the indices are; parts of an element are rounded down."""


def least_indexed(graph: Graph, node: Node, place: int, wanted: int) -> int:
    """Return how many elements of one operand are read for `wanted` elements of the output.

    Indices are read where they choose between places that hold different things; of what they
    choose from, no more is certain than one window, for all of them may name the same.
    """
    if (rule := _RULES.get(node.op)) is not None:
        return rule(graph, node, place, wanted)
    op = op_named(node.op)
    domains = [op.behaviour.domain(i, len(node.inputs)) for i in range(len(node.inputs))]
    if Domain.INDEX in domains[-2:] and wanted == _made(graph, node):
        return _chosen_matrices(graph, node, place)
    return 0


def least_chosen(graph: Graph, node: Node, place: int) -> int:
    """Return what is read of an operand of a choice whose condition is known beforehand.

    What is not chosen may decide all that follows, as an infinity does a sum: elements count
    where each shows in an output, or has a weight among others of its row.
    """
    known, shape = Known(graph), graph.types[node.outputs[0]].shape
    if node.op != "select" or not known.has(node.inputs[0]):
        return 0
    if graph.types[node.inputs[place]].shape != shape or math.prod(shape) > _LARGEST_MASK:
        return 0
    condition = known.value(node.inputs[0]).astype(bool)
    chosen = np.broadcast_to(condition if place == 1 else ~condition, shape)
    if _is_weighed(graph, node, known, place):
        chosen = chosen & (chosen.sum(axis=-1, keepdims=True) > 1)
    elif not _is_shown(graph, node.outputs[0]):
        return 0
    return int(np.count_nonzero(chosen))


def _is_shown(graph: Graph, value: int) -> bool:
    """Say whether every element of a value shows in one of an output."""
    while value not in graph.outputs:
        for reader in (graph.nodes[i] for i in graph.consumers_of[value]):
            op, made = op_named(reader.op), graph.types[reader.outputs[0]]
            is_kept = op.kind in (Kind.VIEW, Kind.ELEMENTWISE)
            is_float = made.dtype.is_float and graph.types[value].dtype.is_float
            is_choice = op.behaviour.chooses or op.behaviour.is_extreme
            if is_kept and is_float and not is_choice and made.size == graph.types[value].size:
                value = reader.outputs[0]
                break
        else:
            return False
    return True


def _is_weighed(graph: Graph, node: Node, known: Known, place: int) -> bool:
    """Say whether a softmax reads a choice, of whose other side it makes nothing."""
    hidden = node.inputs[3 - place]
    readers = [graph.nodes[i] for i in graph.consumers_of[node.outputs[0]]]
    if not known.has(hidden) or not any(r.op == "softmax" for r in readers):
        return False
    return bool((known.value(hidden) <= _HIDDEN).all())


def _made(graph: Graph, node: Node) -> int:
    return graph.types[node.outputs[0]].size


def _size(graph: Graph, node: Node, place: int) -> int:
    return graph.types[node.inputs[place]].size


def is_own(graph: Graph, value: int) -> bool:
    """Say whether a value is an input that views show, so that nobody knows what it holds."""
    while value not in graph.inputs:
        maker = graph.producer_of.get(value)
        if maker is None:
            return False
        node = graph.nodes[maker]
        is_shown = node.op in ("reshape", "transpose", "slice")
        if not is_shown:
            return False
        value = node.inputs[0]
    return True


def _indices(graph: Graph, node: Node, place: int, positions: int) -> int:
    """Count indices that choose one of some positions, by the bytes in which these differ."""
    if positions <= 1:
        return 0
    type_ = graph.types[node.inputs[place]]
    named = positions if type_.dtype.value.startswith("uint") else _NEGATIVE * positions
    needed = math.ceil(math.log2(named) / 8)
    return type_.size * min(needed, type_.dtype.itemsize) // type_.dtype.itemsize


def _gather(graph: Graph, node: Node, place: int, wanted: int) -> int:
    call = Call.of(graph, node)
    axes, sizes, shape = call.integers("axes"), call.integers("slice_sizes"), call.inputs[0].shape
    if wanted < _made(graph, node):
        return 0
    if place == 0:
        return math.prod(sizes)
    axis = axes[place - 1]
    positions = shape[axis] - sizes[axis] + 1
    return _indices(graph, node, place, positions) if is_own(graph, node.inputs[0]) else 0


def _gather_axis(graph: Graph, node: Node, place: int, wanted: int) -> int:
    call = Call.of(graph, node)
    axis, made = call.integer("axis"), _made(graph, node)
    if wanted < made:
        return 0
    if place == 0:
        return made // max(call.outputs[0].shape[axis], 1)
    if not is_own(graph, node.inputs[0]):
        return 0
    return _indices(graph, node, place, call.inputs[0].shape[axis])


def _dynamic_slice(graph: Graph, node: Node, place: int, wanted: int) -> int:
    if place == 0:
        return wanted
    call = Call.of(graph, node)
    shape, sizes = call.inputs[0].shape, call.integers("shape")
    positions = [shape[axis] - sizes[axis] + 1 for axis in call.integers("axes")]
    if wanted < _made(graph, node) or not is_own(graph, node.inputs[0]):
        return 0
    return _indices(graph, node, place, min(positions, default=1))


def _slice_update(graph: Graph, node: Node, place: int, wanted: int) -> int:
    """Keep what is not overwritten, and take what it is overwritten with."""
    made, update = _made(graph, node), _replaced(graph, node)
    adds = node.has("reduce") and node.attribute("reduce") == "sum"
    if place == 0:
        return wanted if adds else max(wanted - update, 0)
    if place > 1:
        return 0
    is_taken = adds or not node.has("reduce") or node.attribute("reduce") == "none"
    return max(wanted - (made - update), 0) if is_taken else 0


def _replaced(graph: Graph, node: Node) -> int:
    """Return how many elements an update stands at."""
    if node.op != "slice_update":
        return _size(graph, node, 1)
    shape = graph.types[node.inputs[0]].shape
    sizes = zip(slices(Call.of(graph, node)), shape, strict=True)
    return math.prod(len(range(*s.indices(n))) for s, n in sizes)


def _scatter(graph: Graph, node: Node, place: int, wanted: int) -> int:
    """Keep what cannot all be overwritten; updates that are added up are all read."""
    last = len(node.inputs) - 1
    adds = node.attribute("reduce") == "sum"
    is_float = graph.types[node.outputs[0]].dtype.is_float
    if place == 0:
        return wanted if adds and is_float else max(wanted - _size(graph, node, last), 0)
    if wanted < _made(graph, node) or not adds or not is_own(graph, node.inputs[last]):
        return 0
    if place == last:
        return _size(graph, node, last)
    call = Call.of(graph, node)
    axes = call.integers("axes") if node.has("axes") else (call.integer("axis"),)
    shape = call.inputs[0].shape
    lead = len(call.inputs[last].shape) - len(shape)
    window = call.inputs[last].shape[lead:] if node.has("axes") else (1,) * len(shape)
    axis = axes[place - 1]
    return _indices(graph, node, place, shape[axis] - window[axis] + 1)


def _chosen_matrices(graph: Graph, node: Node, place: int) -> int:
    """Count one matrix of each operand, or as many as indices that are known name."""
    left, right = len(node.inputs) - 2, len(node.inputs) - 1
    counts = {left: _matrices(graph, node, 0), right: _matrices(graph, node, 1)}
    if place in counts:
        data = node.inputs[0 if place == left else 1]
        return _indices(graph, node, place, counts[place]) if is_own(graph, data) else 0
    index = node.inputs[left if place == 0 else right]
    known = Known(graph)
    distinct = len(np.unique(known.value(index))) if known.has(index) else 1
    return _size(graph, node, place) * distinct // max(_matrices(graph, node, place), 1)


def _matrices(graph: Graph, node: Node, place: int) -> int:
    return math.prod(graph.types[node.inputs[place]].shape[:-2])


def _attention(graph: Graph, node: Node, place: int, wanted: int) -> int:
    """Count rows that a query sees beside others, of operands that no mask hides."""
    call = Call.of(graph, node)
    has_sinks = call.flag("has_sinks")
    masks = len(node.inputs) - _OPERANDS - has_sinks
    if wanted < _made(graph, node):
        return 0
    if has_sinks and place == len(node.inputs) - 1:
        return 0 if masks else _size(graph, node, place)
    sight = _Sight.of(call)
    # The weight of the only key in sight is one, whatever its score is.
    weighed = sight.counts + has_sinks > 1
    if place >= _OPERANDS:
        shape = call.inputs[place].shape
        if masks > 1 or shape[-2:] != (len(weighed), sight.keys):
            return 0
        return int(sight.counts[weighed].sum()) * math.prod(shape[:-2])
    if masks:
        return 0
    if place == 0:
        return _size(graph, node, place) * int(weighed.sum()) // max(len(weighed), 1)
    seen = sight.keys_seen(weighed if place == 1 else sight.counts > 0)
    return _size(graph, node, place) * seen // max(sight.keys, 1)


@dataclass(frozen=True)
class _Sight:
    """The first key that each query sees, and the one behind the last."""

    first: Counts
    stop: Counts
    keys: int

    @classmethod
    def of(cls, call: Call) -> "_Sight":
        """Say it without a table of queries and keys, which may have thousands of millions."""
        queries, keys = call.inputs[0].shape[2], call.inputs[1].shape[2]
        here = np.arange(queries, dtype=np.int64) + keys - queries
        first, stop = np.zeros_like(here), np.full_like(here, keys)
        if window := call.integer("window"):
            first, stop = np.maximum(here - window + 1, 0), np.minimum(here + window, keys)
        if call.flag("is_causal"):
            stop = np.minimum(stop, here + 1)
        return cls(first, stop, keys)

    @property
    def counts(self) -> Counts:
        """How many keys each query sees."""
        seen: Counts = np.maximum(self.stop - self.first, 0)
        return seen

    def keys_seen(self, queries: NDArray[np.bool_]) -> int:
        """Count the keys that some of the queries see."""
        turns = np.zeros(self.keys + 1, np.int64)
        looking = queries & (self.counts > 0)
        np.add.at(turns, self.first[looking], 1)
        np.add.at(turns, self.stop[looking], -1)
        return int(np.count_nonzero(np.cumsum(turns)[: self.keys]))


_RULES: Mapping[str, Rule] = {
    "attention": _attention,
    "dynamic_slice": _dynamic_slice,
    "dynamic_slice_update": _slice_update,
    "gather": _gather,
    "gather_axis": _gather_axis,
    "scatter": _scatter,
    "scatter_axis": _scatter,
    "slice_update": _slice_update,
}
