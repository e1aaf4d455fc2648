"""The least that every kernel must read of what indices and windows choose from, op by op."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelwright.ir.graph import Graph, Node
from kernelwright.ir.ops.axes import slices
from kernelwright.ir.ops.op import Call

Counts = NDArray[np.int64]
_NEGATIVE = 2
"""An index may count from the end as well, which doubles what it may be."""
_OPERANDS = 3
"""Queries, keys and values of attention; masks and sinks follow."""


def made_size(graph: Graph, node: Node) -> int:
    """Count the elements of what a node makes."""
    return graph.types[node.outputs[0]].size


def operand_size(graph: Graph, node: Node, place: int) -> int:
    """Count the elements of an operand."""
    return graph.types[node.inputs[place]].size


def is_own(graph: Graph, value: int) -> bool:
    """Say whether a value is an input that views show, so that nobody knows what it holds."""
    while value not in graph.inputs:
        maker = graph.producer_of.get(value)
        if maker is None:
            return False
        node = graph.nodes[maker]
        if node.op not in ("reshape", "transpose", "slice"):
            return False
        value = node.inputs[0]
    return True


def least_indices(graph: Graph, node: Node, place: int, positions: int) -> int:
    """Count indices that choose one of some positions, by the bytes in which these differ."""
    if positions <= 1:
        return 0
    type_ = graph.types[node.inputs[place]]
    named = positions if type_.dtype.value.startswith("uint") else _NEGATIVE * positions
    needed = math.ceil(math.log2(named) / 8)
    return type_.size * min(needed, type_.dtype.itemsize) // type_.dtype.itemsize


def gathered(graph: Graph, node: Node, place: int, wanted: int) -> int:
    """Take one window, and the indices that choose it."""
    call = Call.of(graph, node)
    axes, sizes, shape = call.integers("axes"), call.integers("slice_sizes"), call.inputs[0].shape
    if wanted < made_size(graph, node):
        return 0
    if place == 0:
        return math.prod(sizes)
    axis = axes[place - 1]
    positions = shape[axis] - sizes[axis] + 1
    return least_indices(graph, node, place, positions) if is_own(graph, node.inputs[0]) else 0


def gathered_along(graph: Graph, node: Node, place: int, wanted: int) -> int:
    """Take one element of each row, and the indices that choose it."""
    call = Call.of(graph, node)
    axis, made = call.integer("axis"), made_size(graph, node)
    if wanted < made:
        return 0
    if place == 0:
        return made // max(call.outputs[0].shape[axis], 1)
    if not is_own(graph, node.inputs[0]):
        return 0
    return least_indices(graph, node, place, call.inputs[0].shape[axis])


def cut_anywhere(graph: Graph, node: Node, place: int, wanted: int) -> int:
    """Take the window, and where it begins."""
    if place == 0:
        return wanted
    call = Call.of(graph, node)
    shape, sizes = call.inputs[0].shape, call.integers("shape")
    positions = [shape[axis] - sizes[axis] + 1 for axis in call.integers("axes")]
    if wanted < made_size(graph, node) or not is_own(graph, node.inputs[0]):
        return 0
    return least_indices(graph, node, place, min(positions, default=1))


def updated(graph: Graph, node: Node, place: int, wanted: int) -> int:
    """Keep what is not overwritten, and take what it is overwritten with."""
    made, update = made_size(graph, node), _replaced(graph, node)
    adds = node.has("reduce") and node.attribute("reduce") == "sum"
    if place == 0:
        return wanted if adds else max(wanted - update, 0)
    if place > 1:
        return 0
    is_taken = adds or not node.has("reduce") or node.attribute("reduce") == "none"
    return max(wanted - (made - update), 0) if is_taken else 0


def _replaced(graph: Graph, node: Node) -> int:
    """Return how many elements an update stands at."""
    if not node.has("start"):
        return operand_size(graph, node, 1)
    shape = graph.types[node.inputs[0]].shape
    sizes = zip(slices(Call.of(graph, node)), shape, strict=True)
    return math.prod(len(range(*s.indices(n))) for s, n in sizes)


def scattered(graph: Graph, node: Node, place: int, wanted: int) -> int:
    """Keep what cannot all be overwritten; updates that are added up are all read."""
    last = len(node.inputs) - 1
    adds = node.attribute("reduce") == "sum"
    is_float = graph.types[node.outputs[0]].dtype.is_float
    if place == 0:
        return wanted if adds and is_float else max(wanted - operand_size(graph, node, last), 0)
    if wanted < made_size(graph, node) or not adds or not is_own(graph, node.inputs[last]):
        return 0
    if place == last:
        return operand_size(graph, node, last)
    call = Call.of(graph, node)
    axes = call.integers("axes") if node.has("axes") else (call.integer("axis"),)
    shape = call.inputs[0].shape
    lead = len(call.inputs[last].shape) - len(shape)
    window = call.inputs[last].shape[lead:] if node.has("axes") else (1,) * len(shape)
    axis = axes[place - 1]
    return least_indices(graph, node, place, shape[axis] - window[axis] + 1)


def attended(graph: Graph, node: Node, place: int, wanted: int) -> int:
    """Count rows that a query sees beside others, of operands that no mask hides."""
    call = Call.of(graph, node)
    has_sinks = call.flag("has_sinks")
    masks = len(node.inputs) - _OPERANDS - has_sinks
    if wanted < made_size(graph, node):
        return 0
    if has_sinks and place == len(node.inputs) - 1:
        return 0 if masks else operand_size(graph, node, place)
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
        return operand_size(graph, node, place) * int(weighed.sum()) // max(len(weighed), 1)
    seen = sight.keys_seen(weighed if place == 1 else sight.counts > 0)
    return operand_size(graph, node, place) * seen // max(sight.keys, 1)


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
