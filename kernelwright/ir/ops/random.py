"""Random bits: a counter-based generator, so a key fixes every value."""

from typing import Protocol, Self, TypeVar

import numpy as np

from kernelwright.ir.ops.op import Array, Call, Kind, Op, Shape


class Words(Protocol):
    """Unsigned 32-bit words that wrap: a NumPy array, or an array of MLX."""

    def __add__(self, other: Self, /) -> Self: ...
    def __xor__(self, other: Self, /) -> Self: ...
    def __or__(self, other: Self, /) -> Self: ...
    def __lshift__(self, other: Self, /) -> Self: ...
    def __rshift__(self, other: Self, /) -> Self: ...


W = TypeVar("W", bound=Words)

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def threefry(keys: tuple[W, W], counts: tuple[W, W], words: "dict[int, W]") -> tuple[W, W]:
    """Hash two counter words under two key words: Threefry-2x32 with 20 rounds.

    `words` holds the small integers that `needed_words` lists, as arrays of one element.
    Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
    """
    schedule = (keys[0], keys[1], keys[0] ^ keys[1] ^ words[_PARITY])
    x, y = counts[0] + schedule[0], counts[1] + schedule[1]
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            x = x + y
            y = (y << words[rotation]) | (y >> words[32 - rotation])
            y = y ^ x
        x = x + schedule[(block + 1) % 3]
        y = y + schedule[(block + 2) % 3] + words[block + 1]
    return x, y


def needed_words() -> tuple[int, ...]:
    """List the integers that `threefry` combines with its words."""
    rotations = {r for row in _ROTATIONS for r in row}
    return (_PARITY, *rotations, *(32 - r for r in rotations), *range(1, 6))


def counters(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the counter pairs that fill `count` 32-bit words of one key.

    The first words of all pairs come first, then the second words; an odd count ends its
    first half with the lone pair `(half, 0)`, whose second word is dropped.
    """
    half, odd = divmod(count, 2)
    first = np.arange(half + odd, dtype=np.uint32)
    second = first + np.uint32(half + odd)
    if odd:
        second[-1] = 0
    return first, second


def word_count(call: Call) -> int:
    """Count the 32-bit words that one key has to fill."""
    key_count = max(call.inputs[0].size // 2, 1)
    nbytes = call.outputs[0].size // key_count * call.integer("width")
    return -(-nbytes // 4)


def _random_bits(call: Call, key: Array) -> Array:
    count = word_count(call)
    words = {w: np.array([w], np.uint32) for w in needed_words()}
    first, second = counters(count)
    pairs = key.reshape(-1, 2).astype(np.uint32)
    rows = []
    for pair in pairs:
        x, y = threefry((pair[:1], pair[1:]), (first, second), words)
        rows.append(np.concatenate([x, y])[:count])
    dtype = call.outputs[0].dtype.numpy
    nbytes = call.outputs[0].nbytes // len(pairs)
    filled = [row.view(np.uint8)[:nbytes].view(dtype) for row in rows]
    return np.stack(filled).reshape(call.outputs[0].shape)


def _shape(call: Call) -> tuple[Shape, ...]:
    return (call.outputs[0].shape,)


OPS: tuple[Op, ...] = (Op("random_bits", Kind.RANDOM, _random_bits, ("shape", "width"), _shape),)
