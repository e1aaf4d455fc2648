"""One way to write each view: fewer kinds, no chains, none that changes nothing."""

import math
from collections.abc import Sequence
from itertools import pairwise

from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule, rewrite
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Kind, op_named

_IDENTITIES = frozenset({"copy", "contiguous", "stop_gradient", "full"})
_RESHAPES = frozenset({"reshape", "expand_dims", "squeeze", "flatten", "unflatten"})

# Every value of the first dtype is one of the second.
_WIDENS = frozenset(
    {
        (Dtype.FLOAT16, Dtype.FLOAT32),
        (Dtype.BFLOAT16, Dtype.FLOAT32),
        (Dtype.INT8, Dtype.INT16),
        (Dtype.INT8, Dtype.INT32),
        (Dtype.INT16, Dtype.INT32),
        (Dtype.INT32, Dtype.INT64),
        (Dtype.UINT8, Dtype.UINT16),
        (Dtype.UINT8, Dtype.UINT32),
        (Dtype.UINT8, Dtype.INT32),
        (Dtype.UINT16, Dtype.UINT32),
        (Dtype.UINT32, Dtype.UINT64),
    }
)


def canonicalize_views(graph: Graph) -> Graph:
    """Rewrite views into their canonical kinds and merge chains of them.

    `expand_dims`, `squeeze`, `flatten` and `unflatten` become `reshape`; `split` becomes one
    `slice` an output; copies, no-op casts and views that change nothing disappear; a reshape
    of all operands of an elementwise op is done once, behind it.
    """
    return rewrite(graph, RULES)


def reshape(builder: GraphBuilder, value: ValueId, shape: tuple[int, ...]) -> ValueId:
    """Return `value` in another shape, through as few nodes as possible."""
    inner = builder.made_by(value, "reshape")
    if inner is not None:
        value = inner.inputs[0]
    if builder.types[value].shape == shape:
        return value
    return builder.apply("reshape", value, shape=shape)


def broadcast(builder: GraphBuilder, value: ValueId, shape: tuple[int, ...]) -> ValueId:
    """Return `value` repeated to `shape`, through as few nodes as possible."""
    if builder.types[value].shape == shape:
        return value
    inner = builder.made_by(value, "broadcast")
    if inner is not None:
        return broadcast(builder, inner.inputs[0], shape)
    inner = builder.made_by(value, "reshape")
    if inner is not None:
        source = builder.types[inner.inputs[0]].shape
        # Leading axes of size one are implied by broadcasting.
        if _without_leading_ones(builder.types[value].shape) == source:
            return broadcast(builder, inner.inputs[0], shape)
    return builder.apply("broadcast", value, shape=shape)


def _without_leading_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    start = next((i for i, size in enumerate(shape) if size != 1), len(shape))
    return shape[start:]


def _identity(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    return node.inputs if node.op in _IDENTITIES else None


def _one_reshape(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    if node.op not in _RESHAPES:
        return None
    return [reshape(builder, node.inputs[0], call.outputs[0].shape)]


def _one_broadcast(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    if node.op != "broadcast":
        return None
    return [broadcast(builder, node.inputs[0], call.outputs[0].shape)]


def _one_transpose(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    if node.op != "transpose":
        return None
    value, axes = node.inputs[0], call.integers("axes")
    inner = builder.made_by(value, "transpose")
    if inner is not None:
        first = Call(dict(inner.attributes), (), ()).integers("axes")
        value, axes = inner.inputs[0], tuple(first[axis] for axis in axes)
    if _are_in_order(axes, builder.types[value].shape):
        return [reshape(builder, value, call.outputs[0].shape)]
    repeated = _transposed_repeat(builder, value, axes, call.outputs[0].shape)
    return [builder.apply("transpose", value, axes=axes) if repeated is None else repeated]


def _are_in_order(axes: Sequence[int], shape: Sequence[int]) -> bool:
    """Say whether axes in another order hold the elements in the same one."""
    moved = [axis for axis in axes if shape[axis] != 1]
    return moved == sorted(moved)


def _transposed_repeat(
    builder: GraphBuilder, value: ValueId, axes: Sequence[int], shape: tuple[int, ...]
) -> ValueId | None:
    """Repeat along other axes instead of moving those that only repeat, as `mx.vmap` does."""
    inner = builder.made_by(value, "broadcast")
    if inner is None:
        return None
    source = builder.types[inner.inputs[0]].shape
    aligned = (*(1,) * (len(axes) - len(source)), *source)
    if not _are_in_order(axes, aligned):
        return None
    row = reshape(builder, inner.inputs[0], tuple(aligned[axis] for axis in axes))
    return broadcast(builder, row, shape)


def _no_slice(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    if node.op == "slice" and call.inputs[0] == call.outputs[0]:
        return node.inputs if all(s == 1 for s in call.integers("strides")) else None
    return None


def _slices_for_split(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    if node.op != "split":
        return None
    axis, shape = call.integer("axis"), call.inputs[0].shape
    edges = (0, *call.integers("indices"), shape[axis])
    if any(a > b for a, b in pairwise(edges)):
        return None
    ones = (1,) * len(shape)
    values = []
    for begin, end in pairwise(edges):
        start = tuple(begin if i == axis else 0 for i in range(len(shape)))
        stop = tuple(end if i == axis else n for i, n in enumerate(shape))
        values.append(builder.apply("slice", node.inputs[0], start=start, stop=stop, strides=ones))
    return values


def _no_cast(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    if node.op != "cast":
        return None
    target = call.dtype("dtype")
    if call.inputs[0].dtype is target:
        return node.inputs
    inner = builder.made_by(node.inputs[0], "cast")
    if inner is not None:
        source = builder.types[inner.inputs[0]].dtype
        if source is target and (source, call.inputs[0].dtype) in _WIDENS:
            return [inner.inputs[0]]
    return None


def _without_empty_parts(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    if node.op != "concatenate":
        return None
    filled = [v for v in node.inputs if builder.types[v].size]
    if not filled or len(filled) == len(node.inputs):
        return None
    return builder.add("concatenate", filled, call.outputs, node.attributes)


def _one_concatenation(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    return node.inputs if node.op == "concatenate" and len(node.inputs) == 1 else None


def _reshape_behind(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Compute before a reshape that all operands share, so that reshapes meet and cancel."""
    if op_named(node.op).kind is not Kind.ELEMENTWISE or len(call.outputs) != 1:
        return None
    sources = [_before_reshape(builder, v) for v in node.inputs]
    shapes = {builder.types[s].shape for s in sources if s is not None}
    if len(shapes) != 1:
        return None
    (shape,) = shapes
    operands = []
    for value, source in zip(node.inputs, sources, strict=True):
        if source is None:
            scalar = _scalar_behind(builder, value)
            if scalar is None:
                return None
            source = broadcast(builder, reshape(builder, scalar, ()), shape)
        operands.append(source)
    type_ = TensorType(shape, call.outputs[0].dtype)
    result = builder.add(node.op, operands, [type_], node.attributes)[0]
    return [reshape(builder, result, call.outputs[0].shape)]


def _before_reshape(builder: GraphBuilder, value: ValueId) -> ValueId | None:
    node = builder.made_by(value, "reshape")
    return node.inputs[0] if node is not None else None


def _scalar_behind(builder: GraphBuilder, value: ValueId) -> ValueId | None:
    node = builder.made_by(value, "broadcast")
    source = node.inputs[0] if node is not None else value
    return source if math.prod(builder.types[source].shape) == 1 else None


RULES: tuple[Rule, ...] = (
    _identity,
    _one_reshape,
    _one_broadcast,
    _one_transpose,
    _no_slice,
    _slices_for_split,
    _no_cast,
    _without_empty_parts,
    _one_concatenation,
    _reshape_behind,
)
