"""Looking at what a builder has made: past broadcasts, at numbers and signs."""

from dataclasses import dataclass

import numpy as np

from kernelwright.ir.graph import Constant, Node, TensorType, ValueId
from kernelwright.ir.graph.builder import GraphBuilder
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call
from kernelwright.ir.passes.view import broadcast

_NONNEGATIVE = frozenset({"square", "exp", "abs", "sigmoid", "softmax"})
_SIGN_KEEPING = frozenset({"add", "multiply", "divide", "sum", "mean", "max", "min", "sqrt"})


def bare(builder: GraphBuilder, value: ValueId) -> ValueId:
    """Return what is repeated or only changes its shape to become a value."""
    node = builder.producer(value)
    while node is not None and node.op in ("broadcast", "reshape"):
        value = node.inputs[0]
        node = builder.producer(value)
    return value


def row_value(builder: GraphBuilder, value: ValueId, shape: tuple[int, ...]) -> ValueId | None:
    """Return the value of one element a row that is repeated along the last axis of `shape`."""
    node = builder.made_by(value, "broadcast")
    if node is None:
        return None
    source = node.inputs[0]
    return source if builder.types[source].shape == (*shape[:-1], 1) else None


def number(builder: GraphBuilder, value: ValueId) -> float | None:
    """Return the number that a value holds everywhere, if it is known."""
    constant = builder.constant_at(bare(builder, value))
    if constant is None or constant.type.size != 1 or constant.type.dtype.is_complex:
        return None
    return float(np.asarray(constant.array, np.float64).reshape(()))


def progression(
    builder: GraphBuilder, value: ValueId, depth: int = 4
) -> tuple[float, float] | None:
    """Return start and step of numbers that are counted one by one, however they were made.

    They are a range, one that was scaled or shifted by numbers, or a constant; along which axis
    they lie the shape of the value tells.
    """
    value = bare(builder, value)
    held, node = builder.constant_at(value), builder.producer(value)
    if held is not None and held.type.size > 1 and not held.type.dtype.is_complex:
        numbers = np.asarray(held.array, np.float64).reshape(-1)
        steps = set(np.diff(numbers).tolist())
        return (float(numbers[0]), steps.pop()) if len(steps) == 1 else None
    if node is None or not depth:
        return None
    if node.op == "arange":
        call = BuilderSource(builder).call(node)
        return call.number("start"), call.number("step")
    if node.op == "cast" and builder.types[value].dtype.is_integer:
        return progression(builder, node.inputs[0], depth - 1)
    if node.op not in ("add", "subtract", "multiply", "left_shift"):
        return None
    one, other = node.inputs
    if node.op in ("add", "multiply") and number(builder, one) is not None:
        one, other = other, one
    found, by = progression(builder, one, depth - 1), number(builder, other)
    if found is None or by is None:
        return None
    start, step = found
    if node.op in ("multiply", "left_shift"):
        factor = by if node.op == "multiply" else 2.0**by
        return start * factor, step * factor
    return (start + by if node.op == "add" else start - by), step


def filled(builder: GraphBuilder, value: float, like: ValueId) -> ValueId:
    """Return a number in the shape and dtype of another value."""
    type_ = builder.types[like]
    scalar = builder.constant(Constant.of(np.array(value), type_.dtype))
    return broadcast(builder, scalar, type_.shape)


def same(builder: GraphBuilder, op: str, *operands: ValueId) -> ValueId:
    """Append an elementwise op whose result has the type of its first operand."""
    return builder.add(op, operands, [builder.types[operands[0]]])[0]


def repeated_as(builder: GraphBuilder, value: ValueId, like: ValueId) -> ValueId:
    """Apply the views that lead to another value to one of the same shape as their source."""
    node = builder.producer(like)
    assert node is not None
    if builder.types[node.inputs[0]].shape != builder.types[value].shape:
        value = repeated_as(builder, value, node.inputs[0])
    shape = builder.types[like].shape
    if node.op == "broadcast":
        return broadcast(builder, value, shape)
    return builder.apply("reshape", value, shape=shape)


def ordered(builder: GraphBuilder, op: str, first: ValueId, second: ValueId) -> ValueId:
    """Append a commutative op whose operands are in order."""
    return same(builder, op, *in_order(builder, first, second))


def in_order(builder: GraphBuilder, first: ValueId, second: ValueId) -> tuple[ValueId, ValueId]:
    """Return first what took more work."""
    if builder.depth(first) < builder.depth(second):
        first, second = second, first
    return first, second


def cast(builder: GraphBuilder, value: ValueId, dtype: Dtype) -> ValueId:
    """Return a value in a dtype, itself where it has that."""
    type_ = builder.types[value]
    if type_.dtype is dtype:
        return value
    return builder.add("cast", (value,), [TensorType(type_.shape, dtype)], (("dtype", dtype),))[0]


def is_near(found: float | None, wanted: float, dtype: Dtype) -> bool:
    """Say whether a constant is a number, as exactly as its dtype can hold it."""
    return found is not None and abs(found - wanted) <= 2 * dtype.epsilon * abs(wanted)


def is_nonnegative(builder: GraphBuilder, value: ValueId, depth: int = 8) -> bool:
    """Say whether a value cannot be below zero."""
    held = number(builder, value)
    if held is not None:
        return held >= 0
    node = builder.producer(bare(builder, value))
    if node is None or not depth:
        return False
    if node.op in _NONNEGATIVE:
        return True
    keeps = node.op in _SIGN_KEEPING or node.op == "cast"
    return keeps and all(is_nonnegative(builder, v, depth - 1) for v in node.inputs)


def is_float(builder: GraphBuilder, node: Node) -> bool:
    """Say whether a node reads floats of one dtype."""
    dtypes = {builder.types[v].dtype for v in node.inputs}
    return len(dtypes) == 1 and dtypes.pop().is_float


@dataclass(frozen=True)
class BuilderSource:
    """What a builder has made so far, as patterns see it: they look through nothing."""

    builder: GraphBuilder

    def base(self, value: ValueId) -> ValueId:
        """Return the value itself."""
        return value

    def node(self, value: ValueId) -> Node | None:
        """Return the node that makes a value."""
        return self.builder.producer(value)

    def row(self, value: ValueId) -> ValueId | None:
        """Return what is repeated along the last axis to become a value."""
        return row_value(self.builder, value, self.builder.types[value].shape)

    def number(self, value: ValueId) -> float | None:
        """Return the number that a value holds everywhere, if it is known."""
        return number(self.builder, value)

    def call(self, node: Node) -> Call:
        """Return a node's attributes and types."""
        types = self.builder.types
        return Call(
            dict(node.attributes),
            tuple(types[v] for v in node.inputs),
            tuple(types[v] for v in node.outputs),
        )

    def type(self, value: ValueId) -> TensorType:
        """Return the shape and dtype of a value."""
        return self.builder.types[value]
