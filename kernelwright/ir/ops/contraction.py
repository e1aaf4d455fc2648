"""Ops that multiply and sum over a shared axis: matrix products and convolutions."""

import math
from collections.abc import Callable

import numpy as np

from kernelwright.ir.ops import batching, index_range, relation_of_product
from kernelwright.ir.ops.behaviour import Behaviour, Domain
from kernelwright.ir.ops.gathered_product import gathered_product, stacked
from kernelwright.ir.ops.op import Array, Call, Kind, MlxCall, Op, Shape
from kernelwright.ir.ops.weight import FLOAT_MODES, dequantized, dequantized_floats


def _matmul_shape(call: Call) -> tuple[Shape, ...]:
    left, right = call.inputs[0].shape, call.inputs[1].shape
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    return ((*batch, left[-2], right[-1]),)


def _matmul_flops(call: Call) -> int:
    return 2 * call.outputs[0].size * call.inputs[0].shape[-1]


def _addmm(call: Call, x: Array, y: Array, bias: Array) -> Array:
    return call.number("alpha") * (x @ y) + call.number("beta") * bias


def _gather_mm(call: Call, x: Array, y: Array, left: Array, right: Array) -> Array:
    matrices = stacked(y)
    return gathered_product(x, left, right, lambda chosen: matrices[chosen], y.shape[-1])


def _gather_mm_shape(call: Call) -> tuple[Shape, ...]:
    lead = call.inputs[2].shape
    return ((*lead, call.inputs[0].shape[-2], call.inputs[1].shape[-1]),)


def _weights(call: Call, packed: Array, scales: Array, *biases: Array) -> Array:
    size, bits, mode = call.integer("group_size"), call.integer("bits"), call.text("mode")
    if mode in FLOAT_MODES:
        weights = dequantized_floats(packed, scales, mode)
    else:
        weights = dequantized(packed, scales, biases[0], size, bits)
    return np.swapaxes(weights, -1, -2) if call.flag("transpose") else weights


def _quantized_matmul(call: Call, x: Array, *weights: Array) -> Array:
    return x @ _weights(call, *weights)


def _dequantize(call: Call, packed: Array, scales: Array, biases: Array) -> Array:
    return dequantized(packed, scales, biases, call.integer("group_size"), call.integer("bits"))


def quantized_terms(call: Call, x: Array, *others: Array) -> Array:
    """Add up the absolute terms of a product with quantized weights."""
    if "right_sorted" in dict(call.attributes):
        return _gather_qmm(call, np.abs(x), *others, of_weights=np.abs)
    return np.abs(x) @ np.abs(_weights(call, *others))


def _regrouped(meaning: Callable[..., Array]) -> Callable[..., Array]:
    """Return what marks results that are not finite only because of infinities.

    MLX's kernels add up `scale * sum(x * q) + bias * sum(x)`, where an infinity that meets a zero
    among the numbers `q` is NaN; widened weights first, it stays an infinity.
    """

    def marked(call: Call, *given: Array) -> Array:
        finite = [np.where(np.isinf(a), 0, a) if a.dtype.kind == "f" else a for a in given]
        is_bad = ~np.isfinite(meaning(call, *given))
        return np.asarray(is_bad & ~np.isnan(meaning(call, *finite)))

    return marked


def _dequantized_shape(call: Call) -> tuple[Shape, ...]:
    packed = call.inputs[0].shape
    return ((*packed[:-1], packed[-1] * 32 // call.integer("bits")),)


def _gather_qmm(
    call: Call, x: Array, *rest: Array, of_weights: Callable[[Array], Array] = np.asarray
) -> Array:
    *packed, left, right = rest
    parts = [stacked(part) for part in packed]

    def unpacked(chosen: int) -> Array:
        return of_weights(_weights(call, *(part[chosen] for part in parts)))

    return gathered_product(x, left, right, unpacked, _quantized_columns(call))


def _quantized_columns(call: Call) -> int:
    packed = call.inputs[1].shape
    if call.flag("transpose"):
        return packed[-2]
    return packed[-1] * 32 // call.integer("bits")


def _quantized_shape(call: Call) -> tuple[Shape, ...]:
    left, packed = call.inputs[0].shape, call.inputs[1].shape
    batch = np.broadcast_shapes(left[:-2], packed[:-2])
    return ((*batch, *left[len(left) - 2 : -1], _quantized_columns(call)),)


def _gather_qmm_shape(call: Call) -> tuple[Shape, ...]:
    lead = call.inputs[-1].shape
    return ((*lead, call.inputs[0].shape[-2], _quantized_columns(call)),)


def _dilate(x: Array, axis: int, step: int) -> Array:
    if step == 1:
        return x
    shape = list(x.shape)
    shape[axis] = (shape[axis] - 1) * step + 1
    result = np.zeros(shape, x.dtype)
    result[(*[slice(None)] * axis, slice(None, None, step))] = x
    return result


def _convolution(call: Call, x: Array, weight: Array) -> Array:
    """Channels-last correlation; `x` is [N, …, C], `weight` is [O, …, C / groups]."""
    rank = x.ndim - 2
    low, high = call.integers("padding_low"), call.integers("padding_high")
    for i in range(rank):
        x = _dilate(x, i + 1, call.integers("input_dilation")[i])
    if call.flag("flip"):
        weight = np.flip(weight, tuple(range(1, rank + 1)))
    # A negative padding crops.
    widths = [(0, 0), *((max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)), (0, 0)]
    x = np.pad(x, widths)
    for i, (a, b) in enumerate(zip(low, high, strict=True)):
        crop = slice(max(-a, 0), x.shape[i + 1] - max(-b, 0))
        x = x[(*[slice(None)] * (i + 1), crop)]
    spread = call.integers("kernel_dilation")
    extents = [(n - 1) * d + 1 for n, d in zip(weight.shape[1:-1], spread, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, extents, tuple(range(1, rank + 1)))
    steps = tuple(slice(None, None, s) for s in call.integers("strides"))
    # What lies between the taps is not read.
    taps = tuple(slice(None, None, d) for d in spread)
    windows = windows[(slice(None), *steps, slice(None), *taps)]
    groups = call.integer("groups")
    outputs = []
    for g in range(groups):
        channels = slice(g * weight.shape[-1], (g + 1) * weight.shape[-1])
        filters = slice(g * weight.shape[0] // groups, (g + 1) * weight.shape[0] // groups)
        picked = windows[(*[slice(None)] * (rank + 1), channels)]
        kernel = np.moveaxis(weight[filters], -1, 1)
        axes = tuple(range(rank + 1, 2 * rank + 2))
        outputs.append(np.tensordot(picked, kernel, (axes, tuple(range(1, rank + 2)))))
    return np.concatenate(outputs, axis=-1)


def beside(call: Call, x: Array, weight: Array) -> Array:
    """Mark results of which a weight that is not finite meets a zero.

    It stands around or between the elements, or among them where a pad put it.
    """
    is_bad = (~np.isfinite(weight)).astype(np.float64)
    met = _convolution(call, (x != 0).astype(np.float64), is_bad)
    return np.asarray(met < is_bad.sum(axis=tuple(range(1, weight.ndim))))


def _convolution_shape(call: Call) -> tuple[Shape, ...]:
    x, weight = call.inputs[0].shape, call.inputs[1].shape
    sizes = []
    for i, stride in enumerate(call.integers("strides")):
        dilated = (x[i + 1] - 1) * call.integers("input_dilation")[i] + 1
        padded = dilated + call.integers("padding_low")[i] + call.integers("padding_high")[i]
        window = (weight[i + 1] - 1) * call.integers("kernel_dilation")[i] + 1
        sizes.append((padded - window) // stride + 1)
    return ((x[0], *sizes, weight[0]),)


def _convolution_flops(call: Call) -> int:
    return 2 * call.outputs[0].size * math.prod(call.inputs[1].shape[1:])


def _has_unit_steps(call: Call) -> bool:
    return all(step == 1 for name in _STEPS for step in call.integers(name))


_STEPS = ("strides", "input_dilation")
_QUANTIZED = ("group_size", "bits", "mode", "transpose")

OPS: tuple[Op, ...] = (
    Op(
        "matmul",
        Kind.CONTRACTION,
        lambda call, x, y: x @ y,
        shapes=_matmul_shape,
        mlx=MlxCall("matmul"),
        flops_of=_matmul_flops,
        relation=relation_of_product.multiplied,
        batching=batching.multiplied,
    ),
    Op(
        "addmm",
        Kind.CONTRACTION,
        _addmm,
        attributes=("alpha", "beta"),
        shapes=_matmul_shape,
        primitive="AddMM",
        flops_of=_matmul_flops,
        relation=relation_of_product.multiplied,
    ),
    Op(
        "gather_mm",
        Kind.CONTRACTION,
        _gather_mm,
        attributes=("left_sorted", "right_sorted"),
        shapes=_gather_mm_shape,
        primitive="GatherMM",
        behaviour=Behaviour(domains=(Domain.ANY, Domain.ANY, Domain.INDEX, Domain.INDEX)),
        flops_of=_matmul_flops,
        index_ranges=index_range.of_matrices,
    ),
    Op(
        "quantized_matmul",
        Kind.CONTRACTION,
        _quantized_matmul,
        attributes=_QUANTIZED,
        shapes=_quantized_shape,
        behaviour=Behaviour(domains=(Domain.ANY, Domain.PACKED)),
        flops_of=_matmul_flops,
        relation=relation_of_product.multiplied_by_packed,
        batching=batching.multiplied_left,
        skipped=_regrouped(_quantized_matmul),
    ),
    Op(
        "gather_qmm",
        Kind.CONTRACTION,
        _gather_qmm,
        attributes=(*_QUANTIZED, "left_sorted", "right_sorted"),
        shapes=_gather_qmm_shape,
        primitive="GatherQMM",
        behaviour=Behaviour(
            domains=(Domain.ANY, Domain.PACKED, Domain.ANY, ..., Domain.INDEX, Domain.INDEX)
        ),
        flops_of=_matmul_flops,
        index_ranges=index_range.of_matrices,
        skipped=_regrouped(_gather_qmm),
    ),
    # Of MLX's formats the affine one alone: a trace on the CPU takes others apart in its own way.
    Op(
        "dequantize",
        Kind.INDEXING,
        _dequantize,
        attributes=("group_size", "bits"),
        shapes=_dequantized_shape,
        behaviour=Behaviour(domains=(Domain.PACKED,)),
        flops_per_element=2,
        relation=relation_of_product.dequantized,
    ),
    Op(
        "block_masked_mm",
        Kind.CONTRACTION,
        None,
        attributes=("block_size",),
        shapes=_matmul_shape,
        primitive="BlockMaskedMM",
    ),
    Op(
        "convolution",
        Kind.CONTRACTION,
        _convolution,
        attributes=(
            "strides",
            "padding_low",
            "padding_high",
            "kernel_dilation",
            "input_dilation",
            "groups",
            "flip",
        ),
        shapes=_convolution_shape,
        flops_of=_convolution_flops,
        relation=relation_of_product.convolved,
        batching=batching.convolved,
        multiplies_all=_has_unit_steps,
        skipped=beside,
    ),
)
