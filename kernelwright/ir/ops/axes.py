"""Axes and places that the attributes of a call name."""

from kernelwright.ir.ops.op import Call


def slices(call: Call) -> tuple[slice, ...]:
    """Return a slice per axis; MLX keeps Python's own meaning of negative stops."""
    return tuple(
        slice(start, stop, stride)
        for start, stop, stride in zip(
            call.integers("start"), call.integers("stop"), call.integers("strides"), strict=True
        )
    )


def reduced_axes(call: Call) -> tuple[int, ...]:
    """Return the axes over which a reduction combines values; the last one where it names none."""
    rank = len(call.inputs[0].shape)
    if "axes" in call.attributes:
        return tuple(sorted(axis % rank for axis in call.integers("axes")))
    return (call.integer("axis") % rank if "axis" in call.attributes else rank - 1,)
