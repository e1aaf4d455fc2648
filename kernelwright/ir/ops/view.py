"""Ops that move no value: only index arithmetic stands between output and input."""

from itertools import pairwise

import numpy as np

from kernelwright.ir.ops import batching, relation, relation_of_slice
from kernelwright.ir.ops.axes import slices
from kernelwright.ir.ops.behaviour import Behaviour
from kernelwright.ir.ops.box import Box, box_within
from kernelwright.ir.ops.op import Array, Call, InferShapes, Kind, MlxCall, Op, Resize, Shape
from kernelwright.ir.ops.resizing import new_cuts, new_parts, new_shape, new_slice


def _shape(call: Call) -> tuple[Shape, ...]:
    return (call.integers("shape"),)


def _output_shape(call: Call) -> tuple[Shape, ...]:
    # The result depends on attributes alone once the element count is fixed.
    return tuple(t.shape for t in call.outputs)


def _reshape(call: Call, x: Array) -> Array:
    return x.reshape(call.outputs[0].shape)


def _expanded(call: Call) -> tuple[Shape, ...]:
    axes = call.integers("axes")
    sizes = iter(call.inputs[0].shape)
    rank = len(call.inputs[0].shape) + len(axes)
    return (tuple(1 if i in axes else next(sizes) for i in range(rank)),)


def _squeezed(call: Call) -> tuple[Shape, ...]:
    axes = call.integers("axes")
    return (tuple(n for i, n in enumerate(call.inputs[0].shape) if i not in axes),)


def _flattened(call: Call) -> tuple[Shape, ...]:
    start, end = call.integer("start_axis"), call.integer("end_axis")
    shape = call.inputs[0].shape
    merged = int(np.prod(shape[start : end + 1]))
    return ((*shape[:start], merged, *shape[end + 1 :]),)


def _unflattened(call: Call) -> tuple[Shape, ...]:
    axis, shape = call.integer("axis"), call.inputs[0].shape
    return ((*shape[:axis], *call.integers("shape"), *shape[axis + 1 :]),)


def _transposed(call: Call) -> tuple[Shape, ...]:
    return (tuple(call.inputs[0].shape[axis] for axis in call.integers("axes")),)


def _sliced(call: Call) -> tuple[Shape, ...]:
    sizes = zip(slices(call), call.inputs[0].shape, strict=True)
    return (tuple(len(range(*s.indices(n))) for s, n in sizes),)


def _slice(call: Call, x: Array) -> Array:
    return x[slices(call)]


def _split(call: Call, x: Array) -> tuple[Array, ...]:
    return tuple(np.split(x, call.integers("indices"), axis=call.integer("axis")))


def _split_shapes(call: Call) -> tuple[Shape, ...]:
    axis, shape = call.integer("axis"), call.inputs[0].shape
    edges = (0, *call.integers("indices"), shape[axis])
    sizes = [max(stop - start, 0) for start, stop in pairwise(edges)]
    return tuple((*shape[:axis], size, *shape[axis + 1 :]) for size in sizes)


def _as_strided(call: Call, x: Array) -> Array:
    flat = np.ascontiguousarray(x).reshape(-1)[call.integer("offset") :]
    strides = tuple(s * flat.itemsize for s in call.integers("strides"))
    return np.lib.stride_tricks.as_strided(flat, call.integers("shape"), strides)


def _identity(call: Call, x: Array) -> Array:
    return x


def _broadcast(call: Call, x: Array) -> Array:
    return np.broadcast_to(x, call.integers("shape"))


def _transpose(call: Call, x: Array) -> Array:
    return np.transpose(x, call.integers("axes"))


def _depends(call: Call, *arrays: Array) -> tuple[Array, ...]:
    return arrays[: len(call.outputs)]


def _reshaping(
    name: str,
    shapes: InferShapes,
    *keywords: tuple[str, str],
    attributes: tuple[str, ...],
    resized: Resize | None = None,
) -> Op:
    return Op(
        name,
        Kind.VIEW,
        _reshape,
        attributes,
        shapes,
        mlx=MlxCall(name, keywords),
        relation=relation.reshaped,
        resized=resized,
        is_exact=True,
    )


def _passing(name: str, mlx: MlxCall | None = None) -> Op:
    return Op(name, Kind.VIEW, _identity, mlx=mlx, relation=relation.alike)


def _transposed_box(call: Call, number: int, box: Box) -> Box:
    axes = [axis % len(box) for axis in call.integers("axes")]
    return tuple(box[axes.index(axis)] for axis in range(len(box)))


def _sliced_box(call: Call, number: int, box: Box) -> Box:
    sizes = zip(slices(call), call.inputs[0].shape, strict=True)
    return box_within(tuple(range(size)[places] for places, size in sizes), box)


def _split_box(call: Call, number: int, box: Box) -> Box:
    axis, shape = call.integer("axis"), call.inputs[0].shape
    start = sum(t.shape[axis] for t in call.outputs[:number])
    part = range(start, start + call.outputs[number].shape[axis])
    return box_within((*map(range, shape[:axis]), part, *map(range, shape[axis + 1 :])), box)


_AXES = ("axis", "axes")
_SHAPE = ("shape", "shape")
_ENDS = ("start_axis", "end_axis")
_STRIDES = ("shape", "strides", "offset")

OPS: tuple[Op, ...] = (
    Op(
        "broadcast",
        Kind.VIEW,
        _broadcast,
        attributes=("shape",),
        shapes=_shape,
        mlx=MlxCall("broadcast_to", (_SHAPE,)),
        relation=relation.spread,
        batching=batching.trailing,
        resized=new_shape,
        is_exact=True,
    ),
    _reshaping("reshape", _shape, _SHAPE, attributes=("shape",), resized=new_shape),
    _reshaping("expand_dims", _expanded, _AXES, attributes=("axes",)),
    _reshaping("squeeze", _squeezed, _AXES, attributes=("axes",)),
    _reshaping("flatten", _flattened, *((a, a) for a in _ENDS), attributes=_ENDS),
    _reshaping(
        "unflatten",
        _unflattened,
        ("axis", "axis"),
        _SHAPE,
        attributes=("axis", "shape"),
        resized=new_parts,
    ),
    Op(
        "transpose",
        Kind.VIEW,
        _transpose,
        attributes=("axes",),
        shapes=_transposed,
        mlx=MlxCall("transpose", (("axes", "axes"),)),
        relation=relation.permuted,
        box_shown=_transposed_box,
        batching=batching.permuted,
    ),
    Op(
        "slice",
        Kind.VIEW,
        _slice,
        attributes=("start", "stop", "strides"),
        shapes=_sliced,
        relation=relation_of_slice.part_of_axes,
        batching=batching.cut,
        box_shown=_sliced_box,
        resized=new_slice,
    ),
    Op(
        "split",
        Kind.VIEW,
        _split,
        ("indices", "axis"),
        _split_shapes,
        relation=relation_of_slice.parted,
        batching=batching.beside_axis,
        resized=new_cuts,
        box_shown=_split_box,
    ),
    Op(
        "as_strided",
        Kind.VIEW,
        _as_strided,
        attributes=_STRIDES,
        shapes=_shape,
        mlx=MlxCall("as_strided", tuple((a, a) for a in _STRIDES)),
        batching=batching.mixed,
        behaviour=Behaviour(overlaps=True),
    ),
    # `full` materialises a broadcast in MLX; its value is its operand's.
    _passing("full"),
    _passing("copy"),
    _passing("contiguous"),
    _passing("stop_gradient", MlxCall("stop_gradient")),
    Op("depends", Kind.BARRIER, _depends, shapes=_output_shape),
)
