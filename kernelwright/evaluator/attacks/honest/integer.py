"""Integer arithmetic and bits that hand-written kernels compute."""

import mlx.core as mx


def divide_by_seven(x: mx.array) -> tuple[mx.array, mx.array]:
    """Quotient and remainder by seven, rounded towards minus infinity."""
    return x // 7, x % 7


def pack_nibbles(x: mx.array) -> mx.array:
    """Pack the low four bits of eight numbers into each word, the first lowest."""
    shifts = mx.arange(0, 32, 4, dtype=mx.uint32)
    return mx.sum((x & 15) << shifts, axis=-1)


def hamming(a: mx.array, b: mx.array) -> mx.array:
    """Count the bits in which two rows of words differ."""
    bits = mx.arange(32, dtype=mx.uint32)
    differing = ((a ^ b)[:, :, None] >> bits) & 1
    return mx.sum(differing.astype(mx.int32), axis=(1, 2))


def hash_bits(counter: mx.array, key: mx.array) -> mx.array:
    """Mix a counter and each row's key into pseudo-random words."""
    v = counter + key[:, None]
    v = (v ^ (v >> 16)) * 0x7FEB352D
    v = (v ^ (v >> 15)) * 0x846CA68B
    return v ^ (v >> 16)


def bincount(x: mx.array) -> mx.array:
    """Count how often each of 37 values occurs."""
    return mx.sum((x[:, None] == mx.arange(37)).astype(mx.int32), axis=0)
