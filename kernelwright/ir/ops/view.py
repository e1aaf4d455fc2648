"""Ops that move no value: only index arithmetic stands between output and input."""

from itertools import pairwise

import numpy as np

from kernelwright.ir.ops.op import Array, Call, InferShapes, Kind, Meaning, MlxCall, Op, Shape


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


def slices(call: Call) -> tuple[slice, ...]:
    """Return a slice per axis; MLX keeps Python's own meaning of negative stops."""
    return tuple(
        slice(start, stop, stride)
        for start, stop, stride in zip(
            call.integers("start"), call.integers("stop"), call.integers("strides"), strict=True
        )
    )


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


def _view(
    name: str,
    meaning: Meaning,
    shapes: InferShapes,
    mlx: MlxCall | None,
    *attributes: str,
    exact: bool = False,
) -> Op:
    return Op(name, Kind.VIEW, meaning, attributes, shapes, mlx, is_exact=exact)


def _broadcast(call: Call, x: Array) -> Array:
    return np.broadcast_to(x, call.integers("shape"))


def _transpose(call: Call, x: Array) -> Array:
    return np.transpose(x, call.integers("axes"))


def _depends(call: Call, *arrays: Array) -> tuple[Array, ...]:
    return arrays[: len(call.outputs)]


_AXES = (("axis", "axes"),)
_SHAPE = (("shape", "shape"),)
_ENDS = ("start_axis", "end_axis")
_STRIDES = ("shape", "strides", "offset")

OPS: tuple[Op, ...] = (
    _view("broadcast", _broadcast, _shape, MlxCall("broadcast_to", _SHAPE), "shape", exact=True),
    _view("reshape", _reshape, _shape, MlxCall("reshape", _SHAPE), "shape", exact=True),
    _view("expand_dims", _reshape, _expanded, MlxCall("expand_dims", _AXES), "axes", exact=True),
    _view("squeeze", _reshape, _squeezed, MlxCall("squeeze", _AXES), "axes", exact=True),
    _view(
        "flatten",
        _reshape,
        _flattened,
        MlxCall("flatten", tuple((a, a) for a in _ENDS)),
        *_ENDS,
        exact=True,
    ),
    _view(
        "unflatten",
        _reshape,
        _unflattened,
        MlxCall("unflatten", (("axis", "axis"), *_SHAPE)),
        "axis",
        "shape",
        exact=True,
    ),
    _view("transpose", _transpose, _transposed, MlxCall("transpose", (("axes", "axes"),)), "axes"),
    _view("slice", _slice, _sliced, None, "start", "stop", "strides"),
    _view("split", _split, _split_shapes, None, "indices", "axis"),
    _view(
        "as_strided",
        _as_strided,
        _shape,
        MlxCall("as_strided", tuple((a, a) for a in _STRIDES)),
        *_STRIDES,
    ),
    # `full` materialises a broadcast in MLX; its value is its operand's.
    Op("full", Kind.VIEW, _identity),
    Op("copy", Kind.VIEW, _identity),
    Op("contiguous", Kind.VIEW, _identity),
    Op("stop_gradient", Kind.VIEW, _identity, mlx=MlxCall("stop_gradient")),
    Op("depends", Kind.BARRIER, _depends, shapes=_output_shape),
)
