"""Ops that copy or make values by position."""

import math
from collections.abc import Callable

import numpy as np

from kernelwright.ir.ops import batching, index_range, least_read, relation, relation_of_slice
from kernelwright.ir.ops.axes import slices
from kernelwright.ir.ops.behaviour import Behaviour, Domain
from kernelwright.ir.ops.elementwise import exact_dtype
from kernelwright.ir.ops.op import Array, Call, Kind, MlxCall, Op, Shape
from kernelwright.ir.ops.resizing import new_stop, new_update, new_windows


def _arange(call: Call) -> Array:
    start, step = call.number("start"), call.number("step")
    count = call.outputs[0].shape[0]
    dtype = exact_dtype(call.outputs[0].dtype)
    return (start + step * np.arange(count, dtype=np.float64)).astype(dtype)


def _arange_shape(call: Call) -> tuple[Shape, ...]:
    span = call.number("stop") - call.number("start")
    return ((max(math.ceil(span / call.number("step")), 0),),)


def _concatenated(call: Call) -> tuple[Shape, ...]:
    axis, shape = call.integer("axis"), call.inputs[0].shape
    total = sum(t.shape[axis] for t in call.inputs)
    return ((*shape[:axis], total, *shape[axis + 1 :]),)


def _pad_widths(call: Call) -> list[tuple[int, int]]:
    widths = [(0, 0)] * len(call.inputs[0].shape)
    sides = zip(call.integers("axes"), call.integers("low"), call.integers("high"), strict=True)
    for axis, low, high in sides:
        widths[axis] = (low, high)
    return widths


def _pad(call: Call, x: Array, value: Array) -> Array:
    return np.pad(x, _pad_widths(call), constant_values=value.item())


def _padded(call: Call) -> tuple[Shape, ...]:
    widths = zip(call.inputs[0].shape, _pad_widths(call), strict=True)
    return (tuple(n + low + high for n, (low, high) in widths),)


def _wrap(index: Array, size: int) -> Array:
    # MLX wraps negative indices once; unsigned ones are taken as they are.
    signed = index.astype(np.int64)
    wrapped = np.where(signed < 0, signed + size, signed)
    if (wrapped < 0).any():
        # NumPy would wrap it again.
        raise IndexError(f"index {signed.min()} is out of bounds for a size of {size}")
    return wrapped


def _gather(call: Call, x: Array, *indices: Array) -> Array:
    """Windows of `slice_sizes` at every index, after the index dimensions."""
    axes, sizes = call.integers("axes"), call.integers("slice_sizes")
    lead = np.broadcast_shapes(*(i.shape for i in indices))
    places: list[Array] = []
    for axis, size in enumerate(sizes):
        offset = np.arange(size).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        if axis in axes:
            start = _wrap(indices[axes.index(axis)], x.shape[axis])
            start = np.broadcast_to(start, lead)
            offset = start.reshape(lead + (1,) * x.ndim) + offset
        places.append(offset)
    return x[tuple(np.broadcast_arrays(*places))] if places else x


def _gathered(call: Call) -> tuple[Shape, ...]:
    lead = np.broadcast_shapes(*(t.shape for t in call.inputs[1:]))
    return ((*lead, *call.integers("slice_sizes")),)


def _gather_axis(call: Call, x: Array, index: Array) -> Array:
    axis = call.integer("axis")
    wrapped = _wrap(index, x.shape[axis])
    return np.take_along_axis(x, wrapped, axis)


COMBINING = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
"""The op by which an update is joined with what stands at its place, by its `reduce`."""
_COMBINE: dict[str, Callable[[Array, tuple[Array, ...], Array], None]] = {
    "max": np.maximum.at,
    "min": np.minimum.at,
    "sum": np.add.at,
    "prod": np.multiply.at,
    "none": lambda x, place, update: x.__setitem__(place, update),
}


def _scatter(call: Call, x: Array, *rest: Array) -> Array:
    """Combine windows `updates` into `x` at the indices of some axes."""
    *indices, updates = rest
    axes = call.integers("axes")
    lead = np.broadcast_shapes(*(i.shape for i in indices))
    sizes = updates.shape[len(lead) :]
    places: list[Array] = []
    for axis, size in enumerate(sizes):
        offset = np.arange(size).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        if axis in axes:
            start = _wrap(indices[axes.index(axis)], x.shape[axis])
            offset = np.broadcast_to(start, lead).reshape(lead + (1,) * x.ndim) + offset
        places.append(np.broadcast_to(offset, updates.shape))
    result = x.copy()
    _COMBINE[call.text("reduce")](result, tuple(places), updates)
    return result


def _scatter_axis(call: Call, x: Array, index: Array, updates: Array) -> Array:
    axis = call.integer("axis")
    wrapped = _wrap(index, x.shape[axis])
    updates = np.broadcast_to(updates, index.shape)
    places = list(np.indices(index.shape))
    places[axis] = wrapped
    result = x.copy()
    _COMBINE[call.text("reduce")](result, tuple(places), updates)
    return result


def _masked_scatter(call: Call, x: Array, mask: Array, source: Array) -> Array:
    """Fill the true places of each batch row with the row's next values, in order."""
    result = x.copy()
    for row in range(x.shape[0]):
        chosen = np.broadcast_to(mask[row], x[row].shape)
        result[row][chosen] = source[row].reshape(-1)[: int(chosen.sum())]
    return result


def _slice_update(call: Call, x: Array, update: Array) -> Array:
    result = x.copy()
    place = slices(call)
    grid = np.ix_(*(np.arange(n)[s] for n, s in zip(x.shape, place, strict=True)))
    _COMBINE[call.text("reduce")](result, grid, update)
    return result


def _dynamic_place(call: Call, shape: Shape, start: Array, sizes: Shape) -> tuple[slice, ...]:
    begins = [0] * len(shape)
    for axis, value in zip(call.integers("axes"), start.reshape(-1), strict=True):
        places = shape[axis] - sizes[axis] + 1
        if not 0 <= value < places:
            # MLX 0.32.4 reads and writes outside the array; nothing is meant then.
            raise IndexError(f"start {value} is out of bounds for axis {axis} with {places} places")
        begins[axis] = int(value)
    return tuple(slice(b, b + n) for b, n in zip(begins, sizes, strict=True))


def _dynamic_slice(call: Call, x: Array, start: Array) -> Array:
    return x[_dynamic_place(call, x.shape, start, call.integers("shape"))]


def _dynamic_slice_update(call: Call, x: Array, update: Array, start: Array) -> Array:
    result = x.copy()
    result[_dynamic_place(call, x.shape, start, update.shape)] = update
    return result


def _like_index(call: Call) -> tuple[Shape, ...]:
    return (call.inputs[1].shape,)


def _concatenate(call: Call, *arrays: Array) -> Array:
    return np.concatenate(arrays, axis=call.integer("axis"))


def _attribute_shape(call: Call) -> tuple[Shape, ...]:
    return (call.integers("shape"),)


_READING = Behaviour(data_places=(0,), is_total=True, domains=(Domain.ANY, Domain.INDEX, ...))
_WRITING = Behaviour(data_places=(0, -1), domains=(Domain.ANY, Domain.INDEX, ..., Domain.ANY))

OPS: tuple[Op, ...] = (
    Op(
        "arange",
        Kind.INDEXING,
        _arange,
        attributes=("start", "stop", "step"),
        shapes=_arange_shape,
        relation=relation.counted,
        resized=new_stop,
    ),
    Op(
        "concatenate",
        Kind.INDEXING,
        _concatenate,
        attributes=("axis",),
        shapes=_concatenated,
        behaviour=Behaviour(is_total=True),
        flops_per_element=0,
        relation=relation.concatenated,
        batching=batching.beside_axis,
    ),
    Op(
        "pad",
        Kind.INDEXING,
        _pad,
        ("axes", "low", "high"),
        _padded,
        flops_per_element=0,
        relation=relation.padded,
        batching=batching.beside_axes,
    ),
    Op(
        "gather",
        Kind.INDEXING,
        _gather,
        ("axes", "slice_sizes"),
        _gathered,
        behaviour=_READING,
        flops_per_element=0,
        relation=relation.gathered,
        batching=batching.gathered,
        resized=new_windows,
        least_read=least_read.gathered,
        index_ranges=index_range.of_gathered,
    ),
    Op(
        "gather_axis",
        Kind.INDEXING,
        _gather_axis,
        ("axis",),
        _like_index,
        mlx=MlxCall("take_along_axis", (("axis", "axis"),)),
        behaviour=_READING,
        flops_per_element=0,
        relation=relation.gathered_along,
        batching=batching.beside_axis,
        least_read=least_read.gathered_along,
        index_ranges=index_range.of_axis,
    ),
    Op(
        "scatter",
        Kind.INDEXING,
        _scatter,
        ("reduce", "axes"),
        behaviour=_WRITING,
        index_ranges=index_range.of_scattered,
        least_read=least_read.scattered,
    ),
    Op(
        "scatter_axis",
        Kind.INDEXING,
        _scatter_axis,
        ("reduce", "axis"),
        behaviour=_WRITING,
        relation=relation.scattered_along,
        index_ranges=index_range.of_axis,
        least_read=least_read.scattered,
    ),
    Op(
        "masked_scatter",
        Kind.INDEXING,
        _masked_scatter,
        behaviour=Behaviour(data_places=(0, 2)),
        flops_per_element=0,
    ),
    Op(
        "slice_update",
        Kind.INDEXING,
        _slice_update,
        ("reduce", "start", "stop", "strides"),
        behaviour=Behaviour(data_places=(0, 1)),
        relation=relation_of_slice.updated,
        resized=new_update,
        least_read=least_read.updated,
    ),
    Op(
        "dynamic_slice",
        Kind.INDEXING,
        _dynamic_slice,
        attributes=("axes", "shape"),
        shapes=_attribute_shape,
        behaviour=Behaviour(data_places=(0,), domains=(Domain.ANY, Domain.INDEX)),
        flops_per_element=0,
        least_read=least_read.cut_anywhere,
        index_ranges=index_range.of_window,
    ),
    Op(
        "dynamic_slice_update",
        Kind.INDEXING,
        _dynamic_slice_update,
        attributes=("axes",),
        behaviour=Behaviour(data_places=(0, 1), domains=(Domain.ANY, Domain.ANY, Domain.INDEX)),
        flops_per_element=0,
        least_read=least_read.updated,
        index_ranges=index_range.of_updated_window,
    ),
)
