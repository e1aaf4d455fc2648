"""Attention between its two products: scores under scales, caps and masks, and their softmax."""

from dataclasses import dataclass, replace

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.match.pattern import Bind, Either, Made, Source, match, match_node
from kernelwright.ir.match.placement import View, broadcast_placement, placed
from kernelwright.ir.match.row import (
    AXES,
    LOG_SOFTMAX,
    SHIFTED,
    SHIFTED_SOFTMAX,
    X,
    over_row,
)
from kernelwright.ir.ops.axes import slices

HIDDEN = -1e4
"""What a mask puts in the place of a score is at most this: exp() of it is 0 in every dtype."""
_MOST_LAYERS = 12
"""Masks, scales, casts and views between a softmax and its product; people write fewer."""
_MOST_STEPS = 8
_RANK_OF_HEADS = 3
_SECOND_ORDER = 1.01
"""What the error of an inverse or a product is more than the sum of their factors'."""
_WEIGHTS = Either(
    (Made(("softmax",), (X,), axes=AXES), SHIFTED_SOFTMAX, Made(("exp",), (LOG_SOFTMAX,)))
)
_POWERS, _PRODUCT = "powers", "product"
_LATE = over_row(Bind(_PRODUCT), Made(("sum",), (Bind(_POWERS),), axes=AXES))
"""A product of exponentials and values that is divided by their sum afterwards."""


@dataclass(frozen=True, slots=True)
class Factor:
    """What scores are multiplied by, and how far rounding may have moved it, relative to it."""

    number: float = 1.0
    error: float = 0.0

    def times(self, other: "Factor") -> "Factor":
        """Multiply two factors, that is what they mean before they were rounded."""
        return Factor(self.number * other.number, self.error + other.error)

    def inverse(self) -> "Factor":
        """Return one over it."""
        return Factor(1.0 / self.number, self.error)

    def is_near(self, wanted: float) -> bool:
        """Say whether rounding may have made a number this factor."""
        return abs(self.number - wanted) <= _SECOND_ORDER * self.error * abs(wanted)


@dataclass(frozen=True, slots=True)
class MaskLayer:
    """A mask in the shape of the scores that it lies over."""

    mask: ValueId
    hides: bool = False
    """True where its true elements are those that are not seen."""
    is_subtracted: bool = False
    is_counted: bool = False
    """True where ones show and zeros hide, as factors of scores do."""


@dataclass(frozen=True)
class Scores:
    """Masked, capped and scaled scores, taken apart."""

    query: ValueId
    key: ValueId
    """As the product reads it, the head before the positions."""
    scale: Factor = Factor()
    cap: float = 0.0
    masks: tuple[MaskLayer, ...] = ()
    """The innermost first."""
    sinks: ValueId | None = None

    def masked(self, layer: MaskLayer) -> "Scores":
        """Return the scores under one more mask."""
        return replace(self, masks=(*self.masks, layer))

    def scaled(self, factor: Factor) -> "Scores | None":
        """Return the scores times a factor, which must not reach what masks put there."""
        if self.masks or self.cap:
            return None
        return replace(self, scale=self.scale.times(factor))


@dataclass(frozen=True)
class Attention:
    """A softmax of scores, and the values that it weighs."""

    scores: Scores
    value: ValueId


def attention_of(source: Source, node: Node) -> Attention | None:
    """Read a node as softmax(scores) times values, normalised before that product or after it."""
    if node.op == "matmul":
        scores = _weights(source, node.inputs[0])
        return None if scores is None else Attention(scores, node.inputs[1])
    return _normalised_late(source, node) if node.op in ("divide", "multiply") else None


def unscaled(source: Source, value: ValueId) -> tuple[Factor, ValueId]:
    """Take a factor that is the same everywhere away from a value."""
    node = source.node(value)
    if node is None or node.op not in ("multiply", "divide"):
        return Factor(), value
    number = source.number(node.inputs[1])
    if number is None or not number:
        return Factor(), value
    factor = Factor(number, source.type(value).dtype.epsilon / 2)
    return factor if node.op == "multiply" else factor.inverse(), node.inputs[0]


def _normalised_late(source: Source, node: Node) -> Attention | None:
    found = match_node(source, _LATE, node)
    product = None if found is None else source.node(_same_rows(source, found.values[_PRODUCT]))
    if found is None or product is None or product.op != "matmul":
        return None
    powers = _same_rows(source, found.values[_POWERS])
    made = source.node(powers)
    is_same = _same_rows(source, product.inputs[0]) == powers
    if not is_same or made is None or made.op != "exp":
        return None
    shifted = match(source, SHIFTED, _same_rows(source, made.inputs[0]))
    if shifted is None or not (shifted.rows[AXES].are_last and found.rows[AXES].are_last):
        return None
    scores = _scores(source, shifted.values["x"])
    return None if scores is None else Attention(scores, product.inputs[1])


def _weights(source: Source, value: ValueId) -> Scores | None:
    """Take the weights of values apart: a softmax, without its column of sinks where it has one."""
    value = _same_rows(source, value)
    part = source.node(value)
    if part is None or part.op != "slice":
        x = _softened(source, value)
        return None if x is None else _scores(source, x)
    whole = _same_rows(source, part.inputs[0])
    x = _softened(source, whole)
    joined = None if x is None else source.node(_same_rows(source, x))
    if joined is None or joined.op != "concatenate" or len(joined.inputs) != 2:
        return None
    return _beside_sinks(source, joined, part)


def _beside_sinks(source: Source, joined: Node, part: Node) -> Scores | None:
    """Read scores that one column of sinks stands before or behind."""
    shape = source.type(part.inputs[0]).shape
    taken = [range(n)[s] for n, s in zip(shape, slices(source.call(part)), strict=True)]
    if taken[:-1] != [range(n) for n in shape[:-1]]:
        return None
    for place, rest in enumerate((range(1, shape[-1]), range(shape[-1] - 1))):
        column, kept = joined.inputs[place], joined.inputs[1 - place]
        if taken[-1] != rest or source.type(column).shape[-1:] != (1,):
            continue
        scores, sinks = _scores(source, kept), _sinks(source, column)
        if scores is not None and sinks is not None:
            return replace(scores, sinks=sinks)
    return None


def _sinks(source: Source, column: ValueId) -> ValueId | None:
    """Return one logit a head, before it was given the shape of a column of scores."""
    sinks, places = placed(source, column)
    heads, shape = source.type(sinks).size, source.type(column).shape
    batch = shape[0] if len(shape) > _RANK_OF_HEADS else 1
    rows = (batch, heads, source.type(column).size // (batch * heads))
    is_by_head = places == broadcast_placement((heads, 1), rows)
    return sinks if is_by_head and len(source.type(sinks).shape) == 1 else None


def _softened(source: Source, value: ValueId) -> ValueId | None:
    """Return what a softmax is taken of, be it one op or written out."""
    found = match(source, _WEIGHTS, value)
    if found is None:
        return None
    rows = found.rows.get(AXES)
    return found.values["x"] if rows is None or rows.are_last else None


def _same_rows(source: Source, value: ValueId) -> ValueId:
    """Look through casts between floats, and through views that leave each row as it is."""
    while (node := source.node(value)) is not None:
        if node.op not in ("cast", "reshape"):
            break
        before, after = source.type(node.inputs[0]), source.type(value)
        if node.op == "cast" and not before.dtype.is_float:
            break
        if node.op == "reshape" and before.shape[-1:] != after.shape[-1:]:
            break
        value = node.inputs[0]
    return value


def _scores(source: Source, value: ValueId, left: int = _MOST_LAYERS) -> Scores | None:
    """Find the product of queries and keys below masks, cap and scale."""
    value = _same_rows(source, value)
    node = source.node(value)
    if node is None or not left:
        return None
    if node.op == "matmul":
        query, key = node.inputs
        return Scores(query, key)
    if node.op == "addmm":
        return _added_to(source, node)
    if node.op == "select":
        return _chosen(source, node, left)
    if node.op in ("add", "subtract"):
        return _under_addend(source, node, left)
    factor, below = unscaled(source, value)
    if below == value:
        return None
    bent = source.node(below)
    if bent is not None and bent.op == "tanh":
        return _capped(source, factor, bent.inputs[0], left)
    scores = _scores(source, below, left - 1)
    return scores.scaled(factor) if scores is not None else None


def _added_to(source: Source, node: Node) -> Scores | None:
    """Read a product that is scaled and added to a mask in one op."""
    query, key, mask = node.inputs
    alpha, beta = node.attribute("alpha"), node.attribute("beta")
    assert isinstance(alpha, int | float)
    scores = Scores(query, key, Factor(float(alpha), Dtype.FLOAT32.epsilon / 2))
    if beta == 0 or source.number(mask) == 0:
        return scores
    return scores.masked(MaskLayer(mask)) if beta == 1 else None


def _under_addend(source: Source, node: Node, left: int) -> Scores | None:
    """Read scores that a mask is added to, or taken from."""
    is_less = node.op == "subtract"
    ways = (node.inputs,) if is_less else (node.inputs, node.inputs[::-1])
    for kept, mask in ways:
        layer = MaskLayer(mask, is_subtracted=is_less)
        below, layer = _times_shown(source, kept, layer) or (kept, layer)
        if (inner := _scores(source, below, left - 1)) is not None:
            return inner.masked(layer)
    return None


def _times_shown(
    source: Source, value: ValueId, layer: MaskLayer
) -> tuple[ValueId, MaskLayer] | None:
    """Read `s * m` where a mask hides all that m, of zeros and ones, makes zero.

    Rows that are hidden as a whole are then the same everywhere, which the mask alone would not do.
    """
    sign = -1.0 if layer.is_subtracted else 1.0
    node = source.node(value)
    if node is None or node.op != "multiply":
        return None
    for scores, shown in (node.inputs, node.inputs[::-1]):
        factor, _ = placed(source, shown)
        if _is_zero_or_one(source, factor) and _hides_rest(source, layer.mask, shown, sign):
            return scores, MaskLayer(shown, is_counted=True)
    return None


def _hides_rest(source: Source, mask: ValueId, shown: ValueId, sign: float) -> bool:
    """Say whether a mask is `1 - shown` times a number that hides, added or taken away."""
    below, places = placed(source, mask)
    factor, rest = unscaled(source, below)
    below, places = placed(source, rest, places)
    node = source.node(below)
    if node is None or node.op != "subtract":
        return False
    wanted = placed(source, shown, through_casts=True)
    for one, other, order in ((*node.inputs, 1), (*node.inputs[::-1], -1)):
        found = placed(source, other, places, through_casts=True)
        if source.number(one) == 1.0 and _is_equal(source, found, wanted):
            return sign * order * factor.number <= HIDDEN
    return False


def _is_zero_or_one(source: Source, value: ValueId) -> bool:
    node = source.node(value)
    if node is None:
        return False
    if node.op == "cast":
        return source.type(node.inputs[0]).dtype is Dtype.BOOL
    return node.op == "select" and {source.number(v) for v in node.inputs[1:]} <= {0.0, 1.0}


def _is_equal(source: Source, a: View, b: View, left: int = _MOST_STEPS) -> bool:
    """Say whether two views show the same places of what is computed alike.

    Every reader has its own views.
    """
    (x, of_x), (y, of_y) = a, b
    if of_x != of_y or x == y:
        return of_x == of_y
    one, other = source.node(x), source.node(y)
    if one is None or other is None or not left or source.type(x) != source.type(y):
        return source.number(x) is not None and source.number(x) == source.number(y)
    if (one.op, one.attributes, len(one.inputs)) != (other.op, other.attributes, len(other.inputs)):
        return False
    pairs = zip(one.inputs, other.inputs, strict=True)
    return all(_is_equal(source, placed(source, v), placed(source, w), left - 1) for v, w in pairs)


def _chosen(source: Source, node: Node, left: int) -> Scores | None:
    """Read scores where a mask chooses them, and something that hides elsewhere."""
    mask, shown, other = node.inputs
    for kept, filler, hides in ((shown, other, False), (other, shown, True)):
        filled = source.number(filler)
        if filled is not None and filled <= HIDDEN:
            inner = _scores(source, kept, left - 1)
            return inner.masked(MaskLayer(mask, hides)) if inner is not None else None
    return None


def _capped(source: Source, cap: Factor, value: ValueId, left: int) -> Scores | None:
    """Read `cap * tanh(x / cap)`; another divisor is a scale of x."""
    factor, below = unscaled(source, value)
    scores = _scores(source, below, left - 1)
    if scores is None or cap.number <= 0:
        return None
    times = factor.times(cap)
    scaled = scores.scaled(Factor() if times.is_near(1.0) else times)
    return replace(scaled, cap=cap.number) if scaled is not None else None
