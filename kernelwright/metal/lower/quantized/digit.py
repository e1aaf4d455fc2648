"""The text of one packed digit of a lane's words, number `k` of them, and of what it stands for."""

from kernelwright.metal.family.matvec import Product

_DIGITS = {
    ("mxfp4", 4): "four_bit_float",
    ("nvfp4", 4): "four_bit_float",
    ("mxfp8", 8): "eight_bit_float",
}
"""What makes a number of a digit, by format, where the digit is not the number itself."""
_PIECE = 16
"""Bits of a word that are shifted down together; a digit is multiplied where it stands in them.

What stands further up is larger by a power of two, which the vector's element is divided by: one
`and` for each digit. As in MLX's own kernels (`qdot` of `quantized.h`, 0.32.4).
"""


def can_stand(bits: int) -> bool:
    """Say whether a word's halves hold whole digits, so that they are multiplied as they stand."""
    return _PIECE % bits == 0


def standing_digit(words: str, bits: int, *, is_one_word: bool) -> str:
    """Return a digit times a power of two, as it stands in its half of a word."""
    each = _PIECE // bits
    word = words if is_one_word else f"{words}[k / {2 * each}]"
    mask = f"{(1 << bits) - 1}u << (k % {each} * {bits})"
    return f"({word} >> (k / {each} % 2 * {_PIECE})) & ({mask})"


def share_of_place(number: str, bits: int) -> str:
    """Return what the element of a vector is multiplied by whose digit stands so far up."""
    return f"(1.0f / float(1u << (({number}) % {_PIECE // bits} * {bits})))"


def digit_of(words: str, bits: int, *, is_one_word: bool) -> str:
    """Return a digit as a number."""
    if 32 % bits:
        return f"digit_of<{bits}>({words}, k)"
    each, mask = 32 // bits, (1 << bits) - 1
    if is_one_word:
        return f"({words} >> (k * {bits})) & {mask}u"
    return f"({words}[k / {each}] >> ((k % {each}) * {bits})) & {mask}u"


def weight_of(digit: str, scale: str, bias: str, product: Product) -> str:
    """Return the weight that a digit stands for; `bias` is empty where there is none."""
    value = f"{_DIGITS.get((product.mode, product.bits), 'float')}({digit})"
    return f"{scale} * {value} + {bias}" if bias else f"{scale} * {value}"
