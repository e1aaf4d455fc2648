"""Functions of training: optimizers, losses, gradients, statistics."""

import mlx.core as mx

from benchmarks.suite.workload import Workload

WEIGHT = "a 4096 x 11008 weight"


def lion_step(w: mx.array, g: mx.array, m: mx.array) -> tuple[mx.array, mx.array]:
    """Step by the sign of an interpolated gradient."""
    update = mx.sign(0.9 * m + 0.1 * g)
    return w * (1 - 1e-5) - 1e-4 * update, 0.99 * m + 0.01 * g


def sgd_nesterov(w: mx.array, g: mx.array, v: mx.array) -> tuple[mx.array, mx.array]:
    """Momentum with a look ahead, and weight decay."""
    g = g + 1e-4 * w
    v = 0.9 * v + g
    return w - 0.01 * (g + 0.9 * v), v


def adafactor_update(g: mx.array, row: mx.array, column: mx.array) -> mx.array:
    """Scale a gradient by factored second moments."""
    rows = 0.99 * row + 0.01 * mx.mean(g * g + 1e-30, axis=1)
    columns = 0.99 * column + 0.01 * mx.mean(g * g + 1e-30, axis=0)
    r = mx.rsqrt(rows / mx.mean(rows))
    c = mx.rsqrt(columns)
    return g * r[:, None] * c[None]


def gradient_norm_clip(g: mx.array) -> mx.array:
    """Scale a gradient to norm one where it is longer."""
    norm = mx.sqrt((g.astype(mx.float32) ** 2).sum())
    return (g * mx.minimum(1.0 / (norm + 1e-6), 1.0)).astype(g.dtype)


def weight_standardize(w: mx.array) -> mx.array:
    """Give each output channel's weights mean 0 and deviation 1."""
    mean = w.mean(axis=1, keepdims=True)
    return (w - mean) / mx.sqrt(w.var(axis=1, keepdims=True) + 1e-5)


def row_column_norms(w: mx.array) -> tuple[mx.array, mx.array]:
    """Return the norms of all rows and of all columns."""
    squares = w.astype(mx.float32) ** 2
    return mx.sqrt(squares.sum(axis=1)), mx.sqrt(squares.sum(axis=0))


def dora_scale(w: mx.array, magnitude: mx.array) -> mx.array:
    """Scale rows of an adapted weight to learned norms."""
    return w * (magnitude / mx.linalg.norm(w.astype(mx.float32), axis=1))[:, None].astype(w.dtype)


def focal_loss(logits: mx.array, target: mx.array) -> mx.array:
    """Binary focal loss of each element."""
    p = mx.sigmoid(logits)
    loss = mx.logaddexp(logits, 0.0) - logits * target
    miss = p * (1 - target) + (1 - p) * target
    return loss * miss * miss * (0.25 * target + 0.75 * (1 - target))


def label_smoothing_loss(logits: mx.array, labels: mx.array) -> mx.array:
    """Cross entropy with a tenth of the mass spread over all classes."""
    log_p = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    picked = mx.take_along_axis(log_p, labels[:, None], axis=-1)[:, 0]
    return -(0.9 * picked + 0.1 * log_p.mean(axis=-1))


def distillation_loss(student: mx.array, teacher: mx.array) -> mx.array:
    """KL divergence of softened distributions, row by row."""
    log_s = student / 2 - mx.logsumexp(student / 2, axis=-1, keepdims=True)
    log_t = teacher / 2 - mx.logsumexp(teacher / 2, axis=-1, keepdims=True)
    return (mx.exp(log_t) * (log_t - log_s)).sum(axis=-1) * 4


def entropy_rows(logits: mx.array) -> mx.array:
    """Entropy of each row's distribution."""
    log_p = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    return -(mx.exp(log_p) * log_p).sum(axis=-1)


def dpo_log_probs(logits: mx.array, labels: mx.array, mask: mx.array) -> mx.array:
    """Sum the log probabilities of the chosen tokens of each sequence."""
    picked = mx.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    log_p = picked - mx.logsumexp(logits, axis=-1)
    return (log_p * mask).sum(axis=-1)


def group_advantage(rewards: mx.array) -> mx.array:
    """Normalise rewards within groups of 16 samples (GRPO)."""
    grouped = rewards.reshape(-1, 16)
    mean = grouped.mean(axis=1, keepdims=True)
    return ((grouped - mean) / (mx.std(grouped, axis=1, keepdims=True) + 1e-4)).reshape(-1)


def cosine_rows(a: mx.array, b: mx.array) -> mx.array:
    """Cosine similarity of matching rows."""
    dot = (a * b).sum(axis=-1)
    return dot * mx.rsqrt((a * a).sum(axis=-1) * (b * b).sum(axis=-1) + 1e-6)


def vicreg_statistics(z: mx.array) -> tuple[mx.array, mx.array]:
    """Centre features by column, and hinge their deviations."""
    centred = z - z.mean(axis=0)
    deviation = mx.sqrt(centred.var(axis=0) + 1e-4)
    return centred, mx.maximum(1 - deviation, 0)


def huber_mean(a: mx.array, b: mx.array) -> mx.array:
    """Mean Huber loss of a whole array."""
    d = mx.abs(a - b).astype(mx.float32)
    return mx.mean(mx.where(d < 1, 0.5 * d * d, d - 0.5))


def swiglu_gradient(x: mx.array, y: mx.array, g: mx.array) -> tuple[mx.array, mx.array]:
    """Gradients of silu(x) * y."""
    s = mx.sigmoid(x)
    return g * y * s * (1 + x * (1 - s)), g * x * s


def rms_norm_backward(x: mx.array, w: mx.array, g: mx.array) -> tuple[mx.array, mx.array]:
    """Gradients of an RMS norm for its input and its weight."""
    inverse = mx.rsqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)
    gw = g * w
    dot = (gw * x).mean(axis=-1, keepdims=True)
    return inverse * gw - x * inverse**3 * dot, (g * x * inverse).sum(axis=0)


def ema_and_distance(a: mx.array, b: mx.array) -> tuple[mx.array, mx.array]:
    """Move averaged weights, and measure how far they were."""
    return 0.999 * a + 0.001 * b, mx.abs(a - b).max()


TRAINING = (
    Workload("lion_step", "training", lion_step,
             ("T[4096,11008]", "T[4096,11008]", "T[4096,11008]"), WEIGHT),
    Workload("sgd_nesterov", "training", sgd_nesterov,
             ("T[4096,11008]", "T[4096,11008]", "T[4096,11008]"), WEIGHT),
    Workload("adafactor_update", "training", adafactor_update,
             ("T[4096,11008]", "T[4096]", "T[11008]"), WEIGHT),
    Workload("gradient_norm_clip", "training", gradient_norm_clip, ("T[4096,11008]",), WEIGHT),
    Workload("weight_standardize", "training", weight_standardize, ("T[2048,4608]",), "BiT"),
    Workload("row_column_norms", "training", row_column_norms, ("T[4096,11008]",), WEIGHT),
    Workload("dora_scale", "training", dora_scale, ("T[4096,11008]", "T[4096]"), WEIGHT),
    Workload("focal_loss", "training", focal_loss, ("T[16,76725,20]", "T[16,76725,20]"),
             "RetinaNet"),
    Workload("label_smoothing_loss", "training", label_smoothing_loss,
             ("T[1024,50257]", "i32[1024]<50257"), "GPT-2"),
    Workload("distillation_loss", "training", distillation_loss,
             ("T[512,151936]", "T[512,151936]"), "Qwen3"),
    Workload("entropy_rows", "training", entropy_rows, ("T[512,151936]",), "Qwen3"),
    Workload("dpo_log_probs", "training", dpo_log_probs,
             ("T[4,256,50257]", "i32[4,256]<50257", "T[4,256]"), "GPT-2"),
    Workload("group_advantage", "training", group_advantage, ("T[4194304]",), "GRPO"),
    Workload("cosine_rows", "training", cosine_rows, ("T[65536,384]", "T[65536,384]"), "MiniLM"),
    Workload("vicreg_statistics", "training", vicreg_statistics, ("T[4096,8192]",), "VICReg"),
    Workload("huber_mean", "training", huber_mean, ("T[4096,8192]", "T[4096,8192]"), "DQN"),
    Workload("swiglu_gradient", "training", swiglu_gradient,
             ("T[4096,11008]", "T[4096,11008]", "T[4096,11008]"), "Llama 2 7B"),
    Workload("rms_norm_backward", "training", rms_norm_backward,
             ("T[8192,2048]", "T[2048]", "T[8192,2048]"), "Llama 1B"),
    Workload("ema_and_distance", "training", ema_and_distance,
             ("T[4096,11008]", "T[4096,11008]"), WEIGHT),
)  # fmt: skip
