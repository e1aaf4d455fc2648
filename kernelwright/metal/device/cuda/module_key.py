"""Eight bytes that MLX's CUDA backend takes for a binary that it has loaded.

MLX keeps loaded modules under `std::hash` of the text that it is given, and computes it at every
launch: 3 µs of the host's time for a binary of 20 KB, 9 µs for one of 56 KB (one H200), where
launching one of its own kernels takes 3. A text of eight bytes with the same hash finds the module
and costs nothing to hash.
"""

import struct

_WORD = 8
_MASK = (1 << 64) - 1
_MULTIPLIER = 0xC6A4A7935BD1E995
_INVERSE = pow(_MULTIPLIER, -1, 1 << 64)
_SEED = 0xC70F6907
"""MurmurHash64A with the seed of libstdc++'s `std::hash<std::string>`."""


def module_hash(text: bytes) -> int:
    """Return libstdc++'s hash of a text on a 64-bit machine."""
    end = len(text) // _WORD * _WORD
    found = _begun(len(text))
    for (word,) in struct.iter_unpack("<Q", text[:end]):
        found = (found ^ _scrambled(word)) * _MULTIPLIER & _MASK
    if end < len(text):
        found = (found ^ int.from_bytes(text[end:], "little")) * _MULTIPLIER & _MASK
    return _mixed(_mixed(found) * _MULTIPLIER & _MASK)


def short_key(text: bytes) -> bytes:
    """Return eight bytes with the hash of a text; every step of the hash has an inverse."""
    found = _mixed(_mixed(module_hash(text)) * _INVERSE & _MASK) * _INVERSE & _MASK
    word = found ^ _begun(_WORD)
    return (_mixed(word * _INVERSE & _MASK) * _INVERSE & _MASK).to_bytes(_WORD, "little")


def _begun(length: int) -> int:
    return _SEED ^ (length * _MULTIPLIER & _MASK)


def _scrambled(word: int) -> int:
    return _mixed(word * _MULTIPLIER & _MASK) * _MULTIPLIER & _MASK


def _mixed(value: int) -> int:
    """Fold the upper bits in; done twice it changes nothing."""
    return value ^ (value >> 47)
