"""One node of a graph as the call of MLX that its tracer saw."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

import mlx.core as mx
import numpy as np

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph, Node
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, mean_divisor, op_named
from kernelwright.ir.ops.axes import slices
from kernelwright.ir.ops.indexing import COMBINING
from kernelwright.ir.ops.random import counters, needed_words, threefry, word_count
from kernelwright.ir.trace.replay_attention import replay_attention

MlxArray = mx.array
Outputs = MlxArray | Sequence[MlxArray]
Replay = Callable[..., Outputs]
"""`(call, *arrays)` in MLX arrays -> output, or outputs."""


def replay(graph: Graph, node: Node, arrays: Sequence[mx.array]) -> Sequence[mx.array]:
    """Run one node with MLX.

    Raises:
        UnsupportedError: the op has no replay.
    """
    call, known = Call.of(graph, node), op_named(node.op).mlx
    special = _SPECIAL.get(node.op)
    if known is not None:
        function: Callable[..., Outputs] = attrgetter(known.function)(mx)
        result = function(*arrays, **known.keywords(call))
    elif special is not None:
        result = special(call, *arrays)
    else:
        raise UnsupportedError(
            f"the op {node.op!r} cannot be replayed from a trace; leave it to MLX."
        )
    return [result] if isinstance(result, mx.array) else result


def to_mlx_dtype(dtype: Dtype) -> mx.Dtype:
    """Return MLX's own dtype."""
    found: mx.Dtype = getattr(mx, "bool_" if dtype is Dtype.BOOL else dtype.value)
    return found


def _equal(call: Call, x: mx.array, y: mx.array) -> mx.array:
    same = x == y
    return same | ((x != x) & (y != y)) if call.flag("equal_nan") else same


def _mean(call: Call, x: mx.array) -> mx.array:
    total = mx.sum(x, axis=call.integers("axes"), keepdims=True)
    divisor = mean_divisor(call)
    if call.text("form") == "divide":
        return total / mx.array(divisor, x.dtype)
    return total * mx.array(1.0 / divisor, x.dtype)


def _arange(call: Call) -> mx.array:
    dtype = to_mlx_dtype(call.outputs[0].dtype)
    return mx.arange(call.number("start"), call.number("stop"), call.number("step"), dtype)


def _slice_places(call: Call) -> tuple[slice, ...]:
    return slices(call)


def _pad(call: Call, x: mx.array, value: mx.array) -> mx.array:
    widths = [(0, 0)] * x.ndim
    sides = zip(call.integers("axes"), call.integers("low"), call.integers("high"), strict=True)
    for axis, low, high in sides:
        widths[axis] = (low, high)
    return mx.pad(x, widths, constant_values=value)


def _sorted_slice(whole: str, partial: str) -> Replay:
    """Return what sorts all of the last axis, as the graph's writer did, and takes some ranks."""

    def taken(call: Call, x: mx.array) -> mx.array:
        kth = call.integer("kth")
        ordered = getattr(mx, whole)(x) if kth < 0 else getattr(mx, partial)(x, kth)
        start, step = call.integer("start"), call.integer("step")
        stop = start + step * call.integer("count")
        found: mx.array = ordered[..., start : None if stop < 0 else stop : step]
        return found

    return taken


def _window_places(
    shape: tuple[int, ...], axes: tuple[int, ...], sizes: Sequence[int], indices: Sequence[mx.array]
) -> tuple[mx.array, ...]:
    """Return one index array per axis that picks windows of `sizes` at `indices`."""
    lead = np.broadcast_shapes(*(i.shape for i in indices))
    places = []
    for axis, size in enumerate(sizes):
        along = [-1 if a == axis else 1 for a in range(len(shape))]
        place = mx.arange(size, dtype=mx.int64).reshape(along)
        if axis in axes:
            start = indices[axes.index(axis)].astype(mx.int64)
            start = mx.broadcast_to(mx.where(start < 0, start + shape[axis], start), lead)
            place = place + start.reshape(lead + (1,) * len(shape))
        places.append(place)
    return tuple(mx.broadcast_to(p, lead + tuple(sizes)) for p in places)


def _gather(call: Call, x: mx.array, *indices: mx.array) -> mx.array:
    axes, sizes = call.integers("axes"), call.integers("slice_sizes")
    if not axes:
        return x
    whole = all(size == (1 if axis in axes else x.shape[axis]) for axis, size in enumerate(sizes))
    if not whole:
        return x[_window_places(x.shape, axes, sizes, indices)]
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    rows = mx.transpose(x, [*axes, *rest])[tuple(indices)]
    lead = rows.ndim - len(rest)
    return mx.expand_dims(rows, [lead + axis for axis in axes])


def _combine(x: mx.array, places: object, updates: mx.array, how: str) -> mx.array:
    if how != "none":
        result: mx.array = getattr(x.at[places], COMBINING[how])(updates)
        return result
    # Assignment changes the Python object, so it needs one of its own.
    copy = mx.array(x)
    copy[places] = updates
    return copy


def _scatter(call: Call, x: mx.array, *rest: mx.array) -> mx.array:
    *indices, updates = rest
    axes, lead = call.integers("axes"), updates.ndim - x.ndim
    sizes = updates.shape[lead:]
    whole = all(size == (1 if axis in axes else x.shape[axis]) for axis, size in enumerate(sizes))
    if not whole or not axes:
        places = _window_places(x.shape, axes, sizes, indices)
        return _combine(x, places, updates, call.text("reduce"))
    order = [*axes, *(axis for axis in range(x.ndim) if axis not in axes)]
    rows = mx.squeeze(updates, [lead + axis for axis in axes])
    moved = mx.transpose(x, order)
    result = _combine(moved, tuple(indices), rows, call.text("reduce"))
    return mx.transpose(result, [order.index(axis) for axis in range(x.ndim)])


def _scatter_axis(call: Call, x: mx.array, index: mx.array, updates: mx.array) -> mx.array:
    axis = call.integer("axis")
    if call.text("reduce") == "none":
        return mx.put_along_axis(x, index, updates, axis)
    places = []
    for a, size in enumerate(index.shape):
        along = [-1 if b == a else 1 for b in range(index.ndim)]
        place = index if a == axis else mx.arange(size).reshape(along)
        places.append(mx.broadcast_to(place, index.shape))
    return _combine(x, tuple(places), mx.broadcast_to(updates, index.shape), "sum")


def _masked_scatter(call: Call, x: mx.array, mask: mx.array, source: mx.array) -> mx.array:
    flat = mx.broadcast_to(mask, x.shape).reshape(x.shape[0], -1)
    place = mx.maximum(mx.cumsum(flat.astype(mx.int32), axis=1) - 1, 0)
    values = mx.take_along_axis(source.reshape(x.shape[0], -1), place, axis=1)
    return mx.where(flat, values, x.reshape(x.shape[0], -1)).reshape(x.shape)


def _random_bits(call: Call, key: mx.array) -> mx.array:
    words = {w: mx.array([w], mx.uint32) for w in needed_words()}
    count = word_count(call)
    first, second = (mx.array(c) for c in counters(count))
    pairs = key.reshape(-1, 2)
    x, y = threefry((pairs[:, :1], pairs[:, 1:]), (first, second), words)
    filled = mx.concatenate([x, y], axis=1)[:, :count]
    dtype, shape = call.outputs[0].dtype, call.outputs[0].shape
    elements = call.outputs[0].size // pairs.shape[0]
    return filled.view(to_mlx_dtype(dtype))[:, :elements].reshape(shape)


def _convolution(call: Call, x: mx.array, weight: mx.array) -> mx.array:
    return mx.conv_general(
        x,
        weight,
        stride=call.integers("strides"),
        padding=(list(call.integers("padding_low")), list(call.integers("padding_high"))),
        kernel_dilation=call.integers("kernel_dilation"),
        input_dilation=call.integers("input_dilation"),
        groups=call.integer("groups"),
        flip=call.flag("flip"),
    )


def _quantization(call: Call) -> Mapping[str, int | str]:
    return {name: call.attributes[name] for name in ("group_size", "bits", "mode")}  # type: ignore[misc]


def _quantized_matmul(call: Call, x: mx.array, w: mx.array, *scale: mx.array) -> mx.array:
    scales, biases = scale if len(scale) == 2 else (scale[0], None)
    transpose = call.flag("transpose")
    return mx.quantized_matmul(x, w, scales, biases, transpose, **_quantization(call))  # type: ignore[arg-type]


def _gather_qmm(call: Call, x: mx.array, w: mx.array, *rest: mx.array) -> mx.array:
    *scale, left, right = rest
    return mx.gather_qmm(
        x,
        w,
        scale[0],
        scale[1] if len(scale) == 2 else None,
        left,
        right,
        call.flag("transpose"),
        sorted_indices=call.flag("left_sorted") or call.flag("right_sorted"),
        **_quantization(call),  # type: ignore[arg-type]
    )


def _gather_mm(call: Call, x: mx.array, y: mx.array, left: mx.array, right: mx.array) -> mx.array:
    is_sorted = call.flag("left_sorted") or call.flag("right_sorted")
    x, y = _multiplied_here(x, y)
    made = mx.gather_mm(x, y, left, right, sorted_indices=is_sorted)
    return made.astype(to_mlx_dtype(call.outputs[0].dtype))


def _block_masked(call: Call, x: mx.array, y: mx.array, *masks: mx.array) -> mx.array:
    # MLX lists the output's mask first, then those of both operands.
    out = masks[0] if len(masks) % 2 else None
    left, right = masks[-2:] if len(masks) >= 2 else (None, None)
    x, y = _multiplied_here(x, y)
    made = mx.block_masked_mm(x, y, call.integer("block_size"), out, left, right)
    return made.astype(to_mlx_dtype(call.outputs[0].dtype))


def _multiplied_here(x: mx.array, y: mx.array) -> tuple[mx.array, mx.array]:
    """Return factors as the backend takes them in a product of chosen matrices or blocks.

    On a CPU that is float32 alone; products are added up in float32 and rounded once anywhere.
    """
    if mx.default_device() != mx.Device(mx.cpu):
        return x, y
    return x.astype(mx.float32), y.astype(mx.float32)


def _fft(call: Call, x: mx.array) -> mx.array:
    axes = call.integers("axes")
    sizes = tuple(call.outputs[0].shape[axis] for axis in axes)
    if not call.flag("real"):
        return mx.fft.ifftn(x, axes=axes) if call.flag("inverse") else mx.fft.fftn(x, axes=axes)
    if call.flag("inverse"):
        return mx.fft.irfftn(x, s=sizes, axes=axes)
    return mx.fft.rfftn(x, axes=axes)


def _inverse(call: Call, x: mx.array) -> mx.array:
    if call.flag("triangular"):
        return mx.linalg.tri_inv(x, call.flag("upper"))
    return mx.linalg.inv(x)


def _eig(call: Call, x: mx.array) -> Outputs:
    return mx.linalg.eig(x) if call.flag("compute_eigenvectors") else mx.linalg.eigvals(x)


def _eigh(call: Call, x: mx.array) -> Outputs:
    triangle = call.text("triangle")
    if call.flag("compute_eigenvectors"):
        return mx.linalg.eigh(x, triangle)
    return mx.linalg.eigvalsh(x, triangle)


def _quantize(call: Call, *arrays: mx.array) -> Outputs:
    if call.flag("dequantize"):
        raise UnsupportedError(
            "a dequantize call traced on a GPU cannot be replayed; trace on CPU."
        )
    return mx.quantize(arrays[0], **_quantization(call))  # type: ignore[arg-type]


def _depends(call: Call, *arrays: mx.array) -> Outputs:
    count = len(call.outputs)
    outputs: list[mx.array] = mx.depends(list(arrays[:count]), list(arrays[count:]))
    return outputs


_SPECIAL: Mapping[str, Replay] = {
    "equal": _equal,
    "cast": lambda call, x: x.astype(to_mlx_dtype(call.dtype("dtype"))),
    "mean": _mean,
    "slice": lambda call, x: x[_slice_places(call)],
    "split": lambda call, x: mx.split(x, list(call.integers("indices")), call.integer("axis")),
    "full": lambda call, x: mx.full(x.shape, x),
    "copy": lambda call, x: x,
    "contiguous": lambda call, x: x,
    "depends": _depends,
    "arange": _arange,
    "concatenate": lambda call, *arrays: mx.concatenate(list(arrays), axis=call.integer("axis")),
    "pad": _pad,
    "gather": _gather,
    "scatter": _scatter,
    "scatter_axis": _scatter_axis,
    "masked_scatter": _masked_scatter,
    "slice_update": lambda call, x, u: _combine(x, _slice_places(call), u, call.text("reduce")),
    "dynamic_slice": lambda call, x, start: mx.slice(
        x, start, call.integers("axes"), call.integers("shape")
    ),
    "dynamic_slice_update": lambda call, x, u, start: mx.slice_update(
        x, u, start, call.integers("axes")
    ),
    "sorted_slice": _sorted_slice("sort", "partition"),
    "argsorted_slice": _sorted_slice("argsort", "argpartition"),
    "search_sorted": lambda call, x, v: mx.searchsorted(
        x, v, "right" if call.flag("right") else "left"
    ),
    "addmm": lambda call, x, y, bias: mx.addmm(
        bias, x, y, alpha=call.number("alpha"), beta=call.number("beta")
    ),
    "gather_mm": _gather_mm,
    "quantized_matmul": _quantized_matmul,
    "gather_qmm": _gather_qmm,
    "dequantize": lambda call, w, scales, biases: mx.dequantize(
        w, scales, biases, call.integer("group_size"), call.integer("bits")
    ),
    "block_masked_mm": _block_masked,
    "attention": replay_attention,
    "convolution": _convolution,
    "random_bits": _random_bits,
    "view": lambda call, x: x.view(to_mlx_dtype(call.dtype("dtype"))),
    "fft": _fft,
    "inverse": _inverse,
    "eig": _eig,
    "eigh": _eigh,
    "quantize": _quantize,
}
"""Ops that are more than one call of a function of MLX, or whose arguments it takes otherwise."""
