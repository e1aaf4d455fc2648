"""Seeing `mx.dequantize` in the shifts into which a trace on the CPU takes it apart."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.ir.graph import Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule
from kernelwright.ir.match.pattern import Bind, Made, Number, match, match_node
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.reading import BuilderSource, bare
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
    return _in_words(builder, parts) if parts else _across_words(builder, value)


def _in_words(builder: GraphBuilder, parts: Node) -> tuple[ValueId, int] | None:
    """Read digits that never leave their word, each shifted out of it."""
    source, count = _BehindViews(builder), len(parts.inputs)
    digits = [match(source, _DIGIT_IN_WORD, part) for part in parts.inputs]
    words = {found.values["word"] for found in digits if found is not None}
    if None in digits or len(words) != 1 or _WORD_BITS % count:
        return None
    bits = _WORD_BITS // count
    for place, found in enumerate(digits):
        shifts = [source.number(found.values[n]) for n in ("up", "down")] if found else []
        if shifts != [_WORD_BITS - bits * (place + 1), _WORD_BITS - bits]:
            return None
    is_last = parts.attribute("axis") == len(builder.types[parts.outputs[0]].shape) - 1
    return (words.pop(), bits) if is_last else None


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
    node = builder.made_by(bare(builder, value), "arange")
    found = builder.types[value].shape[-1]
    attributes = dict(node.attributes) if node else {}
    return found == stop and (attributes.get("start"), attributes.get("step")) == (0.0, 1.0)


RULES: tuple[Rule, ...] = (_dequantize,)
