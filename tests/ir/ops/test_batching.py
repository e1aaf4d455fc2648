"""Slices of operands that a record keeps apart meet in no result, and stay in order."""

from collections.abc import Iterator

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import OPS, capture
from kernelwright.ir.graph import TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Kind, batch_axes, op_named
from kernelwright.ir.ops.batching import regrouped
from tests.ir.op_steps import NOT_FROM_FUNCTIONS, dtypes_of, matrices, step_of

DRAWN = [name for name in OPS if name not in NOT_FROM_FUNCTIONS]
Values = list[np.ndarray]


def _calls(name: str) -> Iterator[tuple[str, Call, Values]]:
    """Yield the calls in a step of an op, with values that its operands may have."""
    step, taken = step_of(name), dtypes_of(name)
    dtype = mx.float32 if mx.float32 in taken else taken[-1]
    x, y = (m.astype(dtype) for m in matrices(5)[:2])
    graph = capture(lambda x, y: step(x, y, 1), x, y)
    values = dict(zip(graph.inputs, map(np.array, (x, y)), strict=True))
    values.update((v, np.array(c.array)) for v, c in graph.constants)
    for node in graph.nodes:
        op, call = op_named(node.op), Call.of(graph, node)
        if op.meaning is None or op.kind in (Kind.RANDOM, Kind.BARRIER):
            return
        read = [values[v] for v in node.inputs]
        yield node.op, call, read
        made = op.meaning(call, *read)
        values.update(zip(node.outputs, made if isinstance(made, tuple) else (made,), strict=True))


def _results(op: str, call: Call, read: Values) -> Values:
    meaning = op_named(op).meaning
    assert meaning is not None
    made = meaning(call, *read)
    return [np.array(m) for m in (made if isinstance(made, tuple) else (made,))]


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.filterwarnings("ignore")
def test_a_slice_decides_its_own_slice_of_the_results_alone(name: str) -> None:
    for op, call, read in _calls(name):
        before = _results(op, call, read)
        for place, array in enumerate(read):
            for axis, size in enumerate(array.shape):
                after = batch_axes(op_named(op), call, place, frozenset({axis}))
                if len(after) != 1 or size < 2 or call.outputs[0].shape[min(after)] != size:
                    continue
                turned = array.take([0, 0, *range(2, size)], axis)
                made = _results(op, call, [*read[:place], turned, *read[place + 1 :]])
                for one, other in zip(before, made, strict=True):
                    kept = [i for i in range(size) if i != 1]
                    np.testing.assert_array_equal(
                        one.take(kept, min(after)), other.take(kept, min(after)), err_msg=op
                    )


@pytest.mark.parametrize(
    ("name", "place", "axis", "expected"),
    [
        ("matmul", 0, 0, {0}),
        ("matmul", 0, 1, set()),
        ("matmul", 1, 1, {1}),
        ("transpose", 0, 0, {2}),
        ("softmax", 0, 0, {0}),
        ("gather_axis", 1, 0, {0}),
        ("gather", 0, 0, set()),
        ("gather", 1, 0, {0}),
        ("convolution", 0, 0, {0}),
        ("convolution", 0, 1, set()),
        ("pad", 0, 1, set()),
        ("multiply", 1, 1, {1}),
    ],
)
def test_records_say_which_axes_are_a_batch(
    name: str, place: int, axis: int, expected: set[int]
) -> None:
    calls = [call for op, call, _ in _calls(name) if op == name]
    assert batch_axes(op_named(name), calls[0], place, frozenset({axis})) == expected


@pytest.mark.parametrize(
    ("place", "expected"),
    [(0, [{0}, {1}, {2}, set()]), (1, [{0}, set(), set(), set()]), (3, [set()] * 4)],
)
def test_an_attention_keeps_queries_and_heads_that_are_not_shared(
    place: int, expected: list[set[int]]
) -> None:
    shapes = ((2, 4, 8, 16), (2, 1, 8, 16), (2, 1, 8, 16), (2, 4, 8, 8))
    types = tuple(TensorType(shape, Dtype.FLOAT32) for shape in shapes)
    call = Call({}, types, types[:1])
    kept = [batch_axes(op_named("attention"), call, place, frozenset({a})) for a in range(4)]
    assert kept == expected


def _viewed(before: tuple[int, ...], after: tuple[int, ...]) -> Call:
    first, last = (TensorType(shape, Dtype.FLOAT32) for shape in (before, after))
    return Call({}, (first,), (last,))


@pytest.mark.parametrize(
    ("before", "axis", "after", "expected"),
    [
        ((6, 32), 0, (1, 6, 2, 16), {1}),
        ((6, 32), 1, (1, 6, 2, 16), {2, 3}),
        ((2, 3, 4), 1, (6, 4), {0}),
        ((2, 3), 0, (3, 2), {0, 1}),
        ((4, 1, 5), 2, (4, 5), {1}),
        ((0, 3), 1, (3, 0), set()),
    ],
)
def test_a_reshape_keeps_axes_or_merges_them(
    before: tuple[int, ...], axis: int, after: tuple[int, ...], expected: set[int]
) -> None:
    assert regrouped(_viewed(before, after), 0, frozenset({axis})) == expected


def test_rows_in_another_order_are_no_batch() -> None:
    graph = capture(lambda x: x[::-1], mx.zeros((4, 8)))
    (node,) = graph.nodes
    call = Call.of(graph, node)
    kept = [batch_axes(op_named(node.op), call, 0, frozenset({axis})) for axis in (0, 1)]
    assert kept == [frozenset(), {1}]
