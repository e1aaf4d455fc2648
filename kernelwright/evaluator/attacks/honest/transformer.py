"""Parts of transformers that hand-written kernels compute."""

import mlx.core as mx


def geglu(a: mx.array, b: mx.array) -> mx.array:
    """Gate one input with the tanh form of GELU of the other."""
    inner = 0.7978845608 * (a + 0.044715 * a * a * a)
    return 0.5 * a * (1 + mx.tanh(inner)) * b


def causal_decode(queries: mx.array, keys: mx.array, values: mx.array) -> mx.array:
    """Attend from one new token of each head to all keys; two heads share keys."""
    scale = queries.shape[-1] ** -0.5
    return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale)


def quantize_rows(x: mx.array) -> tuple[mx.array, mx.array]:
    """Scale each row to 8-bit integers, half to even; a row of zeros has scale 1."""
    peak = mx.max(mx.abs(x.astype(mx.float32)), axis=-1, keepdims=True)
    scale = mx.where(peak == 0, 1.0, peak / 127.0)
    whole = mx.clip(mx.round(x.astype(mx.float32) / scale), -127, 127)
    return whole.astype(mx.int8), scale


def dequantize(w: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
    """Widen words of 4-bit numbers in groups of 32."""
    return mx.dequantize(w, scales, biases, group_size=32, bits=4)


def quantized_matvec(x: mx.array, w: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
    """Multiply vectors with a matrix of 4-bit numbers in groups of 32."""
    return mx.quantized_matmul(x, w, scales, biases, group_size=32, bits=4)


def group_norm(x: mx.array, w: mx.array, b: mx.array) -> mx.array:
    """Normalise four groups of channels of each image, scale and shift channels."""
    images, places, channels = x.shape
    wide = x.astype(mx.float32).reshape(images, places, 4, channels // 4)
    mean = mx.mean(wide, axis=(1, 3), keepdims=True)
    variance = mx.mean(mx.square(wide - mean), axis=(1, 3), keepdims=True)
    normal = ((wide - mean) * mx.rsqrt(variance + 1e-5)).reshape(x.shape)
    return (normal * w.astype(mx.float32) + b.astype(mx.float32)).astype(x.dtype)


def adam_step(
    parameter: mx.array, gradient: mx.array, mean: mx.array, square: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """Take one step of Adam, with its moments."""
    first = 0.9 * mean + 0.1 * gradient
    second = 0.999 * square + 0.001 * mx.square(gradient)
    return parameter - 0.001 * first / (mx.sqrt(second) + 1e-8), first, second


def combine_experts(outputs: mx.array, places: mx.array, weights: mx.array) -> mx.array:
    """Add the rows that a token's experts gave, each with its weight."""
    chosen = mx.take(outputs, places, axis=0)
    return mx.sum(chosen * weights[:, :, None], axis=1)


def depthwise(x: mx.array, w: mx.array) -> mx.array:
    """Convolve each channel causally with its own four taps."""
    padded = mx.pad(x, [(3, 0), (0, 0)])
    length = x.shape[0]
    taps = [padded[k : k + length] * w[k] for k in range(4)]
    return taps[0] + taps[1] + taps[2] + taps[3]


def rope(x: mx.array) -> mx.array:
    """Turn the pairs (2i, 2i + 1) of each head by angles of the token's position."""
    return mx.fast.rope(x, x.shape[-1], traditional=True, base=10000.0, scale=1.0, offset=3)


def pairwise_distance(a: mx.array, b: mx.array) -> mx.array:
    """Squared distance of every row of one array from every row of the other."""
    return mx.sum(mx.square(a[:, None, :] - b[None, :, :]), axis=-1)


def gemm(a: mx.array, b: mx.array) -> mx.array:
    """Multiply two matrices."""
    return a @ b


def integer_gemm(a: mx.array, b: mx.array) -> mx.array:
    """Multiply rows of 8-bit integers with rows of others, exactly."""
    wide = a.astype(mx.int32)[:, None, :] * b.astype(mx.int32)[None, :, :]
    return mx.sum(wide, axis=-1)


def top_four(x: mx.array) -> mx.array:
    """Give the four largest of each row, the largest first."""
    return -mx.sort(-x, axis=-1)[:, :4]


def sort_rows(x: mx.array) -> mx.array:
    """Sort each row."""
    return mx.sort(x, axis=-1)


def softplus_clip(x: mx.array) -> mx.array:
    """Logarithm of one plus the exponential, between 0.01 and 30."""
    return mx.clip(mx.logaddexp(x, mx.zeros_like(x)), 0.01, 30.0)


def standard_rows(x: mx.array) -> mx.array:
    """Divide rows by their Euclidean length."""
    return x * mx.rsqrt(mx.sum(mx.square(x), axis=-1, keepdims=True) + 1e-6)
