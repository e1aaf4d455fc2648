"""Functions of audio, physics, graphs, search and finance."""

import mlx.core as mx

from benchmarks.suite.workload import Workload


def log_power(real: mx.array, imaginary: mx.array) -> mx.array:
    """Decibels of a spectrogram, at most 80 below its loudest element."""
    power = real * real + imaginary * imaginary
    decibels = 10.0 * mx.log10(mx.maximum(power, 1e-10))
    return mx.maximum(decibels, decibels.max() - 80.0)


def spectrogram_normalize(x: mx.array) -> mx.array:
    """Give each of 80 bands of a clip mean 0 and deviation 1 over time."""
    mean = x.mean(axis=1, keepdims=True)
    return (x - mean) / (mx.sqrt(x.var(axis=1, keepdims=True)) + 1e-5)


def pre_emphasis_frames(x: mx.array, window: mx.array) -> mx.array:
    """Emphasise, cut into frames without overlap, and weigh by a window."""
    y = x[:, 1:] - 0.97 * x[:, :-1]
    return y[:, : (y.shape[1] // 400) * 400].reshape(x.shape[0], -1, 400) * window


def snake(x: mx.array, alpha: mx.array) -> mx.array:
    """Add a periodic term by channel (BigVGAN)."""
    s = mx.sin(alpha * x)
    return x + s * s / (alpha + 1e-9)


def wave_step(u: mx.array, before: mx.array) -> mx.array:
    """One step of the wave equation with a five-point stencil."""
    padded = mx.pad(u, [(1, 1), (1, 1)])
    laplacian = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2] - 4 * u
    return 2 * u - before + 0.25 * laplacian


def diffuse_four(u: mx.array) -> mx.array:
    """Four steps of heat flow on a torus."""
    for _ in range(4):
        around = mx.roll(u, 1, 0) + mx.roll(u, -1, 0) + mx.roll(u, 1, 1) + mx.roll(u, -1, 1)
        u = u + 0.1 * (around - 4 * u)
    return u


def pairwise_gaussian(x: mx.array, y: mx.array) -> mx.array:
    """Gaussian kernel of points in three dimensions."""
    d = x[:, None, :] - y[None, :, :]
    return mx.exp(-0.5 * (d * d).sum(axis=-1))


def lennard_jones(x: mx.array) -> mx.array:
    """Potential energy of each particle among 4096."""
    d = x[:, None, :] - x[None, :, :]
    r2 = (d * d).sum(axis=-1) + 0.01
    inverse = 1.0 / (r2 * r2 * r2)
    return (4.0 * (inverse * inverse - inverse)).sum(axis=1)


def nearest_centroid(x: mx.array, c: mx.array) -> tuple[mx.array, mx.array]:
    """Index of the nearest of 64 centroids in eight dimensions, and its distance."""
    d = ((x[:, None, :] - c[None]) ** 2).sum(axis=-1)
    return mx.argmin(d, axis=1), d.min(axis=1)


def edge_messages(h: mx.array, source: mx.array, weight: mx.array) -> mx.array:
    """Fetch the features of edges' sources and weigh them."""
    return mx.maximum(h[source] * weight[:, None], 0)


def segment_softmax_fixed(scores: mx.array) -> mx.array:
    """Attention over 17 neighbours of each of many nodes."""
    leaky = mx.maximum(scores, 0.2 * scores)
    return mx.softmax(leaky, axis=1)


def moving_z_score(x: mx.array) -> mx.array:
    """Distance of each price from its series' mean in deviations, with clipping."""
    z = (x - x.mean(axis=-1, keepdims=True)) / (mx.std(x, axis=-1, keepdims=True) + 1e-6)
    return mx.clip(z, -3, 3)


def black_scholes(s: mx.array, k: mx.array, t: mx.array) -> mx.array:
    """Price of European calls."""
    root = mx.sqrt(t)
    d1 = (mx.log(s / k) + 0.06 * t) / (0.2 * root)
    d2 = d1 - 0.2 * root
    n1 = 0.5 * (1 + mx.erf(d1 * 0.7071067811865476))
    n2 = 0.5 * (1 + mx.erf(d2 * 0.7071067811865476))
    return s * n1 - k * mx.exp(-0.04 * t) * n2


def odd_row_softmax(x: mx.array) -> mx.array:
    """Softmax of rows of 91 classes."""
    return mx.softmax(x, axis=-1)


def sinkhorn_step(p: mx.array) -> mx.array:
    """Normalise rows, then columns, of a transport plan."""
    p = p / p.sum(axis=-1, keepdims=True)
    return p / p.sum(axis=-2, keepdims=True)


def covariance_whiten(x: mx.array) -> mx.array:
    """Centre columns and scale them to deviation 1."""
    centred = x - x.mean(axis=0)
    return centred * mx.rsqrt((centred * centred).mean(axis=0) + 1e-5)


def hash_grid_index(p: mx.array) -> mx.array:
    """Hash cells of points, as multi-resolution grids do."""
    c = mx.floor(p * 512.0).astype(mx.uint32)
    h = c[:, 0] ^ (c[:, 1] * 2654435761) ^ (c[:, 2] * 805459861)
    return h & 0x7FFFF


def alpha_composite(density: mx.array, color: mx.array) -> mx.array:
    """Blend 128 samples of each ray by their transmittance."""
    alpha = 1 - mx.exp(-mx.maximum(density, 0) * 0.01)
    clear = mx.cumprod(1 - alpha + 1e-10, axis=-1)
    return ((alpha * clear)[..., None] * color).sum(axis=1)


SCIENCE = (
    Workload("log_power", "audio", log_power, ("T[64,201,3000]", "T[64,201,3000]"), "Whisper"),
    Workload("spectrogram_normalize", "audio", spectrogram_normalize,
             ("T[64,3000,80]",), "Conformer"),
    Workload("pre_emphasis_frames", "audio", pre_emphasis_frames,
             ("T[64,480000]", "T[400]"), "speech front end"),
    Workload("snake", "audio", snake, ("T[16,24000,64]", "T[64]"), "BigVGAN"),
    Workload("wave_step", "physics", wave_step, ("T[4096,4096]", "T[4096,4096]"), "acoustics"),
    Workload("diffuse_four", "physics", diffuse_four, ("T[4096,4096]",), "heat"),
    Workload("pairwise_gaussian", "physics", pairwise_gaussian,
             ("T[8192,3]", "T[4096,3]"), "kernel methods"),
    Workload("lennard_jones", "physics", lennard_jones, ("f32[4096,3]",), "molecular dynamics",
             is_memory_bound=False),
    Workload("nearest_centroid", "search", nearest_centroid,
             ("T[262144,8]", "T[64,8]"), "product quantization", is_memory_bound=False),
    Workload("edge_messages", "graphs", edge_messages,
             ("T[65536,128]", "i32[262144]<65536", "T[262144]"), "GAT"),
    Workload("segment_softmax_fixed", "graphs", segment_softmax_fixed,
             ("T[131072,17,8]",), "GAT"),
    Workload("moving_z_score", "finance", moving_z_score, ("T[16384,2520]",), "daily prices"),
    Workload("black_scholes", "finance", black_scholes,
             ("f32[16777216]<7", "f32[16777216]<7", "f32[16777216]<7"), "options"),
    Workload("odd_row_softmax", "search", odd_row_softmax, ("T[262144,91]",), "COCO"),
    Workload("sinkhorn_step", "search", sinkhorn_step, ("T[64,512,512]",), "optimal transport"),
    Workload("covariance_whiten", "search", covariance_whiten, ("T[65536,512]",), "features"),
    Workload("hash_grid_index", "graphics", hash_grid_index, ("f32[4194304,3]",), "instant NGP"),
    Workload("alpha_composite", "graphics", alpha_composite,
             ("T[65536,128]", "T[65536,128,3]"), "NeRF"),
)  # fmt: skip
