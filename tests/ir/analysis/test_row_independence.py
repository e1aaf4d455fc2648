"""What depends on a whole row may move with it, and reaches no other row."""

import re
from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelwright.errors import InputError
from kernelwright.ir import Graph, canonicalize, capture, interpret
from kernelwright.ir.analysis.row_independence import row_independence, views_of_shape

SHAPE, ROWS, LENGTH = (3, 3, 4), 9, 4
Function = Callable[[mx.array], mx.array]

MOVES: dict[str, Function] = {
    "swapped": lambda x: x.swapaxes(0, 1),
    "turned": lambda x: x.transpose(*range(1, x.ndim), 0),
    "flat": lambda x: x.reshape(-1),
    "rows": lambda x: x.reshape(ROWS, -1),
    "regrouped": lambda x: x.reshape(9, 2, -1),
    "as it was": lambda x: x.reshape(SHAPE),
    "reversed": lambda x: x[..., ::-1],
    "first axis reversed": lambda x: x[::-1],
    "joined": lambda x: mx.concatenate([x[..., 1:], x[..., :1]], axis=-1),
    "stacked": lambda x: mx.stack([x, 2 * x], axis=-1),
    "softmax again": lambda x: mx.softmax(x, axis=-1),
    "largest": lambda x: x.max(axis=-1, keepdims=True) - x,
    "with itself turned": lambda x: x + x.swapaxes(0, 1),
    "taken": lambda x: mx.take_along_axis(x, mx.argmax(x, axis=-1, keepdims=True), axis=-1),
}


def moved(names: Sequence[str]) -> Function:
    def function(x: mx.array) -> mx.array:
        y = mx.softmax(x, axis=-1)
        for name in names:
            y = MOVES[name](y)
        return y

    return function


def graph_of(function: Callable[[mx.array], object]) -> Graph:
    with mx.stream(mx.cpu):
        return canonicalize(capture(function, mx.zeros(SHAPE)))


def _changed_rows(graph: Graph, row: int) -> int:
    """Count the rows of an output that depend on a row of the input."""
    array = np.linspace(-1, 1, ROWS * LENGTH, dtype=np.float32).reshape(ROWS, LENGTH) ** 3
    (before,) = interpret(graph, mx.array(array.reshape(SHAPE)))
    array[row] = [0.5, -2, 1, 3]
    (after,) = interpret(graph, mx.array(array.reshape(SHAPE)))
    changed = np.array(before).reshape(ROWS, -1) != np.array(after).reshape(ROWS, -1)
    return int(changed.any(axis=1).sum())


def _with_one_of(changing: Sequence[str]) -> st.SearchStrategy[list[str]]:
    """Draw up to five moves, one of these among them at any place."""
    return st.tuples(
        st.lists(st.sampled_from([*MOVES]), max_size=4),
        st.sampled_from([*changing]),
        st.integers(0, 4),
    ).map(lambda drawn: [*drawn[0][: drawn[2]], drawn[1], *drawn[0][drawn[2] :]])


# No other move changes how many elements there are, and outputs of the input's size are left out.
@settings(max_examples=100, deadline=None)
@given(_with_one_of(("stacked", "taken")))
def test_an_independent_row_changes_no_other_row_of_the_output(names: list[str]) -> None:
    try:
        graph = graph_of(moved(names))
    except InputError:
        assume(False)
    (made,) = graph.output_types
    # An output of the reduced shape is stored where its elements were, and may be a transpose.
    assume(made.size % ROWS == 0 and made.size != ROWS * LENGTH)
    if row_independence(graph, SHAPE, (2,)):
        assert all(_changed_rows(graph, row) <= 1 for row in range(ROWS))


@pytest.mark.parametrize(
    "names",
    [
        ("swapped", "swapped"),
        ("rows", "reversed", "joined"),
        ("stacked", "rows"),
        ("flat", "as it was", "softmax again"),
        ("swapped", "largest"),
        ("turned", "turned", "turned"),
        ("turned",),
        ("taken", "flat"),
        ("regrouped", "reversed", "rows"),
    ],
)
def test_a_row_moves_as_a_whole(names: Sequence[str]) -> None:
    assert row_independence(graph_of(moved(names)), SHAPE, (2,))


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("first axis reversed",), "slice .* mixes rows"),
        (("with itself turned",), "joins rows that run along different axes"),
        (("turned", "softmax again"), "softmax over axes .* has other rows"),
        (("turned", "joined"), "mixes rows"),
        (("stacked", "turned"), "the output .* alternates between rows"),
    ],
)
def test_a_row_that_meets_another_is_named(names: Sequence[str], reason: str) -> None:
    found = row_independence(graph_of(moved(names)), SHAPE, (2,))
    assert not found
    assert re.search(reason, found.reason), found.reason


def test_outputs_with_elements_hold_rows_in_one_order() -> None:
    def in_two(x: mx.array) -> tuple[mx.array, mx.array]:
        y = mx.softmax(x, axis=-1)
        return y[..., 1:], y.swapaxes(0, 1)[..., 1:]

    def with_largest(x: mx.array) -> tuple[mx.array, mx.array]:
        return mx.softmax(x, axis=-1), x.max(axis=-1).T

    assert "in two orders" in row_independence(graph_of(in_two), SHAPE, (2,)).reason
    assert row_independence(graph_of(with_largest), SHAPE, (2,))


def test_elements_stand_as_they_were_reduced() -> None:
    def kept(x: mx.array) -> mx.array:
        return (x / x.max(axis=1, keepdims=True)).reshape(9, 4) + 1

    def behind(x: mx.array) -> mx.array:
        return (x / x.max(axis=1, keepdims=True)).swapaxes(1, 2) + 1

    assert row_independence(graph_of(kept), SHAPE, (1,))
    assert "in another order" in row_independence(graph_of(behind), SHAPE, (1,)).reason


def test_a_broadcast_along_other_axes_is_not_the_same_row() -> None:
    def crossed(x: mx.array) -> mx.array:
        size = x.max(axis=(1, 2))
        return x.max(axis=(1, 2), keepdims=True) + size[None, :, None]

    assert "different axes" in row_independence(graph_of(crossed), SHAPE, (1, 2)).reason


def test_rows_of_other_shapes_are_the_same_where_memory_is() -> None:
    def twice(x: mx.array) -> tuple[mx.array, mx.array]:
        return x.sum(axis=1), x.reshape(3, 3, 2, 2).max(axis=1)

    assert row_independence(graph_of(twice), SHAPE, (1,))


def test_views_of_a_shape_are_found_behind_an_output() -> None:
    graph = graph_of(moved(["swapped", "flat"]))
    views = views_of_shape(graph, graph.outputs[0], SHAPE)
    assert views is not None
    assert [node.op for node in views] == ["reshape"]
    assert views_of_shape(graph, graph.inputs[0], (36,)) is None
