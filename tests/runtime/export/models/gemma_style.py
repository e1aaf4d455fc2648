"""Soft-capped attention, scaled embeddings and GeGLU, in another hand: names and free functions."""

# mypy: ignore-errors

from __future__ import annotations

import math
from collections import namedtuple
from functools import partial

import mlx.core as mx
import mlx.nn as nn

import kernelwright as kw

LayerWeights = namedtuple("LayerWeights", "gate up down norm")
SOFTCAP = 50.0
FINAL_SOFTCAP = 30.0
N_HEADS, HEAD_DIM = 4, 8
QUERY_SCALE = 1 / math.sqrt(HEAD_DIM)


class RMSNorm(nn.Module):
    def __init__(self, dims: int, eps: float = 1e-6):
        super().__init__()
        self.weight = mx.ones((dims,))
        self.eps = eps

    def __call__(self, x):
        return mx.fast.rms_norm(x, 1.0 + self.weight, self.eps)


class GatedMLP(nn.Module):
    """GeGLU with a norm on each side."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.pre = RMSNorm(dim)
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)
        self.post = RMSNorm(dim)

    def __call__(self, x) -> mx.array:
        h = self.pre(x)
        h = self.down_proj(nn.gelu_approx(self.gate_proj(h)) * self.up_proj(h))
        return x + self.post(h)


mlp = GatedMLP(32, 64)
softcap = lambda x, cap: mx.tanh(x / cap) * cap  # noqa: E731


@kw.example("f32[2,4,6,8]", "f32[2,4,6,8]", "f32[2,4,6,8]", mask="f32[6,6]")
def capped_attention(q, k, v, *, mask=None):
    scores = softcap((q * QUERY_SCALE) @ k.swapaxes(-1, -2), SOFTCAP)
    if mask is not None:
        scores = scores + mask
    return mx.softmax(scores, axis=-1, precise=True) @ v


@kw.example("f16[3,5,96]")
def final_logits(x):
    return softcap(x, FINAL_SOFTCAP)


@partial(mx.compile, shapeless=True)
def clip_residual(x, y):
    if x.dtype != mx.float16:
        return x + y
    bound = mx.finfo(mx.float16).max
    return mx.clip(x.astype(mx.float32) + y.astype(mx.float32), -bound, bound).astype(mx.float16)


@kw.example("f16[4,7,32]", "f16[4,7,32]", "f16[32]")
def residual_norm(x, y, weight):
    h = clip_residual(x, y)
    return h, mx.fast.rms_norm(h, 1.0 + weight, 1e-6)


def feed(x, w: LayerWeights):
    h = mx.fast.rms_norm(x, w.norm, 1e-6)
    return x + (nn.gelu_approx(h @ w.gate) * (h @ w.up)) @ w.down


def example_inputs():
    weights = LayerWeights(mx.zeros((16, 24)), mx.zeros((16, 24)), mx.zeros((24, 16)), mx.ones(16))
    return {"mlp": mx.zeros((2, 5, 32)), "feed": (mx.zeros((2, 5, 16)), weights)}
