"""Attributes that spell out sizes, written anew for other sizes."""

from collections.abc import Mapping

from kernelwright.ir.graph import Attribute, TensorType
from kernelwright.ir.ops.op import Call

Types = tuple[TensorType, ...]
Attributes = Mapping[str, Attribute]


def new_shape(call: Call, inputs: Types, output: TensorType) -> Attributes:
    """Return the whole shape of the output."""
    return {"shape": output.shape}


def new_parts(call: Call, inputs: Types, output: TensorType) -> Attributes:
    """Return the sizes of the axes that one is split into."""
    axis, rank = call.integer("axis"), len(call.integers("shape"))
    return {"shape": output.shape[axis : axis + rank]}


def new_update(call: Call, inputs: Types, output: TensorType) -> Attributes:
    """Return the stops of an update; those that are counted from the end stay."""
    ends = zip(call.inputs[0].shape, call.integers("stop"), output.shape, strict=True)
    return {"stop": tuple(stop if stop < 0 else stop + new - old for old, stop, new in ends)}


def new_stop(call: Call, inputs: Types, output: TensorType) -> Attributes:
    """Return the stop of a range."""
    return {"stop": call.number("start") + call.number("step") * output.shape[0]}


def new_windows(call: Call, inputs: Types, output: TensorType) -> Attributes:
    """Return the sizes of what is gathered at each place."""
    rank = len(inputs[0].shape)
    return {"slice_sizes": output.shape[len(output.shape) - rank :]}


def new_cuts(call: Call, inputs: Types, output: TensorType) -> Attributes:
    """Return the places at which an axis is cut into equal parts, or as they were."""
    part, count = output.shape[call.integer("axis")], len(call.outputs)
    if part == call.outputs[0].shape[call.integer("axis")]:
        return {}
    return {"indices": tuple(part * i for i in range(1, count))}


def new_slice(call: Call, inputs: Types, output: TensorType) -> Attributes:
    """Return starts and stops of a slice, which takes a part of an axis or goes on to its end."""
    axes = range(len(output.shape))
    ends = [_ends(call, axis, inputs[0].shape[axis], output.shape[axis]) for axis in axes]
    return {"start": tuple(e[0] for e in ends), "stop": tuple(e[1] for e in ends)}


def _ends(call: Call, axis: int, size: int, taken: int) -> tuple[int, int]:
    """Return where a slice of an axis starts and stops, once the axis has another size."""
    start, stop, step = (call.integers(name)[axis] for name in ("start", "stop", "strides"))
    old_size, old_taken = call.inputs[0].shape[axis], call.outputs[0].shape[axis]
    if size == old_size or old_taken == 0:
        return start, stop
    if step < 0:
        return size - 1, -size - 1
    if size - old_size == step * (taken - old_taken):
        return start, stop if stop < 0 else stop + size - old_size
    if taken == old_taken and stop == old_size:
        # The last few elements.
        return size - taken, size
    # The slice is an even part of the axis: part number start / before.
    start = start // old_taken * taken
    return start, start + taken
