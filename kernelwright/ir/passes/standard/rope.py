"""Rotary embeddings: two parts of a row turned by angles, and views that cut and join them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

from kernelwright.ir.graph import Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.ir.passes.standard.reading import ordered, same
from kernelwright.ir.passes.view import broadcast, reshape

Layout = Literal["halves", "pairs"]
Product = tuple[ValueId, ValueId]


@dataclass(frozen=True, slots=True)
class _Turn:
    """`a cos - b sin` beside `a sin + b cos`."""

    a: ValueId
    b: ValueId
    cosine: ValueId
    sine: ValueId

    def made(self, builder: GraphBuilder) -> tuple[ValueId, ValueId]:
        """Write both parts in the one order."""
        a_cos, b_sin, a_sin, b_cos = (
            ordered(builder, "multiply", part, table)
            for part, table in (
                (self.a, self.cosine),
                (self.b, self.sine),
                (self.a, self.sine),
                (self.b, self.cosine),
            )
        )
        return same(builder, "subtract", a_cos, b_sin), ordered(builder, "add", a_sin, b_cos)


def _parts(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Write two neighbours of a concatenation in one order, if they are a turn."""
    if node.op != "concatenate" or not call.outputs[0].dtype.is_float:
        return None
    for place in range(len(node.inputs) - 1):
        pair = node.inputs[place : place + 2]
        bare = [_before_reshape(builder, v) for v in pair]
        turn = _turn(builder, *bare)
        if turn is None:
            continue
        made = [
            reshape(builder, new, builder.types[old].shape)
            for new, old in zip(turn.made(builder), pair, strict=True)
        ]
        operands = (*node.inputs[:place], *made, *node.inputs[place + 2 :])
        return builder.add("concatenate", operands, call.outputs, node.attributes)
    return None


def _before_reshape(builder: GraphBuilder, value: ValueId) -> ValueId:
    node = builder.made_by(value, "reshape")
    return node.inputs[0] if node is not None else value


def _turn(builder: GraphBuilder, down: ValueId, up: ValueId) -> _Turn | None:
    """Read two sums of products as a turn, whatever their order."""
    fallen, risen = _products(builder, down), _products(builder, up)
    if fallen is None or risen is None or len(fallen[1]) != 1 or risen[1]:
        return None
    wanted = sorted(sorted(pair) for pair in risen[0])
    found = [
        _Turn(a, b, cosine, sine)
        for a, cosine in permutations(fallen[0][0])
        for b, sine in permutations(fallen[1][0])
        if sorted([sorted((a, sine)), sorted((b, cosine))]) == wanted
    ]
    whole = [turn for turn in found if _are_cut_alike(builder, turn.a, turn.b)]
    return next(iter(whole or found), None)


def _products(builder: GraphBuilder, value: ValueId) -> tuple[list[Product], list[Product]] | None:
    """Read a sum of two products: those that are added, and those that are taken away."""
    node = builder.producer(value)
    if node is None or node.op not in ("add", "subtract"):
        return None
    signed: tuple[list[Product], list[Product]] = ([], [])
    for place, term in enumerate(node.inputs):
        is_negative = node.op == "subtract" and place == 1
        if (inner := builder.made_by(term, "negative")) is not None:
            term, is_negative = inner.inputs[0], not is_negative
        product = builder.made_by(term, "multiply")
        if product is None:
            return None
        factors = []
        for factor in product.inputs:
            opposite = builder.made_by(factor, "negative")
            is_negative = is_negative != (opposite is not None)
            factors.append(factor if opposite is None else opposite.inputs[0])
        signed[is_negative].append((factors[0], factors[1]))
    return signed


def _are_cut_alike(builder: GraphBuilder, a: ValueId, b: ValueId) -> bool:
    """Say whether two values are slices of one."""
    nodes = [builder.made_by(_before_reshape(builder, v), "slice") for v in (a, b)]
    sources = {node.inputs[0] for node in nodes if node is not None}
    return None not in nodes and len(sources) == 1


def _whole(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Turn parts where a row times cosines and its parts, exchanged, times sines are added up."""
    if node.op != "add" or not call.outputs[0].dtype.is_float:
        return None
    for straight, crossed in (node.inputs, node.inputs[::-1]):
        one, other = builder.made_by(straight, "multiply"), builder.made_by(crossed, "multiply")
        if one is None or other is None:
            continue
        for x, cosines in permutations(one.inputs):
            for exchanged, sines in permutations(other.inputs):
                for layout in _layouts():
                    turn = _read_whole(builder, x, cosines, exchanged, sines, layout)
                    if turn is not None:
                        return [_joined_again(builder, turn, layout, call.outputs[0])]
    return None


def _layouts() -> tuple[Layout, Layout]:
    return "halves", "pairs"


def _read_whole(
    builder: GraphBuilder,
    x: ValueId,
    cosines: ValueId,
    exchanged: ValueId,
    sines: ValueId,
    layout: Layout,
) -> _Turn | None:
    if layout == "pairs":
        exchanged = _before_reshape(builder, exchanged)
    joined = builder.made_by(exchanged, "concatenate")
    rank = len(builder.types[exchanged].shape)
    if joined is None or len(joined.inputs) != 2 or dict(joined.attributes)["axis"] != rank - 1:
        return None
    first, a = (_before_reshape(builder, v) for v in joined.inputs)
    negated = builder.made_by(first, "negative")
    if negated is None:
        return None
    b = _before_reshape(builder, negated.inputs[0])
    if (a, b) != tuple(_part(builder, x, place, layout) for place in (0, 1)):
        return None
    cosine, sine = (_single(builder, table, layout) for table in (cosines, sines))
    return None if cosine is None or sine is None else _Turn(a, b, cosine, sine)


def _part(builder: GraphBuilder, x: ValueId, place: int, layout: Layout) -> ValueId | None:
    """Return one of the two parts of a row."""
    shape = builder.types[x].shape
    if not shape or shape[-1] % 2:
        return None
    half = shape[-1] // 2
    start, stop, stride = (place * half, (place + 1) * half, 1)
    if layout == "pairs":
        start, stop, stride = place, shape[-1], 2
    return _cut(builder, x, start, stop, stride)


def _cut(builder: GraphBuilder, x: ValueId, start: int, stop: int, stride: int) -> ValueId:
    """Slice the last axis."""
    shape = builder.types[x].shape
    lead = len(shape) - 1
    return _sliced(builder, x, (*(0,) * lead, start), (*shape[:-1], stop), (*(1,) * lead, stride))


def _sliced(
    builder: GraphBuilder,
    x: ValueId,
    start: Sequence[int],
    stop: Sequence[int],
    strides: Sequence[int],
) -> ValueId:
    """Slice a value in one step with an earlier slice; each stop is as far as strides reach."""
    places = zip(start, stop, strides, strict=True)
    counts = [-(-(end - begin) // step) for begin, end, step in places]
    inner = builder.made_by(x, "slice")
    if inner is not None:
        before = Call(dict(inner.attributes), (), ())
        first, steps = before.integers("start"), before.integers("strides")
        start = [f + s * step for f, s, step in zip(first, start, steps, strict=True)]
        strides = [a * b for a, b in zip(strides, steps, strict=True)]
        x = inner.inputs[0]
    shape = builder.types[x].shape
    ends = zip(start, counts, strides, shape, strict=True)
    reached = tuple(min(s + n * step, size) for s, n, step, size in ends)
    return builder.apply("slice", x, start=tuple(start), stop=reached, strides=tuple(strides))


def _single(builder: GraphBuilder, value: ValueId, layout: Layout, left: int = 8) -> ValueId | None:
    """Return what stands in both parts of a table's rows, if it is the same."""
    shape, dtype = builder.types[value].shape, builder.types[value].dtype
    node = builder.producer(value)
    if not shape or shape[-1] % 2 or not left:
        return None
    half = (*shape[:-1], shape[-1] // 2)
    if builder.constant_at(value) is not None or node is None:
        return None
    if node.op == "broadcast":
        source = node.inputs[0]
        if builder.types[source].shape[-1:] in ((), (1,)):
            return broadcast(builder, source, half)
        inner = _single(builder, source, layout, left - 1)
        return None if inner is None else broadcast(builder, inner, half)
    if (twice := _twice(builder, node, shape, layout)) is not None:
        return reshape(builder, twice, half)
    if node.op == "reshape" and builder.types[node.inputs[0]].shape[-1:] == shape[-1:]:
        inner = _single(builder, node.inputs[0], layout, left - 1)
        return None if inner is None else reshape(builder, inner, half)
    if op_named(node.op).kind is not Kind.ELEMENTWISE:
        return None
    parts = [_single(builder, v, layout, left - 1) for v in node.inputs]
    known = [part for part in parts if part is not None]
    if len(known) != len(parts):
        return None
    return builder.add(node.op, known, [TensorType(half, dtype)], node.attributes)[0]


def _twice(
    builder: GraphBuilder, node: Node, shape: tuple[int, ...], layout: Layout
) -> ValueId | None:
    """Return what a node joins with itself along the last axis, or repeats there."""
    if node.op == "concatenate" and layout == "halves":
        is_last = dict(node.attributes)["axis"] == len(shape) - 1
        is_same = len(node.inputs) == 2 and node.inputs[0] == node.inputs[1]
        return node.inputs[0] if is_last and is_same else None
    if node.op != "reshape":
        return None
    inner = builder.producer(node.inputs[0])
    apart = (2, shape[-1] // 2) if layout == "halves" else (shape[-1] // 2, 2)
    if inner is None or builder.types[node.inputs[0]].shape != (*shape[:-1], *apart):
        return None
    axis = len(shape) - (layout == "halves")
    if inner.op == "broadcast":
        before = builder.types[inner.inputs[0]].shape
        is_repeated = len(before) == len(shape) + 1 and before[axis] == 1
        return inner.inputs[0] if is_repeated and before[:-2] == shape[:-1] else None
    is_along = inner.op == "concatenate" and dict(inner.attributes)["axis"] == axis
    return inner.inputs[0] if is_along and len(set(inner.inputs)) == 1 else None


def _joined_again(builder: GraphBuilder, turn: _Turn, layout: Layout, type_: TensorType) -> ValueId:
    """Join the parts of a turn along their rows."""
    made = turn.made(builder)
    axis = len(type_.shape) - 1
    if layout == "halves":
        return builder.add("concatenate", made, [type_], (("axis", axis),))[0]
    half = (*type_.shape[:-1], type_.shape[-1] // 2)
    apart = [reshape(builder, part, (*half, 1)) for part in made]
    wide = TensorType((*half, 2), type_.dtype)
    (joined,) = builder.add("concatenate", apart, [wide], (("axis", axis + 1),))
    return reshape(builder, joined, type_.shape)


def _picked(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Slice the last axis where it was cut in two, one place was taken, and the cut forgotten."""
    part = builder.made_by(node.inputs[0], "slice") if node.op == "reshape" else None
    apart = builder.made_by(part.inputs[0], "reshape") if part is not None else None
    if part is None or apart is None:
        return None
    x, shape = apart.inputs[0], call.outputs[0].shape
    source, cut = (builder.types[v].shape for v in (x, part.inputs[0]))
    taken = Call(dict(part.attributes), (), ())
    starts, kept = taken.integers("start"), builder.types[part.outputs[0]].shape
    is_cut = len(cut) == len(source) + 1 and cut[:-2] == source[:-1] == kept[:-2]
    if not is_cut or set(taken.integers("strides")) != {1} or shape[:-1] != source[:-1]:
        return None
    if kept[-2:] == (1, cut[-1]) and shape[-1] == cut[-1]:
        return [_cut(builder, x, starts[-2] * cut[-1], (starts[-2] + 1) * cut[-1], 1)]
    if kept[-2:] == (cut[-2], 1) and shape[-1] == cut[-2]:
        return [_cut(builder, x, starts[-1], source[-1], cut[-1])]
    return None


def _beside(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Join along the last axis what is stacked before it and then laid side by side."""
    joined = builder.made_by(node.inputs[0], "concatenate") if node.op == "reshape" else None
    if joined is None:
        return None
    wide, shape = builder.types[node.inputs[0]].shape, call.outputs[0].shape
    axis = len(wide) - 2
    if dict(joined.attributes)["axis"] != axis or shape != (*wide[:-2], wide[-2] * wide[-1]):
        return None
    if any(builder.types[v].shape[axis] != 1 for v in joined.inputs):
        return None
    rows = [reshape(builder, v, (*wide[:-2], wide[-1])) for v in joined.inputs]
    return builder.add("concatenate", rows, call.outputs, (("axis", axis),))


def _one_slice(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Take a slice of a slice at once."""
    if node.op != "slice" or min(call.integers("strides"), default=1) < 1:
        return None
    inner = builder.made_by(node.inputs[0], "slice")
    if inner is not None and min(Call(dict(inner.attributes), (), ()).integers("strides")) < 1:
        return None
    bounds = (call.integers(name) for name in ("start", "stop", "strides"))
    return [_sliced(builder, node.inputs[0], *bounds)]


def _one_concatenation(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Join at once what is joined in two steps along one axis."""
    if node.op != "concatenate":
        return None
    operands: list[ValueId] = []
    for value in node.inputs:
        inner = builder.made_by(value, "concatenate")
        is_same = inner is not None and inner.attributes == node.attributes
        operands += inner.inputs if inner is not None and is_same else [value]
    if len(operands) == len(node.inputs):
        return None
    return builder.add("concatenate", operands, call.outputs, node.attributes)


VIEWS: tuple[Rule, ...] = (_picked, _beside)
"""For reshapes, of which the rules of views leave none to others."""
RULES: tuple[Rule, ...] = (_one_slice, _one_concatenation, _parts, _whole)
