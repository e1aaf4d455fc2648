"""Diffusion: schedulers that hold tables, residual blocks with time, modulation, guidance."""

# mypy: ignore-errors

import dataclasses
import math
from enum import Enum

import mlx.core as mx
import mlx.nn as nn


class BetaSchedule(str, Enum):
    LINEAR = "linear"
    SCALED = "scaled_linear"


@dataclasses.dataclass(frozen=True)
class DiffusionConfig:
    beta_schedule: BetaSchedule = BetaSchedule.SCALED
    beta_start: float = 0.00085
    beta_end: float = 0.012
    num_train_steps: int = 100


def _linspace(a, b, num):
    x = mx.arange(0, num) / (num - 1)
    return (b - a) * x + a


def _interp(y, x_new):
    """Interpolate the function defined by (arange(0, len(y)), y) at positions x_new."""
    x_low = x_new.astype(mx.int32)
    x_high = mx.minimum(x_low + 1, len(y) - 1)
    y_low = y[x_low]
    y_high = y[x_high]
    delta_x = x_new - x_low
    return y_low * (1 - delta_x) + delta_x * y_high


class SimpleEulerSampler:
    """A simple Euler integrator that can be used to sample from diffusion models."""

    def __init__(self, config: DiffusionConfig):
        if config.beta_schedule == BetaSchedule.LINEAR:
            betas = _linspace(config.beta_start, config.beta_end, config.num_train_steps)
        elif config.beta_schedule == BetaSchedule.SCALED:
            betas = _linspace(
                config.beta_start**0.5, config.beta_end**0.5, config.num_train_steps
            ).square()
        else:
            raise NotImplementedError(f"{config.beta_schedule} is not implemented.")
        alphas = 1 - betas
        alphas_cumprod = mx.cumprod(alphas)
        self._sigmas = mx.concatenate([mx.zeros(1), ((1 - alphas_cumprod) / alphas_cumprod).sqrt()])

    @property
    def max_time(self):
        return len(self._sigmas) - 1

    def sigmas(self, t):
        return _interp(self._sigmas, t)

    def step(self, eps_pred, x_t, t, t_prev):
        sigma = self.sigmas(t).astype(eps_pred.dtype)
        sigma_prev = self.sigmas(t_prev).astype(eps_pred.dtype)
        dt = sigma_prev - sigma
        x_t_prev = (sigma.square() + 1).sqrt() * x_t + eps_pred * dt
        return x_t_prev * (sigma_prev.square() + 1).rsqrt()

    def add_noise(self, x, t, noise):
        s = self.sigmas(t)[:, None, None, None]
        return (x + noise * s) * (s.square() + 1).rsqrt()


class ResnetBlock2D(nn.Module):
    def __init__(self, in_channels, out_channels=None, groups=4, temb_channels=None):
        super().__init__()
        out_channels = out_channels or in_channels
        self.norm1 = nn.GroupNorm(groups, in_channels, pytorch_compatible=True)
        self.conv1 = nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=1, padding=1)
        if temb_channels is not None:
            self.time_emb_proj = nn.Linear(temb_channels, out_channels)
        self.norm2 = nn.GroupNorm(groups, out_channels, pytorch_compatible=True)
        self.conv2 = nn.Conv2d(out_channels, out_channels, kernel_size=3, stride=1, padding=1)
        if in_channels != out_channels:
            self.conv_shortcut = nn.Linear(in_channels, out_channels)

    def __call__(self, x, temb=None):
        dtype = x.dtype
        if temb is not None:
            temb = self.time_emb_proj(nn.silu(temb))
        y = self.norm1(x.astype(mx.float32)).astype(dtype)
        y = nn.silu(y)
        y = self.conv1(y)
        if temb is not None:
            y = y + temb[:, None, None, :]
        y = self.norm2(y.astype(mx.float32)).astype(dtype)
        y = nn.silu(y)
        y = self.conv2(y)
        return y + (x if "conv_shortcut" not in self else self.conv_shortcut(x))


@dataclasses.dataclass
class ModulationOut:
    shift: mx.array
    scale: mx.array
    gate: mx.array


class Modulation(nn.Module):
    def __init__(self, dim: int, double: bool):
        super().__init__()
        self.is_double = double
        self.multiplier = 6 if double else 3
        self.lin = nn.Linear(dim, self.multiplier * dim, bias=True)

    def __call__(self, x: mx.array) -> tuple[ModulationOut, ModulationOut]:
        x = self.lin(nn.silu(x))
        xs = mx.split(x[:, None, :], self.multiplier, axis=-1)
        mod1 = ModulationOut(*xs[:3])
        mod2 = ModulationOut(*xs[3:]) if self.is_double else None
        return mod1, mod2


class DiTBlock(nn.Module):
    def __init__(self, dim, mlp_ratio=2):
        super().__init__()
        self.mod = Modulation(dim, double=True)
        self.norm1 = nn.LayerNorm(dim, affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(dim, affine=False, eps=1e-6)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, dim * mlp_ratio), nn.GELU(approx="tanh"), nn.Linear(dim * mlp_ratio, dim)
        )

    def __call__(self, x: mx.array, vec: mx.array) -> mx.array:
        m1, m2 = self.mod(vec)
        h = (1 + m1.scale) * self.norm1(x) + m1.shift
        q, k, v = mx.split(self.qkv(h), 3, axis=-1)
        h = mx.fast.scaled_dot_product_attention(
            q[:, None], k[:, None], v[:, None], scale=q.shape[-1] ** -0.5
        )[:, 0]
        x = x + m1.gate * h
        return x + m2.gate * self.mlp((1 + m2.scale) * self.norm2(x) + m2.shift)


sampler = SimpleEulerSampler(DiffusionConfig())
resnet = ResnetBlock2D(8, 12, temb_channels=16)
dit = DiTBlock(16)


def timestep_embedding(t, dim=32, max_period=10000, time_factor: float = 1000.0):
    half = dim // 2
    freqs = mx.arange(0, half, dtype=mx.float32) / half
    freqs = mx.exp(freqs * (-math.log(max_period)))
    x = (time_factor * t)[:, None] * freqs[None]
    return mx.concatenate([mx.cos(x), mx.sin(x)], axis=-1).astype(t.dtype)


def guided(eps, cfg_weight: float = 7.5, rescale: float = 0.7):
    """Classifier-free guidance with rescaled deviation."""
    eps_text, eps_neg = eps.split(2)
    out = eps_neg + cfg_weight * (eps_text - eps_neg)
    axes = tuple(range(1, out.ndim))
    ratio = mx.std(eps_text, axis=axes, keepdims=True) / mx.std(out, axis=axes, keepdims=True)
    return rescale * (out * ratio) + (1 - rescale) * out


def apply_rope(xq: mx.array, xk: mx.array, pe: mx.array):
    def _apply(x):
        s = x.shape
        x = x.reshape(*s[:-1], -1, 1, 2)
        x = (pe[..., 0] * x[..., 0] + pe[..., 1] * x[..., 1]).reshape(s)
        return x

    return _apply(xq), _apply(xk)


def example_inputs():
    image = mx.zeros((2, 6, 6, 8))
    return {
        "sampler.step": (image, image, mx.full((1,), 7.0), mx.full((1,), 6.0)),
        "sampler.add_noise": (image, mx.full((2,), 3.0), image),
        "resnet": (image, mx.zeros((2, 16))),
        "dit": (mx.zeros((2, 9, 16)), mx.zeros((2, 16))),
        "timestep_embedding": mx.zeros((8,)),
        "guided": mx.zeros((4, 6, 6, 8)),
        "apply_rope": (
            mx.zeros((1, 3, 7, 16)),
            mx.zeros((1, 3, 7, 16)),
            mx.zeros((1, 1, 7, 8, 2, 2)),
        ),
    }
