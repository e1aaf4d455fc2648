"""Functions as people write them: views, casts, constants, keywords and several results."""

# mypy: ignore-errors

import math
from functools import partial

import mlx.core as mx
import mlx.nn as nn
import numpy as np

import kernelwright

MEAN = mx.array([0.485, 0.456, 0.406])
STD = mx.array([0.229, 0.224, 0.225])
EPS = 1e-5
LUT = mx.array(np.linspace(0, 1, 256, dtype=np.float32) ** 2.2)


def halves(x):
    return mx.split(x, 2, axis=-1)


@kernelwright.example("f32[8,4,32]", "f32[8,4]")
def moe_combine(experts, scores):
    weights = mx.softmax(scores, axis=-1)
    return (experts * weights[..., None]).sum(axis=1)


@kernelwright.example("f32[16,40]", "i32[16]")
def cross_entropy(logits, targets):
    """Return one number."""
    score = mx.take_along_axis(logits, targets[:, None], axis=-1).squeeze(-1)
    return (mx.logsumexp(logits, axis=-1) - score).mean()


@kernelwright.example("u8[2,8,8,3]")
def image_step(pixels):
    scaled = pixels.astype(mx.float32) / 255.0
    return (scaled - MEAN) / STD


@kernelwright.example("u8[2,8,8,3]")
def gamma(pixels):
    return LUT[pixels.astype(mx.int32)] * 2.0 + 1.0


@kernelwright.example("f16[4,6,16]")
def rope(x, *, offset=3, base=10000.0):
    half = x.shape[-1] // 2
    frequencies = mx.exp(-mx.arange(half) * (math.log(base) / half))
    angles = (mx.arange(x.shape[-2]) + offset)[:, None] * frequencies
    cos, sin = mx.cos(angles), mx.sin(angles)
    a, b = halves(x.astype(mx.float32))
    return mx.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


@kernelwright.example("f32[12,32]", "f32[32]")
def rms(x, weight, eps=EPS):
    return x * mx.rsqrt(mx.mean(x * x, axis=-1, keepdims=True) + eps) * weight


@kernelwright.example("f32[12,32]", "f32[32]", "f32[32]")
def two_norms(x, first, second):
    y = x * mx.rsqrt(mx.mean(x * x, axis=-1, keepdims=True) + 1e-6) * first
    z = mx.tanh(y) @ mx.eye(32)
    return z * mx.rsqrt(mx.mean(z * z, axis=-1, keepdims=True) + 1e-6) * second


@kernelwright.example({"q": mx.zeros((4, 8, 16)), "scale": 0.25}, [mx.zeros((4, 8, 16))] * 2)
def attention_tree(query, rest):
    key, value = rest
    scores = query["q"] @ key.swapaxes(-1, -2) * query["scale"]
    weights = mx.softmax(scores, axis=-1)
    return {"out": weights @ value, "weights": weights}


@kernelwright.example("f32[10,24]")
def swiglu(x):
    gate, up = halves(x)
    return nn.silu(gate) * up


@kernelwright.example("f32[10,24]", negative=True)
def branches(x, negative=False):
    assert x.ndim == 2, "rows"
    return -nn.gelu(x) * 2 if negative else nn.gelu(x)


scaled = partial(rms, eps=1e-3)
