"""Complex numbers as pairs of floats, which is how a kernel holds them: Metal has no others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelwright.ir.graph import Constant, Graph, Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder, Rule, rewrite
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.reading import bare, same
from kernelwright.ir.passes.view import broadcast, reshape

_DEEPEST = 24
_MOVING = frozenset({"broadcast", "reshape", "transpose", "slice"})


def split_complex(graph: Graph) -> Graph:
    """Return the graph with what it reads of complex numbers computed from their parts.

    Sums, products and exponentials of imaginary numbers, as rotations by complex pairs have them,
    become arithmetic of floats; other complex values stay as they are.
    """
    if all(type_.dtype is not Dtype.COMPLEX64 for type_ in graph.types):
        return graph
    return rewrite(graph, _RULES, merge=True)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The real and the imaginary part of a value; None is zero."""

    real: ValueId | None
    imaginary: ValueId | None


def _real(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    if node.op not in ("real", "imag"):
        return None
    parts = _parts(builder, node.inputs[0], _DEEPEST)
    if parts is None:
        return None
    part = parts.real if node.op == "real" else parts.imaginary
    return [part if part is not None else _zeros(builder, call.outputs[0])]


def _as_floats(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
    """Lay the parts of complex numbers side by side, as their bits are."""
    if node.op != "view" or call.inputs[0].dtype is not Dtype.COMPLEX64:
        return None
    parts = _parts(builder, node.inputs[0], _DEEPEST)
    if parts is None or call.outputs[0].dtype is not Dtype.FLOAT32:
        return None
    shape = call.inputs[0].shape
    # A last axis of one number is where its parts come to stand; others need one of their own.
    apart = shape if shape[-1:] == (1,) else (*shape, 1)
    zeros = TensorType(shape, Dtype.FLOAT32)
    pieces = [
        reshape(builder, part if part is not None else _zeros(builder, zeros), apart)
        for part in (parts.real, parts.imaginary)
    ]
    wide = TensorType((*apart[:-1], 2), Dtype.FLOAT32)
    (joined,) = builder.add("concatenate", pieces, [wide], (("axis", len(apart) - 1),))
    return [reshape(builder, joined, call.outputs[0].shape)]


_RULES: tuple[Rule, ...] = (_real, _as_floats)


def _parts(builder: GraphBuilder, value: ValueId, left: int) -> _Parts | None:
    """Take a complex value apart; None where an op on the way is not known."""
    if (held := _number(builder, value)) is not None:
        shape = builder.types[value].shape
        real, imaginary = (_filled(builder, n, shape) for n in (held.real, held.imag))
        return _Parts(real, imaginary)
    node = builder.producer(value)
    if node is None or not left:
        return None
    if node.op == "cast":
        return _Parts(_as_float(builder, node.inputs[0]), None)
    if node.op == "view":
        return _pairs(builder, node)
    read = [_parts(builder, v, left - 1) for v in node.inputs]
    known = [r for r in read if r is not None]
    return _computed(builder, node, known) if len(known) == len(read) else None


def _computed(builder: GraphBuilder, node: Node, read: list[_Parts]) -> _Parts | None:
    if node.op in _MOVING:
        attributes = dict(node.attributes)
        moved = [
            None if part is None else builder.apply(node.op, part, **attributes)
            for part in (read[0].real, read[0].imaginary)
        ]
        return _Parts(*moved)
    match node.op, read:
        case "add" | "subtract", [a, b]:
            is_less = node.op == "subtract"
            return _Parts(
                _sum(builder, a.real, b.real, is_less=is_less),
                _sum(builder, a.imaginary, b.imaginary, is_less=is_less),
            )
        case "multiply", [a, b]:
            return _product(builder, a, b)
        case "negative" | "conjugate", [a]:
            real = a.real if node.op == "conjugate" else _negative(builder, a.real)
            return _Parts(real, _negative(builder, a.imaginary))
        case "exp", [a] if a.real is None and a.imaginary is not None:
            angle = a.imaginary
            return _Parts(same(builder, "cos", angle), same(builder, "sin", angle))
    return None


def _product(builder: GraphBuilder, a: _Parts, b: _Parts) -> _Parts:
    straight = _times(builder, a.real, b.real)
    crossed = _times(builder, a.imaginary, b.imaginary)
    one, other = _times(builder, a.real, b.imaginary), _times(builder, a.imaginary, b.real)
    return _Parts(_sum(builder, straight, crossed, is_less=True), _sum(builder, one, other))


def _times(builder: GraphBuilder, a: ValueId | None, b: ValueId | None) -> ValueId | None:
    if a is None or b is None:
        return None
    for value, other in ((a, b), (b, a)):
        held = _number(builder, value)
        if held == 1:
            return other
        if held == -1:
            return same(builder, "negative", other)
    return same(builder, "multiply", a, b)


def _sum(
    builder: GraphBuilder, a: ValueId | None, b: ValueId | None, *, is_less: bool = False
) -> ValueId | None:
    if b is None:
        return a
    if a is None:
        return _negative(builder, b) if is_less else b
    return same(builder, "subtract" if is_less else "add", a, b)


def _negative(builder: GraphBuilder, value: ValueId | None) -> ValueId | None:
    return None if value is None else same(builder, "negative", value)


def _number(builder: GraphBuilder, value: ValueId) -> complex | None:
    """Return the number that a value holds everywhere, if it is known."""
    constant = builder.constant_at(bare(builder, value))
    if constant is None or constant.type.size != 1:
        return None
    return complex(np.asarray(constant.array, np.complex128).reshape(()))


def _filled(builder: GraphBuilder, number: float, shape: tuple[int, ...]) -> ValueId | None:
    if not number:
        return None
    scalar = builder.constant(Constant.of(np.array(number), Dtype.FLOAT32))
    return broadcast(builder, scalar, shape)


def _zeros(builder: GraphBuilder, type_: TensorType) -> ValueId:
    scalar = builder.constant(Constant.of(np.array(0.0), type_.dtype))
    return broadcast(builder, scalar, type_.shape)


def _as_float(builder: GraphBuilder, value: ValueId) -> ValueId:
    type_ = builder.types[value]
    if type_.dtype is Dtype.FLOAT32:
        return value
    wide = TensorType(type_.shape, Dtype.FLOAT32)
    return builder.add("cast", (value,), [wide], (("dtype", Dtype.FLOAT32),))[0]


def _pairs(builder: GraphBuilder, node: Node) -> _Parts | None:
    """Read neighbouring floats as the parts of complex numbers."""
    type_ = builder.types[node.inputs[0]]
    if type_.dtype is not Dtype.FLOAT32:
        return None
    lead, size = len(type_.shape) - 1, type_.shape[-1]
    real, imaginary = (
        builder.apply(
            "slice",
            node.inputs[0],
            start=(*(0,) * lead, place),
            stop=(*type_.shape[:-1], size if size > 2 else place + 1),
            strides=(*(1,) * lead, 2 if size > 2 else 1),
        )
        for place in (0, 1)
    )
    return _Parts(real, imaginary)
