"""What the corpus' tasks compute: plain MLX functions, captured when the corpus is read."""

from collections.abc import Callable

import mlx.core as mx

Function = Callable[..., mx.array | tuple[mx.array, ...]]


def affine(x: mx.array, w: mx.array, b: mx.array) -> mx.array:
    """Scale and shift columns."""
    return x * w + b


def add(x: mx.array, y: mx.array) -> mx.array:
    """Add."""
    return x + y


def softmax(x: mx.array) -> mx.array:
    """Softmax of rows."""
    return mx.softmax(x, axis=-1)


def masked_softmax(x: mx.array, keep: mx.array) -> mx.array:
    """Softmax of the elements that are kept."""
    return mx.softmax(mx.where(keep, x, -mx.inf), axis=-1)


def layer_norm(x: mx.array, w: mx.array, b: mx.array) -> mx.array:
    """Normalise rows to mean 0 and variance 1, scale and shift."""
    centred = x - mx.mean(x, axis=-1, keepdims=True)
    variance = mx.mean(mx.square(centred), axis=-1, keepdims=True)
    return centred * mx.rsqrt(variance + 1e-5) * w + b


def rms_norm(x: mx.array, w: mx.array) -> mx.array:
    """Normalise rows to mean square 1 in float32, scale."""
    wide = x.astype(mx.float32)
    scale = mx.rsqrt(mx.mean(mx.square(wide), axis=-1, keepdims=True) + 1e-5)
    return (wide * scale * w.astype(mx.float32)).astype(x.dtype)


def add_rms_norm(x: mx.array, r: mx.array, w: mx.array) -> tuple[mx.array, mx.array]:
    """Add a residual and normalise the sum; both are results."""
    total = x + r
    scale = mx.rsqrt(mx.mean(mx.square(total), axis=-1, keepdims=True) + 1e-5)
    return total, total * scale * w


def swiglu(a: mx.array, b: mx.array) -> mx.array:
    """Gate one input with the SiLU of the other."""
    return a * mx.sigmoid(a) * b


def l2_norm(x: mx.array) -> mx.array:
    """Divide rows by their norm, which is 1e-6 at least."""
    square = mx.sum(x * x, axis=-1, keepdims=True)
    return x * mx.rsqrt(mx.maximum(square, 1e-12))


def cosine(a: mx.array, b: mx.array) -> mx.array:
    """Cosine between each row of one input and that of the other."""
    first, second = (mx.sqrt(mx.sum(x * x, axis=-1)) for x in (a, b))
    return mx.sum(a * b, axis=-1) / (first * second + 1e-6)


def cross_entropy(x: mx.array, target: mx.array) -> mx.array:
    """Negative log-likelihood of each row's target."""
    chosen = mx.take_along_axis(x, target[:, None], axis=-1)
    return mx.logsumexp(x, axis=-1) - mx.squeeze(chosen, -1)


def argmax(x: mx.array) -> mx.array:
    """Place of the first maximum of each row."""
    return mx.argmax(x, axis=-1)


def gather(x: mx.array, rows: mx.array) -> mx.array:
    """Take rows by index."""
    return mx.take(x, rows, axis=0)


def experts(x: mx.array, weights: mx.array, chosen: mx.array) -> mx.array:
    """Multiply a token with the matrices that are chosen for it."""
    return mx.gather_mm(x, weights, rhs_indices=chosen)


def mean(x: mx.array) -> mx.array:
    """Mean of each row."""
    return mx.mean(x, axis=-1, keepdims=True)


def variance(x: mx.array) -> mx.array:
    """Variance of each row around its mean."""
    centred = x - mx.mean(x, axis=-1, keepdims=True)
    return mx.mean(mx.square(centred), axis=-1, keepdims=True)


def widen_bytes(x: mx.array, scale: mx.array) -> mx.array:
    """Turn bytes about 128 into numbers, with a scale for each row."""
    return (x.astype(mx.float32) - 128) * scale


def clip_counts(x: mx.array) -> mx.array:
    """Keep counts between 0 and 200."""
    return mx.minimum(mx.maximum(x, 0), 200)


def whole_steps(x: mx.array) -> mx.array:
    """Round what is beyond three quarters to whole numbers, the rest to zero."""
    return mx.where(mx.abs(x) > 0.75, mx.round(x), 0.0)


def relu_squared(x: mx.array) -> mx.array:
    """Square what is above zero."""
    return mx.square(mx.maximum(x, 0))


def row_totals(x: mx.array) -> mx.array:
    """Add up each row of integers."""
    return mx.sum(x, axis=-1)


def attention(queries: mx.array, keys: mx.array, values: mx.array) -> mx.array:
    """Attend causally; the queries are the last of the keys' tokens, two heads share keys."""
    scale = queries.shape[-1] ** -0.5
    return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale, mask="causal")


def project(x: mx.array, weight: mx.array) -> mx.array:
    """Multiply rows with a transposed matrix."""
    return x @ weight.T


def running_sum(x: mx.array) -> mx.array:
    """Sum of each row up to each place."""
    return mx.cumsum(x, axis=-1)


def add_rows(table: mx.array, rows: mx.array, update: mx.array) -> mx.array:
    """Add each update to the row that it names; several may name one."""
    return table.at[rows].add(update)


def rotate(x: mx.array, angle: mx.array) -> mx.array:
    """Turn the pairs (i, i + n / 2) of each row by their angles."""
    half = x.shape[-1] // 2
    first, second = x[:, :half], x[:, half:]
    c, s = mx.cos(angle), mx.sin(angle)
    return mx.concatenate([first * c - second * s, first * s + second * c], axis=-1)


def causal_softmax(x: mx.array, offset: mx.array) -> mx.array:
    """Softmax of what each row may see, behind `offset` columns that all of them see."""
    rows, columns = (mx.arange(n) for n in x.shape)
    sees = rows[:, None] + offset >= columns[None, :]
    return mx.softmax(mx.where(sees, x, -1e9), axis=-1)


def prefix_mean(x: mx.array, lengths: mx.array) -> mx.array:
    """Mean of the first elements of each row."""
    is_inside = mx.arange(x.shape[1])[None, :] < lengths[:, None]
    return mx.sum(mx.where(is_inside, x, 0), axis=-1) / mx.maximum(lengths, 1)


def segment_mean(x: mx.array, ids: mx.array) -> mx.array:
    """Return the mean row of each of 16 segments, zero where a segment is empty."""
    counts = mx.zeros((16,), mx.float32).at[ids].add(mx.ones(ids.shape, mx.float32))
    sums = mx.zeros((16, x.shape[1]), mx.float32).at[ids].add(x.astype(mx.float32))
    return sums / mx.maximum(counts, 1)[:, None]


def clipped_by_norm(x: mx.array) -> mx.array:
    """Scale all gradients so that their norm is one at most."""
    norm = mx.sqrt(mx.sum(mx.square(x.astype(mx.float32))))
    return x.astype(mx.float32) * mx.minimum(1 / (norm + 1e-6), 1)


def huber_total(prediction: mx.array, target: mx.array) -> mx.array:
    """Add up squares of small errors, and of large ones what goes on as a line."""
    off = mx.abs(prediction - target)
    return mx.sum(mx.where(off < 0.5, off * off, off - 0.25))


def leaky(x: mx.array) -> mx.array:
    """Let an eighth of what is negative through, half as large again, and squared."""
    scaled = 1.5 * x
    return mx.where(scaled > 0, scaled, 0.125 * scaled) * scaled


FUNCTIONS: dict[str, Function] = {
    f.__name__: f
    for f in (
        affine,
        add,
        softmax,
        masked_softmax,
        layer_norm,
        rms_norm,
        l2_norm,
        cosine,
        add_rms_norm,
        swiglu,
        cross_entropy,
        experts,
        argmax,
        gather,
        mean,
        variance,
        rotate,
        attention,
        project,
        running_sum,
        add_rows,
        widen_bytes,
        clip_counts,
        whole_steps,
        relu_squared,
        row_totals,
        causal_softmax,
        prefix_mean,
        segment_mean,
        clipped_by_norm,
        huber_total,
        leaky,
    )
}
