"""Quantization and its inverse."""

import mlx.core as mx

from kernelwright.catalog.entry import entry


@entry("T[512,1024]")
def quantize_int8(x: mx.array) -> tuple[mx.array, mx.array]:
    """Rounding to int8 with a scale per row."""
    scale = mx.max(mx.abs(x), axis=-1, keepdims=True).astype(mx.float32) / 127.0 + 1e-8
    return mx.round(x.astype(mx.float32) / scale).astype(mx.int8), scale


@entry("i8[512,1024]", "T[512,1]")
def dequantize_int8(q: mx.array, scale: mx.array) -> mx.array:
    """int8 times a scale per row."""
    return q.astype(scale.dtype) * scale


@entry("i8[512,1024]", "T[512,1]")
def dequantize_silu_int8(q: mx.array, scale: mx.array) -> mx.array:
    """int8 times a scale per row, then SiLU."""
    y = q.astype(scale.dtype) * scale
    return y * mx.sigmoid(y)


@entry("i8[512,16,64]", "T[512,16,1]", "T[512,16,1]")
def dequantize_blockwise(q: mx.array, scale: mx.array, zero: mx.array) -> mx.array:
    """int8 with a scale and a zero point per block of 64."""
    return (q.astype(scale.dtype) - zero) * scale


@entry("u32[512,128]", "T[512,16]", "T[512,16]")
def dequantize_int4(packed: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
    """MLX's affine 4-bit format, groups of 64."""
    return mx.dequantize(packed, scales, biases, group_size=64, bits=4)


@entry("u32[512,128]", "T[512,16]", "T[512,16]")
def dequantize_int4_by_hand(packed: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
    """The affine 4-bit format, unpacked with shifts."""
    shifts = mx.arange(0, 32, 4, dtype=mx.uint32)
    digits = mx.right_shift(packed[..., None], shifts) & 15
    groups = digits.reshape(packed.shape[0], scales.shape[1], 64).astype(scales.dtype)
    return (groups * scales[..., None] + biases[..., None]).reshape(packed.shape[0], -1)


@entry("T[1,1024]", "u32[512,128]", "T[512,16]", "T[512,16]")
def quantized_matvec(x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
    """A vector times a 4-bit matrix."""
    return mx.quantized_matmul(x, packed, scales, biases, transpose=True, group_size=64, bits=4)


@entry("T[1,1024]", "u32[512,256]", "T[512,16]", "T[512,16]")
def quantized_matvec_int8(
    x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array
) -> mx.array:
    """A vector times an 8-bit matrix."""
    return mx.quantized_matmul(x, packed, scales, biases, transpose=True, group_size=64, bits=8)


@entry("T[1,1024]", "u32[512,128]", "T[512,16]", "T[512,16]", "T[512]", "T[1,512]")
def quantized_projection(
    x: mx.array,
    packed: mx.array,
    scales: mx.array,
    biases: mx.array,
    bias: mx.array,
    residual: mx.array,
) -> mx.array:
    """A vector times a 4-bit matrix, a bias and a residual, as a decode step ends each block."""
    y = mx.quantized_matmul(x, packed, scales, biases, transpose=True, group_size=64, bits=4)
    return residual + (y + bias)


@entry(
    "T[1,1024]",
    "u32[512,128]",
    "T[512,16]",
    "T[512,16]",
    "u32[512,128]",
    "T[512,16]",
    "T[512,16]",
)
def quantized_swiglu(
    x: mx.array,
    gate: mx.array,
    gate_scales: mx.array,
    gate_biases: mx.array,
    up: mx.array,
    up_scales: mx.array,
    up_biases: mx.array,
) -> mx.array:
    """Both 4-bit projections of a decode step's SwiGLU, and the gate."""
    g = mx.quantized_matmul(x, gate, gate_scales, gate_biases, group_size=64, bits=4)
    return (
        g * mx.sigmoid(g) * mx.quantized_matmul(x, up, up_scales, up_biases, group_size=64, bits=4)
    )


@entry("u32[512,128]", "T[512,16]", "T[512,16]", "i32[64]")
def quantized_embedding(
    packed: mx.array, scales: mx.array, biases: mx.array, tokens: mx.array
) -> mx.array:
    """Rows of a 4-bit table."""
    return mx.dequantize(packed[tokens], scales[tokens], biases[tokens], group_size=64, bits=4)


@entry("T[512,1024]")
def fake_quantize(x: mx.array) -> mx.array:
    """Rounded to 8 bits and back, as training sees it."""
    scale = mx.max(mx.abs(x), axis=-1, keepdims=True) / 127.0 + 1e-6
    return mx.clip(mx.round(x / scale), -128, 127) * scale


@entry("T[512,1024]")
def absolute_maximum(x: mx.array) -> mx.array:
    """Largest magnitude of every row."""
    return mx.max(mx.abs(x), axis=-1)
