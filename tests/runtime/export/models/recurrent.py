"""State space and recurrent models: scans over time, short convolutions, gates, state in and out."""

# mypy: ignore-errors

import mlx.core as mx
import mlx.nn as nn
from mlx.nn import silu, softplus


class Config:
    d_model = 16
    d_state = 4
    d_conv = 4
    expand = 2
    dt_rank = 2


class MambaStep(nn.Module):
    def __init__(self, cfg=Config):
        super().__init__()
        d_inner = cfg.expand * cfg.d_model
        self.cfg_state = cfg.d_state
        self.dt_rank = cfg.dt_rank
        self.in_proj = nn.Linear(cfg.d_model, 2 * d_inner, bias=False)
        self.conv_weight = mx.random.normal((d_inner, cfg.d_conv)) * 0.1
        self.conv_bias = mx.zeros((d_inner,))
        self.x_proj = nn.Linear(d_inner, cfg.dt_rank + 2 * cfg.d_state, bias=False)
        self.dt_proj = nn.Linear(cfg.dt_rank, d_inner)
        A = mx.repeat(mx.arange(1.0, cfg.d_state + 1)[None], d_inner, axis=0)
        self.A_log = mx.log(A)
        self.D = mx.ones((d_inner,))
        self.out_proj = nn.Linear(d_inner, cfg.d_model, bias=False)

    def ssm(self, x, h):
        A = -mx.exp(self.A_log)
        delta, B, C = mx.split(
            self.x_proj(x), [self.dt_rank, self.dt_rank + self.cfg_state], axis=-1
        )
        delta = softplus(self.dt_proj(delta))
        h = h * mx.exp(delta[..., None] * A) + (delta * x)[..., None] * B[:, None, :]
        y = (h @ C[..., None]).squeeze(2)
        return y + self.D * x, h

    def __call__(self, x, state):
        conv_state, h = state["conv"], state["ssm"]
        xz = self.in_proj(x)
        x, z = xz.split(indices_or_sections=2, axis=-1)
        window = mx.concatenate([conv_state, x[..., None]], axis=-1)
        x = silu((window * self.conv_weight).sum(-1) + self.conv_bias)
        y, h = self.ssm(x, h)
        return self.out_proj(y * silu(z)), {"conv": window[..., 1:], "ssm": h}


mamba = MambaStep()


def segsum(x, mask=None):
    if mask is not None:
        mask = mx.expand_dims(mask, 1)
        x = x * mask
    l = x.shape[-1]
    x = mx.repeat(x[..., None], l, axis=-1)
    x = mx.tril(x, -1)
    x_segsum = mx.cumsum(x, axis=-2)
    if mask is not None:
        x_segsum = mx.where(mask[..., None, :] * mask[..., None], x_segsum, -float("inf"))
    return x_segsum


def gated_rms(hidden_states, gate, weight, eps=1e-5, group_size=8):
    """Mamba 2's norm, over groups of channels."""
    x = hidden_states.astype(mx.float32)
    if gate is not None:
        x = x * silu(gate.astype(mx.float32))
    shape = x.shape
    x = x.reshape(*shape[:-1], -1, group_size)
    x = x * mx.rsqrt(mx.mean(x**2, axis=-1, keepdims=True) + eps)
    return (weight * x.reshape(shape)).astype(hidden_states.dtype)


class WKV:
    """RWKV's time mixing, without a module: plain attributes."""

    def __init__(self, channels):
        self.decay = mx.linspace(-6, 0, channels)
        self.first = mx.linspace(0.0, 1.0, channels)
        self.mix = {"k": mx.linspace(0, 1, channels), "v": mx.linspace(1, 0, channels)}

    def step(self, k, v, aa, bb, pp):
        ww = self.first + k
        p = mx.maximum(pp, ww)
        e1, e2 = mx.exp(pp - p), mx.exp(ww - p)
        wkv = (e1 * aa + e2 * v) / (e1 * bb + e2)
        ww = pp + -mx.exp(self.decay)
        p = mx.maximum(ww, k)
        e1, e2 = mx.exp(ww - p), mx.exp(k - p)
        return wkv, (e1 * aa + e2 * v, e1 * bb + e2, p)

    def mixed(self, x, last):
        return {name: x * m + last * (1 - m) for name, m in self.mix.items()}


wkv = WKV(24)


def gru_cell(x, h, params: dict):
    rx, zx, nx = (x @ params["wx"] + params["b"]).split(3, axis=-1)
    rh, zh, nh = (h @ params["wh"]).split(3, axis=-1)
    r, z = mx.sigmoid(rx + rh), mx.sigmoid(zx + zh)
    n = mx.tanh(nx + r * (nh + params["bn"]))
    return (1 - z) * n + z * h


def delta_rule(q, k, v, beta, state):
    """A few steps of the delta rule; the loop is over positions."""
    outs = []
    for t in range(q.shape[1]):
        k_t, q_t = k[:, t], q[:, t]
        predicted = (state * k_t[..., None]).sum(-2)
        update = beta[:, t, None] * (v[:, t] - predicted)
        state = state + k_t[..., None] * update[..., None, :]
        outs.append((state * q_t[..., None]).sum(-2))
    return mx.stack(outs, axis=1), state


def example_inputs():
    c = 24
    row = mx.zeros((2, c))
    params = {
        "wx": mx.zeros((8, 36)),
        "wh": mx.zeros((12, 36)),
        "b": mx.zeros((36,)),
        "bn": mx.zeros((12,)),
    }
    return {
        "mamba": (mx.zeros((3, 16)), {"conv": mx.zeros((3, 32, 3)), "ssm": mx.zeros((3, 32, 4))}),
        "segsum": (mx.zeros((2, 3, 8)), mx.ones((2, 8), mx.bool_)),
        "gated_rms": (
            mx.zeros((2, 5, 32), mx.bfloat16),
            mx.zeros((2, 5, 32), mx.bfloat16),
            mx.ones(32),
        ),
        "wkv.step": (row, row, row, row, row),
        "wkv.mixed": (mx.zeros((4, c)), mx.zeros((4, c))),
        "gru_cell": (mx.zeros((5, 8)), mx.zeros((5, 12)), params),
        "delta_rule": (
            mx.zeros((2, 3, 6)),
            mx.zeros((2, 3, 6)),
            mx.zeros((2, 3, 5)),
            mx.zeros((2, 3)),
            mx.zeros((2, 6, 5)),
        ),
    }
