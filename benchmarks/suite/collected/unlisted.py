"""Functions written to find shapes of work that fall short; odd sizes, and no family in mind."""

import mlx.core as mx

from benchmarks.suite.workload import Workload


def image_layer_norm(x: mx.array, shift: mx.array, scale: mx.array) -> mx.array:
    """Normalise tokens, then scale and shift them per image (DiT)."""
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    return (x - mean) * mx.rsqrt(variance + 1e-6) * (1 + scale[:, None]) + shift[:, None]


def sandwich_norm_residual(x: mx.array, y: mx.array, w: mx.array, v: mx.array) -> mx.array:
    """Normalise a branch, add it, and normalise the sum for the next layer (Gemma)."""
    total = x + mx.fast.rms_norm(y, w, 1e-6)
    return mx.fast.rms_norm(total, v, 1e-6)


def z_loss_cross_entropy(logits: mx.array, labels: mx.array) -> mx.array:
    """Cross entropy with the square of the normaliser added, token by token (PaLM)."""
    wide = logits.astype(mx.float32)
    lse = mx.logsumexp(wide, axis=-1)
    picked = mx.take_along_axis(wide, labels[:, None], axis=-1)[:, 0]
    return lse - picked + 1e-4 * lse * lse


def min_p_filter(logits: mx.array) -> mx.array:
    """Hide tokens less probable than a share of the best one."""
    p = mx.softmax(logits.astype(mx.float32), axis=-1)
    best = p.max(axis=-1, keepdims=True)
    return mx.where(p < 0.05 * best, -mx.inf, logits.astype(mx.float32)).astype(logits.dtype)


def typical_entropy(logits: mx.array) -> mx.array:
    """Distance of each token's information from the entropy of its row (typical sampling)."""
    log_p = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    entropy = -(mx.exp(log_p) * log_p).sum(axis=-1, keepdims=True)
    return mx.abs(-log_p - entropy)


def js_divergence(a: mx.array, b: mx.array) -> mx.array:
    """Jensen-Shannon divergence of two rows of logits."""
    p = mx.softmax(a.astype(mx.float32), axis=-1)
    q = mx.softmax(b.astype(mx.float32), axis=-1)
    m = 0.5 * (p + q)
    left = (p * (mx.log(p + 1e-9) - mx.log(m + 1e-9))).sum(axis=-1)
    right = (q * (mx.log(q + 1e-9) - mx.log(m + 1e-9))).sum(axis=-1)
    return 0.5 * (left + right)


def mel_log_normalize(power: mx.array) -> mx.array:
    """Log10 of mel energies, held within 8 of the largest of all (Whisper)."""
    log = mx.log10(mx.maximum(power, 1e-10))
    log = mx.maximum(log, log.max() - 8.0)
    return (log + 4.0) / 4.0


def local_contrast(x: mx.array) -> mx.array:
    """Subtract the mean of 5 x 5 neighbours and divide by their deviation."""
    h, w = x.shape[1:]
    p = mx.pad(x, [(0, 0), (2, 2), (2, 2)])
    taps = [p[:, i : i + h, j : j + w] for i in range(5) for j in range(5)]
    mean = sum(taps[1:], start=taps[0]) / 25
    square = sum((t * t for t in taps[1:]), start=taps[0] * taps[0]) / 25
    return (x - mean) * mx.rsqrt(mx.maximum(square - mean * mean, 0) + 1e-3)


def max_pool_3x3(x: mx.array) -> mx.array:
    """Largest of 3 x 3 with stride 2, channels last."""
    h, w = x.shape[1:3]
    p = mx.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)], constant_values=-1e4)
    taps = [p[:, i : i + h : 2, j : j + w : 2] for i in range(3) for j in range(3)]
    best = taps[0]
    for tap in taps[1:]:
        best = mx.maximum(best, tap)
    return best


def bilinear_up_two(x: mx.array) -> mx.array:
    """Double a plane, each new pixel the mean of its two neighbours (channels last)."""
    right = mx.concatenate([x[:, :, 1:], x[:, :, -1:]], axis=2)
    wide = mx.stack([x, 0.5 * (x + right)], axis=3).reshape(x.shape[0], x.shape[1], -1, x.shape[3])
    below = mx.concatenate([wide[:, 1:], wide[:, -1:]], axis=1)
    tall = mx.stack([wide, 0.5 * (wide + below)], axis=2)
    return tall.reshape(x.shape[0], -1, wide.shape[2], x.shape[3])


def patchify(x: mx.array, mean: mx.array) -> mx.array:
    """Cut channels-first images into rows of 14 x 14 patches."""
    b, c, h, w = x.shape
    x = (x - mean[:, None, None]).reshape(b, c, h // 14, 14, w // 14, 14)
    return x.transpose(0, 2, 4, 1, 3, 5).reshape(b, -1, c * 196)


def layer_norm_odd(x: mx.array, w: mx.array, b: mx.array) -> mx.array:
    """Layer norm of rows of 763."""
    return mx.fast.layer_norm(x, w, b, 1e-5)


def l2_normalize_odd(x: mx.array) -> mx.array:
    """Bring embeddings of 301 to length one."""
    return x / mx.maximum(mx.sqrt((x * x).sum(axis=-1, keepdims=True)), 1e-6)


def column_softmax_long(x: mx.array) -> mx.array:
    """Softmax over 1500 audio frames, features last."""
    return mx.softmax(x, axis=1)


def standardize_columns(x: mx.array) -> mx.array:
    """Give each feature of a table mean 0 and deviation 1."""
    return (x - x.mean(axis=0)) / (mx.sqrt(x.var(axis=0)) + 1e-6)


def cosine_matrix(x: mx.array, y: mx.array) -> mx.array:
    """Cosine of every pair of vectors of 24."""
    dot = (x[:, None] * y[None]).sum(axis=-1)
    return dot * mx.rsqrt((x * x).sum(axis=-1))[:, None] * mx.rsqrt((y * y).sum(axis=-1))[None]


def kernel_density(x: mx.array, points: mx.array) -> mx.array:
    """Sum of Gaussians of all points at each place."""
    d = x[:, None] - points[None]
    return mx.exp(-0.5 * (d * d).sum(axis=-1)).sum(axis=-1)


def rotary_half_gated(q: mx.array, cos: mx.array, sin: mx.array, gate: mx.array) -> mx.array:
    """Turn the halves of heads of 96 and scale each head by a gate."""
    half = q.shape[-1] // 2
    a, b = q[..., :half], q[..., half:]
    turned = mx.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
    return turned * mx.sigmoid(gate)[..., None]


def fake_quantize(w: mx.array) -> mx.array:
    """Round groups of 32 weights to 4 bits by their range."""
    g = w.reshape(w.shape[0], -1, 32)
    low, high = g.min(axis=-1, keepdims=True), g.max(axis=-1, keepdims=True)
    scale = mx.maximum((high - low) / 15, 1e-5)
    return (mx.clip(mx.round((g - low) / scale), 0, 15) * scale + low).reshape(w.shape)


def vq_codes(x: mx.array, book: mx.array) -> mx.array:
    """Nearest of 256 code vectors of 8."""
    d = x[:, None] - book[None]
    return mx.argmin((d * d).sum(axis=-1), axis=-1)


def discounted_returns(reward: mx.array, done: mx.array) -> mx.array:
    """Sum of rewards to come, by a cumulative sum from the end."""
    weight = 0.99 ** mx.arange(reward.shape[1], dtype=mx.float32)
    total = mx.cumsum(reward * (1 - done) * weight, axis=1, reverse=True)
    return total / mx.maximum(weight, 1e-3)


def barlow_loss_terms(c: mx.array) -> tuple[mx.array, mx.array]:
    """Sums of a cross-correlation's diagonal and off-diagonal terms."""
    n = c.shape[0]
    eye = mx.arange(n)[:, None] == mx.arange(n)[None]
    on = mx.where(eye, (c - 1) ** 2, 0).sum()
    off = mx.where(eye, 0, c * c).sum()
    return on, off


def heat_steps(u: mx.array) -> mx.array:
    """Two explicit steps of the heat equation on a ring of rings."""
    for _ in range(2):
        u = u + 0.1 * (
            mx.roll(u, 1, 0) + mx.roll(u, -1, 0) + mx.roll(u, 1, 1) + mx.roll(u, -1, 1) - 4 * u
        )
    return u


def expert_combine(y: mx.array, weights: mx.array, shared: mx.array) -> mx.array:
    """Add up 6 experts' outputs by weight, and a shared one."""
    return (y * weights[..., None]).sum(axis=1) + shared


def mean_pool_masked(x: mx.array, mask: mx.array) -> mx.array:
    """Average the tokens that a mask keeps, then bring to length one."""
    m = mask.astype(x.dtype)[..., None]
    pooled = (x * m).sum(axis=1) / mx.maximum(m.sum(axis=1), 1)
    return pooled * mx.rsqrt((pooled * pooled).sum(axis=-1, keepdims=True) + 1e-12)


def packed_product(x: mx.array, packed: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
    """Multiply a prompt's tokens with a matrix of 4 bits."""
    return mx.quantized_matmul(x, packed, scales, biases, transpose=True, group_size=64, bits=4)


def packed_gate(
    x: mx.array,
    gate: mx.array,
    gate_scales: mx.array,
    gate_biases: mx.array,
    up: mx.array,
    up_scales: mx.array,
    up_biases: mx.array,
) -> mx.array:
    """Multiply a prompt's tokens with two matrices of 4 bits, and gate one by the other."""
    gated = mx.quantized_matmul(x, gate, gate_scales, gate_biases, group_size=64, bits=4)
    return (
        gated
        * mx.sigmoid(gated)
        * mx.quantized_matmul(x, up, up_scales, up_biases, group_size=64, bits=4)
    )


def _packed(rows: int, columns: int) -> tuple[str, ...]:
    """Return the inputs of a matrix of 4 bits in groups of 64."""
    groups = f"T[{rows},{columns // 64}]"
    return (f"u32[{rows},{columns // 8}]", groups, groups)


_PRODUCTS = (
    ("prefill_8b_up", "Llama 3 8B", 4096, 14336),
    ("prefill_8b_down", "Llama 3 8B", 14336, 4096),
    ("prefill_8b_query", "Llama 3 8B", 4096, 4096),
    ("prefill_1b_up", "Llama 3.2 1B", 2048, 8192),
    ("prefill_1b_down", "Llama 3.2 1B", 8192, 2048),
    ("prefill_1b_query", "Llama 3.2 1B", 2048, 2048),
)
_PREFILL = tuple(
    Workload(name, "language", packed_product, (f"T[512,{columns}]", *_packed(rows, columns)),
             model, is_memory_bound=False)
    for name, model, columns, rows in _PRODUCTS
)  # fmt: skip

UNLISTED = (
    *_PREFILL,
    Workload("prefill_8b_gate", "language", packed_gate,
             ("T[512,4096]", *_packed(14336, 4096), *_packed(14336, 4096)), "Llama 3 8B",
             is_memory_bound=False),
    Workload("image_layer_norm", "vision", image_layer_norm,
             ("T[32,1024,1152]", "T[32,1152]", "T[32,1152]"), "DiT-XL"),
    Workload("sandwich_norm_residual", "language", sandwich_norm_residual,
             ("T[4096,3072]", "T[4096,3072]", "T[3072]", "T[3072]"), "Gemma 2"),
    Workload("z_loss_cross_entropy", "training", z_loss_cross_entropy,
             ("T[512,128257]", "i32[512]<128257"), "Llama 3 with a token more"),
    Workload("min_p_filter", "language", min_p_filter, ("T[256,151936]",), "Qwen"),
    Workload("typical_entropy", "language", typical_entropy, ("T[256,151936]",), "Qwen"),
    Workload("js_divergence", "training", js_divergence,
             ("T[256,50257]", "T[256,50257]"), "GPT-2"),
    Workload("mel_log_normalize", "audio", mel_log_normalize, ("T[8000,3000]<9",), "Whisper"),
    Workload("local_contrast", "vision", local_contrast, ("T[48,500,700]",), "photographs"),
    Workload("max_pool_3x3", "vision", max_pool_3x3, ("T[32,112,112,64]",), "ResNet"),
    Workload("bilinear_up_two", "vision", bilinear_up_two, ("T[16,90,120,64]",), "a U-Net"),
    Workload("patchify", "vision", patchify, ("T[64,3,518,518]", "T[3]"), "DINOv2"),
    Workload("layer_norm_odd", "science", layer_norm_odd,
             ("T[32768,763]", "T[763]", "T[763]"), "tabular rows"),
    Workload("l2_normalize_odd", "search", l2_normalize_odd, ("T[65536,301]",), "embeddings"),
    Workload("column_softmax_long", "audio", column_softmax_long, ("T[16,1500,384]",), "frames"),
    Workload("standardize_columns", "science", standardize_columns, ("T[50000,390]",), "a table"),
    Workload("cosine_matrix", "search", cosine_matrix, ("T[3000,24]", "T[5000,24]"), "pairs"),
    Workload("kernel_density", "science", kernel_density, ("f32[6000,3]", "f32[7000,3]"),
             "densities", is_memory_bound=False),
    Workload("rotary_half_gated", "language", rotary_half_gated,
             ("T[4,24,2048,96]", "T[2048,48]", "T[2048,48]", "T[4,24,2048]"), "Phi"),
    Workload("fake_quantize", "training", fake_quantize, ("T[4096,8192]",), "a weight"),
    Workload("vq_codes", "audio", vq_codes, ("f32[100000,8]", "f32[256,8]"), "a codec",
             is_memory_bound=False),
    Workload("discounted_returns", "training", discounted_returns,
             ("f32[4096,2000]", "f32[4096,2000]<1"), "episodes"),
    Workload("barlow_loss_terms", "training", barlow_loss_terms, ("f32[5000,5000]",), "features"),
    Workload("heat_steps", "physics", heat_steps, ("f32[4000,5000]",), "a plane"),
    Workload("expert_combine", "language", expert_combine,
             ("T[8192,6,2048]", "T[8192,6]", "T[8192,2048]"), "DeepSeek"),
    Workload("mean_pool_masked", "search", mean_pool_masked,
             ("T[64,511,1024]", "i32[64,511]<2"), "sentences"),
)  # fmt: skip
