"""Audio: a speech encoder's parts, spectra, quantisers and activations of vocoders."""

# mypy: ignore-errors

import math
from functools import cache, lru_cache
from typing import Literal, NamedTuple

import mlx.core as mx
import mlx.nn as nn
import numpy as np

N_FFT = 32
HOP = 16
SAMPLE_RATE = 16_000


def sinusoids(length, channels, max_timescale=10000):
    """Returns sinusoids for positional embedding"""
    assert channels % 2 == 0
    log_timescale_increment = math.log(max_timescale) / (channels // 2 - 1)
    inv_timescales = mx.exp(-log_timescale_increment * mx.arange(channels // 2))
    scaled_time = mx.arange(length)[:, None] * inv_timescales[None, :]
    return mx.concatenate([mx.sin(scaled_time), mx.cos(scaled_time)], axis=1)


class MultiHeadAttention(nn.Module):
    def __init__(self, n_state: int, n_head: int):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def __call__(self, x, xa=None, mask=None, kv_cache=None):
        q = self.query(x)
        if xa is None:
            k = self.key(x)
            v = self.value(x)
            if kv_cache is not None:
                k = mx.concatenate([kv_cache[0], k], axis=1)
                v = mx.concatenate([kv_cache[1], v], axis=1)
        elif kv_cache is None:
            k = self.key(xa)
            v = self.value(xa)
        else:
            k, v = kv_cache
        wv, qk = self.qkv_attention(q, k, v, mask)
        return self.out(wv), (k, v), qk

    def qkv_attention(self, q, k, v, mask=None):
        n_batch, n_ctx, n_state = q.shape
        scale = (n_state // self.n_head) ** -0.25
        q = q.reshape(*q.shape[:2], self.n_head, -1).transpose(0, 2, 1, 3) * scale
        k = k.reshape(*k.shape[:2], self.n_head, -1).transpose(0, 2, 3, 1) * scale
        v = v.reshape(*v.shape[:2], self.n_head, -1).transpose(0, 2, 1, 3)
        qk = q @ k
        if mask is not None:
            qk = qk + mask[:n_ctx, :n_ctx]
        w = mx.softmax(qk, axis=-1, precise=True)
        out = (w @ v).transpose(0, 2, 1, 3)
        out = out.reshape(n_batch, n_ctx, n_state)
        return out, qk


class ResidualAttentionBlock(nn.Module):
    def __init__(self, n_state: int, n_head: int, cross_attention: bool = False):
        super().__init__()
        self.attn = MultiHeadAttention(n_state, n_head)
        self.attn_ln = nn.LayerNorm(n_state)
        self.cross_attn = MultiHeadAttention(n_state, n_head) if cross_attention else None
        self.cross_attn_ln = nn.LayerNorm(n_state) if cross_attention else None
        n_mlp = n_state * 4
        self.mlp1 = nn.Linear(n_state, n_mlp)
        self.mlp2 = nn.Linear(n_mlp, n_state)
        self.mlp_ln = nn.LayerNorm(n_state)

    def __call__(self, x, xa=None, mask=None):
        y, kv, _ = self.attn(self.attn_ln(x), mask=mask)
        x += y
        cross_qk = None
        if self.cross_attn:
            y, _, cross_qk = self.cross_attn(self.cross_attn_ln(x), xa)
            x += y
        x = x + self.mlp2(nn.gelu(self.mlp1(self.mlp_ln(x))))
        return x, kv, cross_qk


class AudioEncoder(nn.Module):
    def __init__(self, n_mels=8, n_ctx=6, n_state=16, n_head=2, dtype: mx.Dtype = mx.float32):
        super().__init__()
        self.conv1 = nn.Conv1d(n_mels, n_state, kernel_size=3, padding=1)
        self.conv2 = nn.Conv1d(n_state, n_state, kernel_size=3, stride=2, padding=1)
        self._positional_embedding = sinusoids(n_ctx, n_state).astype(dtype)
        self.blocks = [ResidualAttentionBlock(n_state, n_head) for _ in range(1)]
        self.ln_post = nn.LayerNorm(n_state)

    def __call__(self, x):
        x = nn.gelu(self.conv1(x))
        x = nn.gelu(self.conv2(x))
        assert x.shape[1:] == self._positional_embedding.shape, "incorrect audio shape"
        x = x + self._positional_embedding
        for block in self.blocks:
            x, _, _ = block(x)
        return self.ln_post(x)


decoder_block = ResidualAttentionBlock(16, 2, cross_attention=True)
encoder = AudioEncoder()


@cache
def mel_filters(n_mels: int = 8) -> mx.array:
    points = np.linspace(0, N_FFT // 2, n_mels + 2)
    bins = np.arange(N_FFT // 2 + 1)[None]
    left, centre, right = points[:-2, None], points[1:-1, None], points[2:, None]
    up = (bins - left) / (centre - left)
    down = (right - bins) / (right - centre)
    return mx.array(np.maximum(0, np.minimum(up, down)).astype(np.float32))


@lru_cache
def hanning(size):
    return mx.array(np.hanning(size + 1)[:-1])


def log_mel(frames: mx.array, n_mels: int = 8):
    """Log mel spectrogram of frames that were cut already."""
    spectrum = mx.fft.rfft(frames * hanning(N_FFT).astype(frames.dtype))
    magnitudes = mx.abs(spectrum).square()
    mel = magnitudes @ mel_filters(n_mels).T
    log_spec = mx.maximum(mel, 1e-10).log10()
    log_spec = mx.maximum(log_spec, log_spec.max() - 8.0)
    return (log_spec + 4.0) / 4.0


def snake(x: mx.array, alpha: mx.array, beta: mx.array) -> mx.array:
    return x + mx.square(mx.sin(x * mx.exp(alpha))) / (mx.exp(beta) + 1e-9)


class Quantized(NamedTuple):
    codes: mx.array
    values: mx.array
    loss: mx.array


CODEBOOK = mx.array(np.random.RandomState(0).randn(16, 12).astype(np.float32))


def vector_quantize(z: mx.array, commitment: float = 0.25) -> Quantized:
    distance = (
        mx.sum(z**2, axis=-1, keepdims=True) - 2 * z @ CODEBOOK.T + mx.sum(CODEBOOK**2, axis=-1)
    )
    codes = mx.argmin(distance, axis=-1)
    q = CODEBOOK[codes]
    loss = mx.mean((mx.stop_gradient(q) - z) ** 2) * commitment + mx.mean(
        (q - mx.stop_gradient(z)) ** 2
    )
    return Quantized(codes, z + mx.stop_gradient(q - z), loss)


def mu_law(x, mu: int = 255, direction: Literal["encode"] | Literal["decode"] = "encode"):
    if direction == "encode":
        y = mx.sign(x) * mx.log1p(mu * mx.abs(x)) / math.log1p(mu)
        return mx.floor((y + 1) / 2 * mu + 0.5).astype(mx.int32)
    elif direction == "decode":
        y = 2 * (x.astype(mx.float32) / mu) - 1
        return mx.sign(y) / mu * mx.expm1(mx.abs(y) * math.log1p(mu))
    raise ValueError(f"Unknown direction {direction}")


def example_inputs():
    return {
        "decoder_block": (mx.zeros((2, 5, 16)), mx.zeros((2, 7, 16))),
        "encoder": (mx.zeros((2, 12, 8)),),
        "log_mel": mx.zeros((3, 10, N_FFT)),
        "snake": (mx.zeros((2, 40, 24)), mx.zeros((24,)), mx.zeros((24,))),
        "vector_quantize": mx.zeros((2, 9, 12)),
        "mu_law": mx.zeros((4, 200)),
    }
