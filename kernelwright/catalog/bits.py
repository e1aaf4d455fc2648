"""Bits packed and unpacked."""

import mlx.core as mx

from kernelwright.catalog.entry import entry


@entry("bool[256,512]")
def pack_bits(bits: mx.array) -> mx.array:
    """Eight flags a byte, lowest bit first."""
    octets = bits.reshape(bits.shape[0], -1, 8).astype(mx.uint8)
    return mx.sum(octets << mx.arange(8, dtype=mx.uint8), axis=-1).astype(mx.uint8)


@entry("u8[256,64]")
def unpack_bits(packed: mx.array) -> mx.array:
    """A byte's eight flags, lowest bit first."""
    bits = mx.right_shift(packed[..., None], mx.arange(8, dtype=mx.uint8)) & 1
    return (bits != 0).reshape(packed.shape[0], -1)


@entry("u8[256,512]")
def unpack_nibbles(packed: mx.array) -> mx.array:
    """A byte's two halves, low first."""
    return mx.stack([packed & 15, packed >> 4], axis=-1).reshape(packed.shape[0], -1)
