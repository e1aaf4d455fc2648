"""Mistakes in the arithmetic of places: strides, offsets, wrong elements, wrong integer types."""

from collections.abc import Iterator

from kernelwright.evaluator.attacks.mutate.record import TextOperator
from kernelwright.evaluator.attacks.mutate.text import Change, MetalText, Operand
from kernelwright.metal.msl.token import TokenKind

_OTHER_TYPE = {
    "uint": ("int", "ushort"),
    "int": ("uint", "short"),
    "ulong": ("uint", "long"),
    "size_t": ("uint",),
    "long": ("int", "ulong"),
    "uchar": ("char",),
    "char": ("uchar",),
    "ushort": ("short", "uchar"),
    "short": ("ushort",),
    "uint8_t": ("int8_t",),
    "int8_t": ("uint8_t",),
    "uint32_t": ("int32_t", "uint16_t"),
    "int32_t": ("uint32_t", "int16_t"),
}
"""Of the other sign, and narrower."""


def _subscripts(text: MetalText) -> Iterator[Operand]:
    """Yield what stands in square brackets behind a value; sizes of arrays are left out."""
    for place, word in enumerate(text.words):
        is_subscript = word == "[" and place in text.partner and place > 0
        if not is_subscript or text.partner[place] == place + 1:
            continue
        is_declaration = text.is_type(place - 2) or (
            text.words[text.partner[place]] == "]" and (text.word(text.partner[place] + 1) == "]")
        )
        if (text.is_name(place - 1) or text.words[place - 1] in (")", "]")) and not is_declaration:
            yield Operand(place + 1, text.partner[place] - 1)


def _stride_off_by_one(text: MetalText) -> Iterator[Change]:
    for place in text.binaries("*"):
        if text.is_index(place):
            factor = text.right_operand(place)
            for move in ("+ 1", "- 1"):
                new = f"({text.operand_text(factor)} {move})"
                yield text.change(factor.first, factor.last, new)


def _stride_dropped(text: MetalText) -> Iterator[Change]:
    for place in text.binaries("*"):
        if text.is_index(place):
            left, right = text.left_operand(place), text.right_operand(place)
            yield text.change(left.first, right.last, text.operand_text(left))


def _dimensions_swapped(text: MetalText) -> Iterator[Change]:
    """Turn `a * n + b` into `b * n + a`."""
    for place in text.binaries("+"):
        if not text.is_index(place):
            continue
        left, right = text.left_operand(place), text.right_operand(place)
        stars = [p for p in text.binaries("*") if left.first < p <= left.last]
        if stars and text.around[stars[-1]] == text.around[place]:
            row = text.left_operand(stars[-1])
            factor = text.text(stars[-1] + 1, left.last)
            new = f"{text.operand_text(right)} * {factor} + {text.operand_text(row)}"
            yield text.change(row.first, right.last, new)


def _offset_moved(text: MetalText) -> Iterator[Change]:
    for subscript in _subscripts(text):
        for move in ("+ 1", "- 1"):
            new = f"{text.operand_text(subscript)} {move}"
            yield text.change(subscript.first, subscript.last, new)


def _offset_dropped(text: MetalText) -> Iterator[Change]:
    for place in text.binaries("+", "-"):
        if text.is_index(place):
            left, right = text.left_operand(place), text.right_operand(place)
            is_pointer = text.words[left.first] in text.pointers
            yield text.change(left.first, right.last, text.operand_text(left))
            if not is_pointer and text.words[place] == "+":
                yield text.change(left.first, right.last, text.operand_text(right))


def _index_made_constant(text: MetalText) -> Iterator[Change]:
    for subscript in _subscripts(text):
        if text.operand_text(subscript) != "0":
            yield text.change(subscript.first, subscript.last, "0")


def _base_moved(text: MetalText) -> Iterator[Change]:
    """Add one element to a pointer that is declared or passed."""
    for place, word in enumerate(text.words[:-1]):
        is_first = text.word(place - 1) in ("=", "(", ",") and word in text.pointers
        if is_first and text.words[place + 1] == "+":
            yield text.insert(place + 2, "1 + ")


def _type_changed(text: MetalText) -> Iterator[Change]:
    for place, word in enumerate(text.words):
        if word in _OTHER_TYPE and text.word(place - 1) not in ("device", "constant", "metal"):
            for other in _OTHER_TYPE[word]:
                yield text.change(place, place, other)


def _divided_by_other_rounding(text: MetalText) -> Iterator[Change]:
    """Round an index's quotient up instead of down."""
    for place in text.binaries("/"):
        if text.is_index(place):
            left, right = text.left_operand(place), text.right_operand(place)
            above, below = text.operand_text(left), text.operand_text(right)
            yield text.change(left.first, right.last, f"(({above} + {below} - 1) / {below})")


def _remainder_for_quotient(text: MetalText) -> Iterator[Change]:
    for place in text.binaries("/", "%"):
        if text.is_index(place):
            yield text.change(place, place, "%" if text.words[place] == "/" else "/")


def _bits_moved(text: MetalText) -> Iterator[Change]:
    for place in text.binaries("<<", ">>"):
        distance = text.right_operand(place)
        for move in ("+ 1", "- 1"):
            new = f"({text.operand_text(distance)} {move})"
            yield text.change(distance.first, distance.last, new)
    for place in text.binaries("&", "|", "^"):
        if text.tokens[place + 1].kind is TokenKind.NUMBER:
            yield text.change(place + 1, place + 1, f"({text.words[place + 1]} >> 1)")
        for other in sorted({"&", "|", "^"} - {text.words[place]}):
            yield text.change(place, place, other)


OPERATORS = (
    TextOperator(
        "stride off by one", "indices", "a row is one longer or shorter", _stride_off_by_one
    ),
    TextOperator("stride dropped", "indices", "a factor of a place is gone", _stride_dropped),
    TextOperator(
        "dimensions swapped", "indices", "`a * n + b` is `b * n + a`", _dimensions_swapped
    ),
    TextOperator("offset moved", "indices", "`x[i]` reads or writes a neighbour", _offset_moved),
    TextOperator("offset dropped", "indices", "a term of a place is gone", _offset_dropped),
    TextOperator("index made constant", "indices", "`x[i]` becomes `x[0]`", _index_made_constant),
    TextOperator("base moved", "indices", "a pointer starts one element late", _base_moved),
    TextOperator(
        "integer type changed", "integers", "another sign, or half the width", _type_changed
    ),
    TextOperator(
        "quotient rounded up",
        "integers",
        "an index's division rounds up",
        _divided_by_other_rounding,
    ),
    TextOperator("remainder for quotient", "integers", "`/` becomes `%`", _remainder_for_quotient),
    TextOperator("bits moved", "integers", "another shift, mask or bit operation", _bits_moved),
)
