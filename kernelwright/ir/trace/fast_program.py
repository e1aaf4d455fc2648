"""Norms and rotary embeddings as programs of `mx.fast`, which a trace on the CPU takes apart."""

from collections.abc import Mapping, Sequence

import mlx.core as mx

from kernelwright.ir.graph import TensorType
from kernelwright.ir.match.rope_call import RopeCall
from kernelwright.ir.trace.replay import to_mlx_dtype
from kernelwright.ir.trace.stitch import Reading


def norm_rows(
    name: str, operands: Mapping[str, mx.array], shape: tuple[int, ...], epsilon: float
) -> mx.array:
    """Compute `rms_norm` or `layer_norm` of `x` along the last axis of a shape.

    A weight and a bias that are given hold one number a column, whatever their shapes.
    """
    x = operands["x"].reshape(shape)
    weight, bias = (
        operands[role].reshape(shape[-1]) if role in operands else None
        for role in ("weight", "bias")
    )
    if name == "rms_norm":
        return mx.fast.rms_norm(x, weight, epsilon)
    return mx.fast.layer_norm(x, weight, bias, epsilon)


def rope_program(call: RopeCall, made: TensorType) -> Reading:
    """Return `mx.fast.rope`, and a product beside it where tables are scaled."""
    dtype = to_mlx_dtype(made.dtype)
    batch, before, count, behind = call.rows
    values = (call.x, call.frequencies, *([] if call.offset is None else [call.offset]))
    part = slice(call.first, call.first + call.width)

    def run(arrays: Sequence[mx.array]) -> Sequence[mx.array]:
        x, frequencies, *offset = arrays
        taken = x.reshape(batch, before, count, behind, -1)[..., part].astype(dtype)
        turned = mx.fast.rope(
            taken.swapaxes(2, 3).reshape(batch, before * behind, count, call.width),
            call.dims,
            traditional=call.layout == "interleaved",
            base=None,
            scale=call.scale,
            offset=_from_start(offset[0], call.start) if offset else call.start,
            freqs=mx.reciprocal(frequencies.reshape(-1)[: call.dims // 2]),
        )
        if call.amplitude != 1.0:
            kept = [1.0] * (call.width - call.dims)
            turned = turned * mx.array([call.amplitude] * call.dims + kept, dtype)
        whole = turned.reshape(batch, before, behind, count, call.width).swapaxes(2, 3)
        return [whole.reshape(made.shape)]

    return Reading(values, run)


def _from_start(offset: mx.array, start: int) -> mx.array:
    """Return one number for all rows, or one a batch."""
    whole = offset.reshape(() if offset.size == 1 else -1)
    return whole + start if start else whole
