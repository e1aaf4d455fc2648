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
    """Return the stops of an update; an axis whose size changes is updated from end to end."""
    ends = zip(call.inputs[0].shape, call.integers("stop"), output.shape, strict=True)
    return {"stop": tuple(stop if new == old else new for old, stop, new in ends)}


def new_stop(call: Call, inputs: Types, output: TensorType) -> Attributes:
    """Return the stop of a range."""
    return {"stop": call.number("start") + call.number("step") * output.shape[0]}


def new_windows(call: Call, inputs: Types, output: TensorType) -> Attributes:
    """Return the sizes of what is gathered at each place."""
    rank = len(inputs[0].shape)
    return {"slice_sizes": output.shape[len(output.shape) - rank :]}


def new_slice(call: Call, inputs: Types, output: TensorType) -> Attributes:
    """Return starts and stops of a slice that takes a part of an axis, or all of it."""
    source, result = inputs[0].shape, output.shape
    starts, stops = [], []
    for axis, (start, stop) in enumerate(
        zip(call.integers("start"), call.integers("stop"), strict=True)
    ):
        before = call.outputs[0].shape[axis]
        if source[axis] == call.inputs[0].shape[axis] or before == 0:
            starts.append(start)
            stops.append(stop)
        else:
            # The slice is an even part of the axis: part number start / before.
            starts.append(start // before * result[axis])
            stops.append(starts[-1] + result[axis])
    return {"start": tuple(starts), "stop": tuple(stops)}
