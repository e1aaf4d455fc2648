"""Functions whose inputs are as long as others together, and a program for each, for any size."""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx

from kernelwright.agents.roles.reply.reply_schema import ProgramDraft

Shapes = tuple[tuple[int, ...], ...]
_KERNEL = 4


def cached_attention(
    q: mx.array, keys: mx.array, values: mx.array, fresh: mx.array, made: mx.array, mask: mx.array
) -> mx.array:
    """Append to a cache of keys and values, and attend to all of it under a mask."""
    every_key = mx.concatenate([keys, fresh], axis=1)
    every_value = mx.concatenate([values, made], axis=1)
    scores = q @ every_key.swapaxes(-1, -2) * 0.25 + mask
    return mx.softmax(scores, axis=-1) @ every_value


def causal_windows(x: mx.array, weight: mx.array) -> mx.array:
    """Convolve each channel with the steps before, zeros before the first."""
    padded, steps = mx.pad(x, [(0, 0), (_KERNEL - 1, 0), (0, 0)]), x.shape[1]
    return sum((padded[:, i : i + steps] * weight[i] for i in range(_KERNEL)), mx.array(0.0))


def damped_differences(x: mx.array, drift: mx.array) -> mx.array:
    """Subtract neighbours, which are one fewer than there are elements."""
    return x[:, 1:] - x[:, :-1] + drift


def joined_norm(left: mx.array, right: mx.array, weight: mx.array) -> mx.array:
    """Normalise two streams side by side."""
    return mx.fast.rms_norm(mx.concatenate([left, right], axis=-1), weight, 1e-5)


def rotated(x: mx.array, past: mx.array, angles: mx.array) -> mx.array:
    """Rotate queries by angles of which some were known before."""
    both = mx.concatenate([past, angles], axis=0)
    half = both.shape[1]
    one, other, cos, sin = x[..., :half], x[..., half:], mx.cos(both), mx.sin(both)
    return mx.concatenate([one * cos - other * sin, one * sin + other * cos], axis=-1)


def stateful_convolution(
    x: mx.array, state: mx.array, weight: mx.array
) -> tuple[mx.array, mx.array]:
    """Convolve with what is left of the call before, and keep what the next one needs."""
    joined, steps = mx.concatenate([state, x], axis=1), x.shape[1]
    mixed = sum((joined[:, i : i + steps] * weight[i] for i in range(_KERNEL)), mx.array(0.0))
    return mixed * mx.sigmoid(mixed), joined[:, 1 - _KERNEL :]


_SCORE = """\
        float score = 0.0f;
        for (uint j = 0; j < depth; j++) {
            score += q[row * depth + j] * (k < past ? keys[(head * past + k) * depth + j]
                : fresh[(head * tokens + k - past) * depth + j]);
        }
        score = score * 0.25f + mask[token * (past + tokens) + k];
"""
_ATTENTION = f"""\
uint i = thread_position_in_grid.x;
uint depth = q_shape[2], tokens = q_shape[1], past = keys_shape[1];
uint row = i / depth, token = row % tokens, head = row / tokens;
float peak = -INFINITY, total = 0.0f, sum = 0.0f;
for (uint k = 0; k < past + tokens; k++) {{
{_SCORE}        peak = metal::max(peak, score);
}}
for (uint k = 0; k < past + tokens; k++) {{
{_SCORE}        float share = metal::precise::exp(score - peak);
        total += share;
        sum += share * (k < past ? values[(head * past + k) * depth + i % depth]
            : made[(head * tokens + k - past) * depth + i % depth]);
}}
out[i] = sum / total;
"""
_WINDOWS = """\
uint i = thread_position_in_grid.x;
uint channels = x_shape[2], channel = i % channels, step = i / channels % x_shape[1];
float sum = 0.0f;
for (uint k = 0; k < 4; k++) {
    float before = step + k < 3 ? 0.0f : x[i - (3 - k) * channels];
    sum += before * weight[k * channels + channel];
}
out[i] = sum;
"""
_DIFFERENCES = """\
uint i = thread_position_in_grid.x;
uint columns = x_shape[1] - 1, row = i / columns;
out[i] = x[i + row + 1] - x[i + row] + drift[i];
"""
_NORM = """\
uint row = thread_position_in_grid.x;
uint some = left_shape[1], others = right_shape[1];
float total = 0.0f;
for (uint j = 0; j < some + others; j++) {
    float x = j < some ? left[row * some + j] : right[row * others + j - some];
    total += x * x;
}
float scale = metal::precise::rsqrt(total / float(some + others) + 1e-5f);
for (uint j = 0; j < some + others; j++) {
    float x = j < some ? left[row * some + j] : right[row * others + j - some];
    out[row * (some + others) + j] = x * scale * weight[j];
}
"""
_ROTATED = """\
uint i = thread_position_in_grid.x;
uint half_size = past_shape[1], before = past_shape[0], tokens = before + angles_shape[0];
uint j = i % half_size, row = i / half_size, token = row % tokens;
float angle = token < before ? past[token * half_size + j]
    : angles[(token - before) * half_size + j];
float c = metal::precise::cos(angle), s = metal::precise::sin(angle);
uint first = row * 2 * half_size + j, second = first + half_size;
out[first] = x[first] * c - x[second] * s;
out[second] = x[first] * s + x[second] * c;
"""
_STATEFUL = """\
uint i = thread_position_in_grid.x;
uint channels = x_shape[2], steps = x_shape[1], channel = i % channels;
uint place = i / channels % steps, batch = i / channels / steps;
float sum = 0.0f;
for (uint k = 0; k < 4; k++) {
    uint at = place + k;
    float seen = at < 3 ? state[(batch * 3 + at) * channels + channel]
        : x[(batch * steps + at - 3) * channels + channel];
    sum += seen * weight[k * channels + channel];
}
out0[i] = sum / (1.0f + metal::precise::exp(-sum));
for (uint k = place; k < 3; k += steps) {
    uint at = steps + k;
    out1[(batch * 3 + k) * channels + channel] =
        at < 3 ? state[(batch * 3 + at) * channels + channel]
        : x[(batch * steps + at - 3) * channels + channel];
}
"""


def _draft(
    inputs: str, source: str, threads: str, sizes: str, outputs: str = "out"
) -> ProgramDraft:
    return ProgramDraft.model_validate(
        {
            "idea": "One element a thread, its place told by the arrays' shapes.",
            "any_size": sizes.split(),
            "kernels": [
                {
                    "name": "growing",
                    "inputs": inputs.split(),
                    "outputs": outputs.split(),
                    "source": source,
                    "grid": [threads, 1, 1],
                    "threadgroup": [64, 1, 1],
                }
            ],
        }
    )


@dataclass(frozen=True)
class Growing:
    """A function, the sizes at which it is searched and others, and a program of a model."""

    function: Callable[..., object]
    shapes: Shapes
    others: tuple[Shapes, ...]
    draft: ProgramDraft
    extents: tuple[tuple[int | str, ...], ...]
    """Of the program's inputs."""


def _attended(heads: int, past: int, fresh: int) -> Shapes:
    cache, new = (heads, past, 16), (heads, fresh, 16)
    return (new, cache, cache, new, new, (fresh, past + fresh))


GROWING = {
    "cached attention": Growing(
        cached_attention,
        _attended(2, 6, 3),
        (_attended(1, 40, 1), _attended(3, 2, 9)),
        _draft("q keys values fresh made mask", _ATTENTION, "n0 * n1 * 16", "n0 n1 n3"),
        (
            ("n0", "n1", 16),
            *2 * (("n0", "n3", 16),),
            *2 * (("n0", "n1", 16),),
            ("n1", "n3 + n1"),
        ),
    ),
    "padded convolution": Growing(
        causal_windows,
        ((2, 9, 8), (4, 8)),
        (((1, 4, 8), (4, 8)), ((3, 33, 5), (4, 5))),
        _draft("x weight", _WINDOWS, "n0 * n1 * n2", "n0 n1 n2"),
        (("n0", "n1", "n2"), (4, "n2")),
    ),
    "windowed differences": Growing(
        damped_differences,
        ((3, 9), (3, 8)),
        (((5, 2), (5, 1)), ((1, 70), (1, 69))),
        _draft("x drift", _DIFFERENCES, "n0 * (n1 - 1)", "n0 n1"),
        (("n0", "n1"), ("n0", "n1 - 1")),
    ),
    "joined norm": Growing(
        joined_norm,
        ((6, 5), (6, 7), (12,)),
        (((2, 9), (2, 1), (10,)), ((4, 1), (4, 40), (41,))),
        _draft("left right weight", _NORM, "n0", "n0 n1 n2"),
        (("n0", "n1"), ("n0", "n2"), ("n1 + n2",)),
    ),
    "rope with known angles": Growing(
        rotated,
        ((2, 11, 16), (6, 8), (5, 8)),
        (((1, 4, 6), (3, 3), (1, 3)), ((3, 21, 16), (1, 8), (20, 8))),
        _draft("x past angles", _ROTATED, "n0 * (n1 + n3) * n2", "n0 n1 n2 n3"),
        (("n0", "n1 + n3", "n2 * 2"), ("n1", "n2"), ("n3", "n2")),
    ),
    "stateful convolution": Growing(
        stateful_convolution,
        ((2, 9, 6), (2, 3, 6), (4, 6)),
        (((1, 4, 6), (1, 3, 6), (4, 6)), ((3, 40, 5), (3, 3, 5), (4, 5))),
        _draft("x state weight", _STATEFUL, "n0 * n1 * n2", "n0 n1 n2", "out0 out1"),
        (("n0", "n1", "n2"), ("n0", 3, "n2"), (4, "n2")),
    ),
}
