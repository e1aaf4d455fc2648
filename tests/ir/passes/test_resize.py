"""A resized graph is the graph that the function gives at those shapes, or a refusal."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import pytest
from mlx.nn import losses

from kernelwright import ir
from kernelwright.errors import InputError, UnsupportedError
from kernelwright.ir import canonicalize, capture, free_dimensions, resize

ROWS, COLUMNS = 10, 24


def example(shapes: Sequence[tuple[int, ...]]) -> list[mx.array]:
    return [mx.random.normal(shape, key=mx.random.key(0)) for shape in shapes]


def residual_norm(x: mx.array, r: mx.array, w: mx.array) -> list[mx.array]:
    h = x + r
    return [mx.fast.rms_norm(h, w, 1e-5), h]


def layer_norm(x: mx.array, w: mx.array) -> mx.array:
    return mx.fast.layer_norm(x, w, w, 1e-5)


def attention(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    return mx.softmax(q @ k.swapaxes(-1, -2), axis=-1) @ v


def heads(x: mx.array) -> mx.array:
    return mx.softmax(x.reshape(ROWS, -1, 8).transpose(1, 0, 2), axis=-1)


def halves(x: mx.array) -> mx.array:
    a, b = mx.split(x, 2, axis=-1)
    return mx.concatenate([-b, a], axis=-1) * x


def positions(x: mx.array) -> mx.array:
    return mx.where(mx.arange(x.shape[0])[:, None] >= mx.arange(x.shape[1]), x, 0)


def loss_gradient(x: mx.array) -> mx.array:
    labels = mx.argmin(x, axis=1)
    return mx.grad(lambda x: mx.sum(losses.cross_entropy(x, labels)))(x)  # type: ignore[no-any-return]


PAIR = [(ROWS, COLUMNS), (ROWS, COLUMNS)]


@pytest.mark.parametrize(
    ("function", "shapes", "axis", "size", "resized"),
    [
        (residual_norm, [*PAIR, (COLUMNS,)], (0, 0), 7, [(7, 24), (7, 24), (24,)]),
        (residual_norm, [*PAIR, (COLUMNS,)], (2, 0), 37, [(10, 37), (10, 37), (37,)]),
        (layer_norm, [(2, ROWS, COLUMNS), (COLUMNS,)], (0, 2), 40, [(2, 10, 40), (40,)]),
        (lambda x: x.mean(), [(ROWS, COLUMNS)], (0, 1), 5, [(10, 5)]),
        (lambda x: mx.var(x, axis=-1, ddof=1), [(ROWS, COLUMNS)], (0, 1), 5, [(10, 5)]),
        (lambda x: mx.softmax(x, axis=-1) * 3, [(ROWS, COLUMNS)], (0, 1), 31, [(10, 31)]),
        (lambda x, y: x @ y.T, PAIR, (1, 0), 12, [(10, 24), (12, 24)]),
        (attention, [(2, 6, 24), (2, 8, 24), (2, 8, 24)], (1, 1), 9, [(2, 6, 24), (2, 9, 24)]),
        (lambda x: x.reshape(-1) + 1, [(ROWS, COLUMNS)], (0, 0), 3, [(3, 24)]),
        (heads, [(ROWS, COLUMNS)], (0, 1), 64, [(10, 64)]),
        (halves, [(ROWS, COLUMNS)], (0, 1), 30, [(10, 30)]),
        (positions, [(ROWS, COLUMNS)], (0, 0), 13, [(13, 24)]),
        (lambda x: mx.cumsum(x, axis=-1), [(ROWS, COLUMNS)], (0, 1), 11, [(10, 11)]),
        (lambda x, y: mx.take(x, mx.argsort(y), axis=1), [(10, 24), (5,)], (0, 0), 3, [(3, 24)]),
        (lambda x: mx.tanh(x).at[:, 3:5].add(1), [(ROWS, COLUMNS)], (0, 0), 3, [(3, 24)]),
        (loss_gradient, [(ROWS, COLUMNS)], (0, 0), 3, [(3, 24)]),
        (loss_gradient, [(ROWS, COLUMNS)], (0, 1), 31, [(10, 31)]),
    ],
)
def test_resizing_is_capturing_at_other_shapes(
    function: Callable[..., object],
    shapes: list[tuple[int, ...]],
    axis: tuple[int, int],
    size: int,
    resized: list[tuple[int, ...]],
) -> None:
    graph = canonicalize(capture(function, *example(shapes)))
    changed = resize(graph, {axis: size})
    ir.verify(changed)
    wanted = [*resized, *[t.shape for t in changed.input_types][len(resized) :]]
    assert [t.shape for t in changed.input_types] == wanted
    again = canonicalize(capture(function, *example(wanted)))
    assert canonicalize(changed).fingerprint == again.fingerprint


def test_axes_that_change_together_are_one_dimension() -> None:
    graph = canonicalize(capture(residual_norm, *example([*PAIR, (COLUMNS,)])))
    rows, columns = free_dimensions(graph)
    assert (rows.axes, rows.size, rows.is_reduced) == (((0, 0), (1, 0)), ROWS, False)
    assert (columns.axes, columns.is_reduced) == (((0, 1), (1, 1), (2, 0)), True)


def test_a_multiple_is_shown_and_kept() -> None:
    graph = canonicalize(capture(heads, *example([(ROWS, COLUMNS)])))
    (heads_dimension,) = [d for d in free_dimensions(graph) if d.axes == ((0, 1),)]
    assert heads_dimension.multiples == (8,)
    with pytest.raises(UnsupportedError, match="it has to be a multiple of 8"):
        resize(graph, {(0, 1): 20})


WEIGHT = mx.ones((COLUMNS, 3))
FIXED = mx.array([3, 1])


@pytest.mark.parametrize(
    ("function", "axis", "message"),
    [
        (lambda x: x @ WEIGHT, (0, 1), "x axis 1 is 24 and 5 was asked for, but it cannot change"),
        (lambda x: x[:, 2:7] * 2, (0, 1), "a slice cuts it at fixed places"),
        (lambda x: x * (1 / 24), (0, 1), r"constant 0\.0416667 may have been computed"),
        (lambda x: mx.take(x, FIXED, axis=1) * 2, (0, 1), "places that are captured numbers"),
        (lambda x: x.at[:, 2:7].add(1) * 2, (0, 1), "slice of it is updated at fixed places"),
        (lambda x: x / 24**0.5, (0, 1), "may have been computed from its size"),
        (lambda x: mx.fft.fft(x), (0, 1), "fft fixes it"),
    ],
)
def test_what_is_tied_to_a_size_is_refused(
    function: Callable[[mx.array], object], axis: tuple[int, int], message: str
) -> None:
    graph = canonicalize(capture(function, *example([(ROWS, COLUMNS)])))
    assert all(axis not in dimension.axes for dimension in free_dimensions(graph))
    with pytest.raises(UnsupportedError, match=message):
        resize(graph, {axis: 5})


def test_a_size_beyond_a_table_of_positions_is_refused() -> None:
    def embed(tokens: mx.array, table: mx.array) -> mx.array:
        return table[mx.arange(tokens.shape[0])] * tokens[:, None]

    graph = canonicalize(capture(embed, mx.zeros((6,)), mx.zeros((16, 8))))
    assert resize(graph, {(0, 0): 16}).input_types[0].shape == (16,)
    with pytest.raises(UnsupportedError, match="place 16 would be read of an axis of 16"):
        resize(graph, {(0, 0): 17})


def test_contradicting_sizes_are_refused() -> None:
    graph = canonicalize(capture(lambda x, y: x + y, *example(PAIR)))
    with pytest.raises(InputError, match="y axis 0 is tied to another axis"):
        resize(graph, {(0, 0): 3, (1, 0): 4})
    with pytest.raises(InputError, match="x has 2 axes, found axis 2"):
        resize(graph, {(0, 2): 3})


def test_the_same_sizes_change_nothing() -> None:
    graph = canonicalize(capture(residual_norm, *example([*PAIR, (COLUMNS,)])))
    assert resize(graph, {}) == graph
    assert resize(graph, {(0, 0): ROWS}).fingerprint == graph.fingerprint
