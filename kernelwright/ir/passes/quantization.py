"""Seeing `mx.dequantize` in the shifts into which a trace on the CPU takes it apart."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.ir.graph import Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.match.pattern import Bind, Found, Made, Number, match, match_node
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.reading import BuilderSource, bare, progression
from kernelwright.ir.passes.view import reshape

_GROUP_SIZES = (32, 64, 128)
_WORD_BITS = 32
_GROUPS = Made(
    ("add",),
    (
        Made(("multiply",), (Made(("cast",), (Bind("digits"),)), Bind("scales")), name="scaled"),
        Bind("biases"),
    ),
)
"""`digits * scales + biases`, group by group."""
_DIGIT_IN_WORD = Made(
    ("right_shift",), (Made(("left_shift",), (Bind("word"), Bind("up"))), Bind("down"))
)
"""Digits that never leave their word: what is above one is pushed out, then what is below."""
_MASKED_DIGIT = Made(
    ("bitwise_and",), (Made(("right_shift",), (Bind("word"), Bind("places"))), Bind("mask"))
)
"""Digits that are shifted to the end of their word and masked, one or all at once."""
_LOWEST_DIGIT = Made(("bitwise_and",), (Bind("word"), Bind("mask")))
_BITS = Made(("right_shift",), (Bind("word"), Bind("places")))
_DIGIT_OF_BITS = Made(
    ("sum",),
    (Made(("left_shift",), (Made(("bitwise_and",), (_BITS, Number(1))), Bind("weights"))),),
    axes="axes",
)
"""Digits that may go on in the next word: single bits, weighed and summed."""


@dataclass(frozen=True)
class _BehindViews(BuilderSource):
    """What a builder has made, with reshapes and broadcasts looked through."""

    def node(self, value: ValueId) -> Node | None:
        """Return the node that makes a value, behind its views."""
        return self.builder.producer(bare(self.builder, value))


def _dequantize(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Turn `digits * scales + biases` over groups into one op, whose replay makes them again."""
    found = match_node(_BehindViews(builder), _GROUPS, node)
    if found is None or call.outputs[0].shape[-1:] not in {(n,) for n in _GROUP_SIZES}:
        return None
    unpacked, scaled = _unpacked(builder, found.values["digits"]), found.values["scaled"]
    if unpacked is None or builder.made_by(scaled, "multiply") is None:
        return None
    packed, bits = unpacked
    if builder.types[packed].dtype is not Dtype.UINT32:
        return None
    lead, group_size = builder.types[packed].shape[:-1], call.outputs[0].shape[-1]
    columns = builder.types[packed].shape[-1] * _WORD_BITS // bits
    made = TensorType((*lead, columns), call.outputs[0].dtype)
    wanted = TensorType((*lead, columns // group_size), made.dtype)
    scales, biases = (_per_group(builder, found.values[v], wanted) for v in ("scales", "biases"))
    if scales is None or biases is None or made.size != call.outputs[0].size:
        return None
    attributes = (("group_size", group_size), ("bits", bits))
    (weights,) = builder.add("dequantize", (packed, scales, biases), [made], attributes)
    return (reshape(builder, weights, call.outputs[0].shape),)


def _per_group(builder: GraphBuilder, value: ValueId, wanted: TensorType) -> ValueId | None:
    """Return what a value repeats along the groups, if it has one element a group."""
    spread = builder.made_by(value, "broadcast")
    if spread is None or builder.types[spread.inputs[0]].shape[-1:] != (1,):
        return None
    source = bare(builder, spread.inputs[0])
    if builder.types[source].size != wanted.size or builder.types[source].dtype != wanted.dtype:
        return None
    return reshape(builder, source, wanted.shape)


def _unpacked(builder: GraphBuilder, value: ValueId) -> tuple[ValueId, int] | None:
    """Return the packed words and the bits of each digit, if a value is all their digits."""
    value = bare(builder, value)
    parts = builder.made_by(value, "concatenate")
    if parts:
        return _in_words(builder, parts)
    return _masked(builder, value) or _across_words(builder, value)


def _in_words(builder: GraphBuilder, parts: Node) -> tuple[ValueId, int] | None:
    """Read digits that never leave their word, each shifted out of it."""
    count = len(parts.inputs)
    digits = [_digit_in_word(builder, part) for part in parts.inputs]
    words = {digit.word for digit in digits if digit is not None}
    if None in digits or len(words) != 1 or _WORD_BITS % count:
        return None
    bits = _WORD_BITS // count
    starts = [(digit.start, digit.bits) for digit in digits if digit is not None]
    if starts != [(bits * place, bits) for place in range(count)]:
        return None
    is_last = parts.attribute("axis") == len(builder.types[parts.outputs[0]].shape) - 1
    return (words.pop(), bits) if is_last else None


@dataclass(frozen=True)
class _Digit:
    """Some bits of a word, from the lowest that counts."""

    word: ValueId
    start: int
    bits: int


def _digit_in_word(builder: GraphBuilder, value: ValueId) -> _Digit | None:
    """Read a digit that two shifts cut out of a word, or a shift and a mask."""
    source = _BehindViews(builder)
    if (found := match(source, _DIGIT_IN_WORD, value)) is not None:
        up, down = (source.number(found.values[name]) for name in ("up", "down"))
        if up is None or down is None or not 0 <= up <= down < _WORD_BITS:
            return None
        return _Digit(found.values["word"], int(down - up), _WORD_BITS - int(down))
    found = match(source, _MASKED_DIGIT, value) or match(source, _LOWEST_DIGIT, value)
    mask = None if found is None else source.number(found.values["mask"])
    start = None if found is None else _start(source, found)
    bits = 0 if mask is None else int(mask).bit_length()
    if found is None or start is None or not bits or mask != 2**bits - 1:
        return None
    return _Digit(found.values["word"], start, bits)


def _start(source: BuilderSource, found: Found) -> int | None:
    if "places" not in found.values:
        return 0
    start = source.number(found.values["places"])
    return None if start is None else int(start)


def _masked(builder: GraphBuilder, value: ValueId) -> tuple[ValueId, int] | None:
    """Read digits that never leave their word, all of a word by one shift."""
    source = _BehindViews(builder)
    found = match(source, _MASKED_DIGIT, value)
    mask = None if found is None else source.number(found.values["mask"])
    if found is None or mask is None:
        return None
    bits = int(mask).bit_length()
    if mask != 2**bits - 1 or not bits or _WORD_BITS % bits:
        return None
    word, count = bare(builder, found.values["word"]), _WORD_BITS // bits
    shape = builder.types[word].shape
    repeated = builder.made_by(found.values["word"], "broadcast")
    is_each = repeated is not None and builder.types[repeated.inputs[0]].shape == (*shape, 1)
    is_all = builder.types[found.values["word"]].shape == (*shape, count)
    places = builder.made_by(found.values["places"], "broadcast")
    if not (is_each and is_all) or places is None:
        return None
    is_along = builder.types[places.inputs[0]].shape == (*(1,) * len(shape), count)
    is_along = is_along or builder.types[places.inputs[0]].shape == (count,)
    is_counted = progression(builder, places.inputs[0]) == (0.0, float(bits))
    return (word, bits) if is_along and is_counted else None


def _across_words(builder: GraphBuilder, value: ValueId) -> tuple[ValueId, int] | None:
    """Read digits that may go on in the next word, bit by bit."""
    found = match(_BehindViews(builder), _DIGIT_OF_BITS, value)
    total = builder.made_by(value, "sum")
    if found is None or total is None:
        return None
    shape = builder.types[total.inputs[0]].shape
    is_each_bit = _counts_to(builder, found.values["places"], _WORD_BITS)
    is_each_weight = _counts_to(builder, found.values["weights"], shape[-1])
    if not is_each_bit or not is_each_weight or not found.rows["axes"].are_last:
        return None
    return bare(builder, found.values["word"]), shape[-1]


def _counts_to(builder: GraphBuilder, value: ValueId, stop: int) -> bool:
    """Say whether a value counts 0, 1 … along its last axis."""
    return builder.types[value].shape[-1] == stop and progression(builder, value) == (0.0, 1.0)


RULES: tuple[Rule, ...] = (_dequantize,)
