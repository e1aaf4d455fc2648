"""Rotary embeddings in one form: two parts of a row as sums of products, joined again."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Literal

from kernelwright.ir.graph import Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule
from kernelwright.ir.ops import Call, Kind, op_named
from kernelwright.ir.passes.reading import ordered, same
from kernelwright.ir.passes.standard.slicing import cut_last_axis
from kernelwright.ir.passes.view import broadcast, reshape

Layout = Literal["halves", "pairs"]
Parts = tuple[ValueId, ValueId]
View = Callable[[GraphBuilder, ValueId, tuple[int, ...]], ValueId]
Term = tuple[bool, Parts]
"""Whether a product is subtracted, and its factors."""
_DEEPEST_SUM, _DEEPEST_TABLE = 3, 8


@dataclass(frozen=True, slots=True)
class _Turn:
    """`a cos - b sin` beside `a sin + b cos`."""

    a: ValueId
    b: ValueId
    cosine: ValueId
    sine: ValueId

    def made(self, builder: GraphBuilder) -> Parts:
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


def _neighbours(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Write two neighbours of a concatenation in one order, if they are a turn."""
    if node.op != "concatenate" or not call.outputs[0].dtype.is_float:
        return None
    for place in range(len(node.inputs) - 1):
        pair = node.inputs[place : place + 2]
        turn = _turn(builder, *(_before_reshape(builder, v) for v in pair))
        if turn is None:
            continue
        made = [
            reshape(builder, new, builder.types[old].shape)
            for new, old in zip(turn.made(builder), pair, strict=True)
        ]
        operands = (*node.inputs[:place], *made, *node.inputs[place + 2 :])
        return builder.add("concatenate", operands, call.outputs, node.attributes)
    return None


def _whole(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Turn parts where a row times cosines and its parts, exchanged, times sines are added up."""
    type_ = call.outputs[0]
    if node.op != "add" or not type_.dtype.is_float or not type_.shape or type_.shape[-1] % 2:
        return None
    for x, *others in _readings(builder, node):
        layouts: tuple[Layout, Layout] = ("halves", "pairs")
        for layout in layouts:
            taken = [_parts(builder, value, layout) for value in others]
            known = [parts for parts in taken if parts is not None]
            if len(known) < len(taken):
                continue
            pieces = zip(_cut(builder, x, layout), *known, strict=True)
            turn = _turn(builder, *(_sum_of_products(builder, *four) for four in pieces))
            if turn is not None:
                return [_joined_again(builder, turn, layout, type_)]
    return None


def _readings(builder: GraphBuilder, node: Node) -> Iterator[tuple[ValueId, ...]]:
    """Yield four factors of a sum of two products: any of them first, then its fellow's."""
    products = [builder.made_by(v, "multiply") for v in node.inputs]
    pairs = [p.inputs for p in products if p is not None]
    if len(pairs) == 2:
        for one, other in permutations(pairs):
            for first, second in product(permutations(one), permutations(other)):
                yield *first, *second


def _sum_of_products(
    builder: GraphBuilder, x: ValueId, cosine: ValueId, y: ValueId, sine: ValueId
) -> ValueId:
    straight, crossed = (same(builder, "multiply", *pair) for pair in ((x, cosine), (y, sine)))
    return same(builder, "add", straight, crossed)


def _turn(builder: GraphBuilder, down: ValueId, up: ValueId) -> _Turn | None:
    """Read two sums of products as a turn, whatever their order."""
    fallen, risen = sorted(_terms(builder, down)), _terms(builder, up)
    if [sign for sign, _ in (*fallen, *risen)] != [False, True, False, False]:
        return None
    wanted = sorted(sorted(pair) for _, pair in risen)
    found = [
        _Turn(a, b, cosine, sine)
        for a, cosine in permutations(fallen[0][1])
        for b, sine in permutations(fallen[1][1])
        if sorted([sorted((a, sine)), sorted((b, cosine))]) == wanted
    ]
    whole = [turn for turn in found if _are_cut_alike(builder, turn.a, turn.b)]
    return next(iter(whole or found), None)


def _terms(
    builder: GraphBuilder, value: ValueId, *, subtracted: bool = False, left: int = _DEEPEST_SUM
) -> list[Term]:
    """Read a value as a sum of products of two; empty where it is none."""
    node = builder.producer(value)
    if node is None or not left:
        return []
    signs = [subtracted, subtracted != (node.op == "subtract")]
    if node.op == "negative":
        return _terms(builder, node.inputs[0], subtracted=not subtracted, left=left - 1)
    if node.op in ("add", "subtract"):
        found = [
            _terms(builder, v, subtracted=sign, left=left - 1)
            for v, sign in zip(node.inputs, signs, strict=True)
        ]
        return found[0] + found[1] if all(found) else []
    if node.op != "multiply":
        return []
    opposites = [builder.made_by(v, "negative") for v in node.inputs]
    first, second = (
        v if n is None else n.inputs[0] for v, n in zip(node.inputs, opposites, strict=True)
    )
    is_odd = sum(n is not None for n in opposites) == 1
    return [(subtracted != is_odd, (first, second))]


def _before_reshape(builder: GraphBuilder, value: ValueId) -> ValueId:
    node = builder.made_by(value, "reshape")
    return node.inputs[0] if node is not None else value


def _are_cut_alike(builder: GraphBuilder, a: ValueId, b: ValueId) -> bool:
    """Say whether two values are slices of one."""
    nodes = [builder.made_by(_before_reshape(builder, v), "slice") for v in (a, b)]
    sources = {node.inputs[0] for node in nodes if node is not None}
    return None not in nodes and len(sources) == 1


def _cut(builder: GraphBuilder, x: ValueId, layout: Layout) -> Parts:
    """Return both parts of a row as slices."""
    size = builder.types[x].shape[-1]
    half, ends = size // 2, ((0, size), (1, size))
    step = 2
    if layout == "halves":
        step, ends = 1, ((0, half), (half, size))
    first, second = (cut_last_axis(builder, x, *end, step) for end in ends)
    return first, second


def _parts(
    builder: GraphBuilder, value: ValueId, layout: Layout, left: int = _DEEPEST_TABLE
) -> Parts | None:
    """Return both parts of a value's rows, where they were joined or repeated to make it."""
    node, shape = builder.producer(value), builder.types[value].shape
    if node is None or not left or not shape or shape[-1] % 2:
        return None
    half = (*shape[:-1], shape[-1] // 2)
    if node.op == "broadcast":
        source = node.inputs[0]
        is_single = builder.types[source].shape[-1:] in ((), (1,))
        inner = (source, source) if is_single else _parts(builder, source, layout, left - 1)
        return inner and _seen_as(builder, inner, broadcast, half)
    if (joined := _joined(builder, node, shape, layout)) is not None:
        return _seen_as(builder, joined, reshape, half)
    if node.op == "reshape" and builder.types[node.inputs[0]].shape[-1:] == shape[-1:]:
        inner = _parts(builder, node.inputs[0], layout, left - 1)
        return inner and _seen_as(builder, inner, reshape, half)
    if op_named(node.op).kind is not Kind.ELEMENTWISE:
        return None
    known = [p for v in node.inputs if (p := _parts(builder, v, layout, left - 1)) is not None]
    if len(known) < len(node.inputs):
        return None
    type_ = TensorType(half, builder.types[value].dtype)
    first, second = (
        builder.add(node.op, operands, [type_], node.attributes)[0]
        for operands in zip(*known, strict=True)
    )
    return first, second


def _joined(
    builder: GraphBuilder, node: Node, shape: tuple[int, ...], layout: Layout
) -> Parts | None:
    """Return the two values that a node joins along the last axis, or repeats there."""
    inner, axis = node, len(shape) - 1
    if node.op == "reshape":
        apart = (2, shape[-1] // 2) if layout == "halves" else (shape[-1] // 2, 2)
        made, axis = builder.producer(node.inputs[0]), axis + (layout == "pairs")
        if made is None or builder.types[node.inputs[0]].shape != (*shape[:-1], *apart):
            return None
        inner = made
    elif layout == "pairs":
        return None
    sizes = [builder.types[v].shape[axis : axis + 1] for v in inner.inputs]
    if inner.op == "broadcast" and inner is not node:
        before = builder.types[inner.inputs[0]].shape
        is_repeated = len(before) == len(shape) + 1 and sizes == [(1,)]
        is_repeated = is_repeated and before[:-2] == shape[:-1]
        return (inner.inputs[0], inner.inputs[0]) if is_repeated else None
    is_along = inner.op == "concatenate" and inner.attribute("axis") == axis
    if not is_along or len(sizes) != 2 or sizes[0] != sizes[1]:
        return None
    return inner.inputs[0], inner.inputs[1]


def _seen_as(builder: GraphBuilder, parts: Parts, view: View, shape: tuple[int, ...]) -> Parts:
    """Return a view of both parts; where they have a sign, it is changed behind the view."""

    def seen(value: ValueId) -> ValueId:
        node = builder.made_by(value, "negative")
        if node is None:
            return view(builder, value, shape)
        return same(builder, "negative", seen(node.inputs[0]))

    return seen(parts[0]), seen(parts[1])


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


RULES: tuple[Rule, ...] = (_neighbours, _whole)
