"""More functions people write, by whose shapes of work families were added: worked with, all."""

import mlx.core as mx

from benchmarks.suite.workload import Workload


def scaled_transpose(x: mx.array) -> mx.array:
    """Turn a matrix, and scale and shift it."""
    return x.T * 2.0 + 1.0


def channels_last_gelu(x: mx.array, bias: mx.array) -> mx.array:
    """Put channels last, add a bias, and apply GELU by a sigmoid."""
    y = x.transpose(0, 2, 3, 1) + bias
    return y * mx.sigmoid(1.702 * y)


def softmax_over_channels(x: mx.array) -> mx.array:
    """Give each pixel a distribution over its classes, channels first."""
    return mx.softmax(x, axis=1)


def layer_norm_2d(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    """Normalise the channels of each pixel, channels first (ConvNeXt)."""
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred * mx.rsqrt(variance + 1e-6) * weight + bias


def normalize_over_time(x: mx.array) -> mx.array:
    """Give each band of each clip mean 0 and variance 1 over time (speech features)."""
    centred = x - x.mean(axis=1, keepdims=True)
    return centred * mx.rsqrt(x.var(axis=1, keepdims=True) + 1e-5)


def distances(x: mx.array, y: mx.array) -> mx.array:
    """Distance of each point of one cloud from each of another."""
    return mx.sqrt(((x[:, None] - y[None]) ** 2).sum(axis=-1) + 1e-12)


def manhattan_distances(x: mx.array, y: mx.array) -> mx.array:
    """Sum of absolute differences of each pair of vectors of 16."""
    return mx.abs(x[:, None] - y[None]).sum(axis=-1)


def masked_cross_entropy(logits: mx.array, labels: mx.array) -> mx.array:
    """Mean cross entropy of the tokens that are not padding."""
    picked = mx.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]
    mask = (labels != 0).astype(mx.float32)
    losses = (mx.logsumexp(logits, axis=-1) - picked) * mask
    return losses.sum() / mx.maximum(mask.sum(), 1)


def forces(place: mx.array, mass: mx.array) -> mx.array:
    """Pull of all bodies on each one."""
    d = place[None] - place[:, None]
    squares = (d * d).sum(axis=-1) + 1e-3
    pull = mass[None] * mx.rsqrt(squares) / squares
    return (d * pull[..., None]).sum(axis=1)


def depthwise_by_shifts(x: mx.array, weight: mx.array) -> mx.array:
    """Convolve each channel by itself, nine shifted products added up."""
    height, width = x.shape[1:3]
    padded = mx.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    taps = [
        padded[:, i : i + height, j : j + width] * weight[i, j] for i in range(3) for j in range(3)
    ]
    return sum(taps[1:], start=taps[0])


def average_pool_channels_first(x: mx.array) -> mx.array:
    """Average planes of 2 x 2, channels first."""
    b, c, h, w = x.shape
    return x.reshape(b, c, h // 2, 2, w // 2, 2).mean(axis=(3, 5))


FURTHER = (
    Workload("scaled_transpose", "vision", scaled_transpose, ("T[8192,8192]",), "a square matrix"),
    Workload("channels_last_gelu", "vision", channels_last_gelu,
             ("T[32,256,56,56]", "T[256]"), "ResNet-50, 32 images"),
    Workload("softmax_over_channels", "vision", softmax_over_channels,
             ("T[16,19,256,256]",), "Cityscapes"),
    Workload("layer_norm_2d", "vision", layer_norm_2d,
             ("T[32,64,112,112]", "T[64,1,1]", "T[64,1,1]"), "ConvNeXt"),
    Workload("normalize_over_time", "audio", normalize_over_time,
             ("T[128,1024,80]",), "speech features"),
    Workload("distances", "search", distances, ("T[4096,3]", "T[4096,3]"), "point clouds"),
    Workload("manhattan_distances", "search", manhattan_distances,
             ("T[4096,16]", "T[4096,16]"), "embeddings", is_memory_bound=False),
    Workload("masked_cross_entropy", "training", masked_cross_entropy,
             ("T[2048,50257]", "i32[2048]<50257"), "GPT-2"),
    Workload("forces", "physics", forces, ("f32[8192,3]", "f32[8192]"), "n bodies",
             is_memory_bound=False),
    Workload("depthwise_by_shifts", "vision", depthwise_by_shifts,
             ("T[32,112,112,96]", "T[3,3,96]"), "MobileNet"),
    Workload("average_pool_channels_first", "vision", average_pool_channels_first,
             ("T[32,64,112,112]",), "pooling"),
)  # fmt: skip
