"""Level 1: chains of elementwise ops, some with several outputs or casts."""

import mlx.core as mx

from kernelwright.campaign.agent_bench.level import Level
from kernelwright.campaign.agent_bench.task import bench_task


@bench_task(Level.ELEMENTWISE, "f32[256,1024]", "f32[256,1024]", "f32[1024]")
def gated_mish(gate: mx.array, up: mx.array, bias: mx.array) -> mx.array:
    """Mish of a biased gate, times what it lets through."""
    gate = gate + bias
    return gate * mx.tanh(mx.logaddexp(gate, mx.zeros_like(gate))) * up


@bench_task(Level.ELEMENTWISE, "f16[256,1024]", "f16[256,1024]")
def squared_relu_residual(x: mx.array, residual: mx.array) -> mx.array:
    """A squared ReLU and its residual."""
    positive = mx.maximum(x, 0)
    return residual + positive * positive


@bench_task(Level.ELEMENTWISE, "f32[256,1024]", "f32[256,1024]")
def log_cosh(x: mx.array, target: mx.array) -> mx.array:
    """The log-cosh loss of each element, safe for large errors."""
    error = mx.abs(x - target)
    return error + mx.log1p(mx.exp(-2.0 * error)) - 0.6931471805599453


@bench_task(Level.ELEMENTWISE, "f32[64,4096]", "f32[64,4096]", "f32[64,4096]")
def signed_momentum(
    weight: mx.array, grad: mx.array, momentum: mx.array
) -> tuple[mx.array, mx.array]:
    """A step by the momentum's sign with decay; two outputs from three inputs."""
    update = mx.sign(0.9 * momentum + 0.1 * grad)
    return weight * 0.999 - 0.001 * update, 0.99 * momentum + 0.01 * grad


@bench_task(Level.ELEMENTWISE, "f32[128,2048]")
def horner(x: mx.array) -> mx.array:
    """A polynomial of degree five."""
    y = 0.05 * x + 0.125
    for coefficient in (-0.2, 0.5, -1.0, 0.25):
        y = y * x + coefficient
    return y


@bench_task(Level.ELEMENTWISE, "f32[128,2048]", "f32[128,2048]", "bool[128,2048]")
def masked_blend(x: mx.array, y: mx.array, mask: mx.array) -> mx.array:
    """A blend where a mask holds, a clipped copy elsewhere."""
    return mx.where(mask, 0.75 * x + 0.25 * y, mx.clip(x, -1.0, 1.0))


@bench_task(Level.ELEMENTWISE, "bf16[256,1024]")
def tanh_gelu(x: mx.array) -> mx.array:
    """GELU by tanh, computed in float32."""
    wide = x.astype(mx.float32)
    inner = 0.7978845608 * (wide + 0.044715 * wide * wide * wide)
    return (0.5 * wide * (1.0 + mx.tanh(inner))).astype(mx.bfloat16)


@bench_task(Level.ELEMENTWISE, "f32[3,256,256]")
def srgb_to_linear(x: mx.array) -> mx.array:
    """Colours from sRGB to linear light."""
    x = mx.clip(x, 0.0, 1.0)
    return mx.where(x <= 0.04045, x / 12.92, mx.power((x + 0.055) / 1.055, 2.4))


@bench_task(Level.ELEMENTWISE, "f32[512,512]", "f32[512,512]")
def complex_magnitude_phase(real: mx.array, imaginary: mx.array) -> tuple[mx.array, mx.array]:
    """Magnitude and phase of complex numbers given by their parts."""
    return mx.sqrt(real * real + imaginary * imaginary), mx.arctan2(imaginary, real)


@bench_task(Level.ELEMENTWISE, "f32[256,1024]", "f32[256,1024]")
def focal_weight(score: mx.array, label: mx.array) -> mx.array:
    """The focal loss of each element from its score."""
    chance = mx.sigmoid(score)
    right = label * chance + (1.0 - label) * (1.0 - chance)
    return -((1.0 - right) ** 2) * mx.log(mx.maximum(right, 1e-7))
