"""Rotary embeddings are recognised by what they do to a row, and nothing that looks like one."""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.ir import Graph, canonicalize, capture, idioms

ROWS, WIDTH = 3, 8
HALF = WIDTH // 2
X = mx.zeros((2, ROWS, WIDTH))
TABLE = mx.zeros((ROWS, HALF))
WIDE = mx.zeros((ROWS, WIDTH))
Function = Callable[..., mx.array]
Parts = tuple[mx.array, mx.array]
_EXCHANGED = np.zeros((WIDTH, WIDTH), np.float32)
_EXCHANGED[range(HALF, WIDTH), range(HALF)] = -1
_EXCHANGED[range(HALF), range(HALF, WIDTH)] = 1
MATRIX = mx.array(_EXCHANGED)

CUTS: dict[str, tuple[str, Callable[[mx.array], Parts]]] = {
    "split": ("halves", lambda x: (mx.split(x, 2, axis=-1)[0], mx.split(x, 2, axis=-1)[1])),
    "slices": ("halves", lambda x: (x[..., :HALF], x[..., HALF:])),
    "two rows": (
        "halves",
        lambda x: (
            x.reshape(*x.shape[:-1], 2, HALF)[..., 0, :],
            x.reshape(*x.shape[:-1], 2, HALF)[..., 1, :],
        ),
    ),
    "strides": ("interleaved", lambda x: (x[..., ::2], x[..., 1::2])),
    "pairs": (
        "interleaved",
        lambda x: (
            x.reshape(*x.shape[:-1], HALF, 2)[..., 0],
            x.reshape(*x.shape[:-1], HALF, 2)[..., 1],
        ),
    ),
}
TURNS: dict[str, Callable[[mx.array, mx.array, mx.array, mx.array], Parts]] = {
    "plain": lambda a, b, c, s: (a * c - b * s, a * s + b * c),
    "swapped": lambda a, b, c, s: (c * a - s * b, c * b + s * a),
    "negative sines": lambda a, b, c, s: (a * c + b * (-s), b * c - a * (-s)),
    "negated part": lambda a, b, c, s: ((-b) * s + a * c, a * s + b * c),
    "negated whole": lambda a, b, c, s: (-(b * s - a * c), b * c + a * s),
}


def _updated(first: mx.array, second: mx.array, places: tuple[slice, slice]) -> mx.array:
    found = mx.zeros((*first.shape[:-1], WIDTH))
    found[..., places[0]] = first
    found[..., places[1]] = second
    return found


def _added(first: mx.array, second: mx.array, places: tuple[slice, slice]) -> mx.array:
    found = mx.zeros((*first.shape[:-1], WIDTH))
    return found.at[..., places[0]].add(first).at[..., places[1]].add(second)


JOINS: dict[str, dict[str, Callable[[mx.array, mx.array], mx.array]]] = {
    "halves": {
        "joined": lambda a, b: mx.concatenate([a, b], axis=-1),
        "stacked": lambda a, b: mx.stack([a, b], axis=-2).reshape(*a.shape[:-1], WIDTH),
        "updated": lambda a, b: _updated(a, b, (slice(0, HALF), slice(HALF, WIDTH))),
        "added": lambda a, b: _added(a, b, (slice(0, HALF), slice(HALF, WIDTH))),
    },
    "interleaved": {
        "stacked": lambda a, b: mx.stack([a, b], axis=-1).reshape(*a.shape[:-1], WIDTH),
        "updated": lambda a, b: _updated(a, b, (slice(0, WIDTH, 2), slice(1, WIDTH, 2))),
        "added": lambda a, b: _added(a, b, (slice(0, WIDTH, 2), slice(1, WIDTH, 2))),
    },
}


@dataclass(frozen=True)
class Way:
    """How a row is cut, turned and joined."""

    cut: str
    turn: str
    join: str

    @property
    def layout(self) -> str:
        return CUTS[self.cut][0]

    def __call__(self, x: mx.array, cosine: mx.array, sine: mx.array) -> mx.array:
        made = TURNS[self.turn](*CUTS[self.cut][1](x), cosine, sine)
        joins = JOINS[self.layout]
        return joins.get(self.join, joins["stacked"])(*made)


ways = st.builds(
    Way,
    st.sampled_from([*CUTS]),
    st.sampled_from([*TURNS]),
    st.sampled_from(["joined", "stacked", "updated", "added"]),
)


def _sign() -> mx.array:
    return mx.where(mx.arange(WIDTH) < HALF, -1.0, 1.0)


def _exchanged(x: mx.array) -> mx.array:
    return mx.concatenate([x[..., HALF:], x[..., :HALF]], axis=-1)


WHOLE: dict[str, Function] = {
    "negated half": lambda x, c, s: (
        x * c + mx.concatenate([-x[..., HALF:], x[..., :HALF]], axis=-1) * s
    ),
    "signed sines": lambda x, c, s: c * x + _exchanged(x) * (s * _sign()),
    "signed parts": lambda x, c, s: x * c + _exchanged(x) * _sign() * s,
    "chosen signs": lambda x, c, s: (
        x * c + mx.where(mx.arange(WIDTH) < HALF, -_exchanged(x), _exchanged(x)) * s
    ),
    "rolled": lambda x, c, s: mx.roll(x, HALF, -1) * (_sign() * s) + x * c,
    "by a matrix": lambda x, c, s: x * c + (x @ MATRIX) * s,
}


def graph_of(function: Function, *tables: mx.array) -> Graph:
    with mx.stream(mx.cpu):
        return canonicalize(capture(function, X, *tables))


@settings(max_examples=60, deadline=None)
@given(ways)
def test_every_way_to_turn_parts_is_a_rope_of_its_layout(way: Way) -> None:
    graph = graph_of(way, TABLE, TABLE)
    (found,) = idioms(graph)
    assert (found.name, found.parameter("layout")) == ("rope", way.layout)
    assert tuple(value for _, value in found.operands) == graph.inputs


@pytest.mark.parametrize("name", WHOLE)
def test_every_way_to_turn_whole_rows_is_a_rope(name: str) -> None:
    graph = graph_of(WHOLE[name], WIDE, WIDE)
    (found,) = idioms(graph)
    assert (found.name, found.parameter("layout")) == ("rope", "halves")
    assert tuple(value for _, value in found.operands) == graph.inputs


def _by_matrices(x: mx.array, *table: mx.array) -> mx.array:
    """Multiply each pair by a matrix of its own, column by column."""
    turns = mx.stack([*table], axis=-1).reshape(ROWS, HALF, 2, 2)
    pairs = x.reshape(*x.shape[:-1], HALF, 1, 2)
    return (turns[..., 0] * pairs[..., 0] + turns[..., 1] * pairs[..., 1]).reshape(x.shape)


def _matrix(a: mx.array, b: mx.array, c: mx.array, d: mx.array) -> mx.array:
    return mx.stack([mx.stack([a, b], axis=-1), mx.stack([c, d], axis=-1)], axis=-2)


def _columns(x: mx.array, *table: mx.array) -> mx.array:
    return (_matrix(*table) @ x.reshape(*x.shape[:-1], HALF, 2, 1)).reshape(x.shape)


def _added_up(x: mx.array, *table: mx.array) -> mx.array:
    return (_matrix(*table) * x.reshape(*x.shape[:-1], HALF, 1, 2)).sum(-1).reshape(x.shape)


def _transposed(x: mx.array, *table: mx.array) -> mx.array:
    turns = _matrix(*table).swapaxes(-1, -2)
    return (x.reshape(*x.shape[:-1], HALF, 1, 2) @ turns).squeeze(-2).flatten(-2)


def _row_by_row(x: mx.array, a: mx.array, b: mx.array, c: mx.array, d: mx.array) -> mx.array:
    pairs = x.reshape(*x.shape[:-1], HALF, 2)
    rows = (mx.stack([*row], axis=-1) for row in ((a, b), (c, d)))
    return mx.stack([(row * pairs).sum(-1) for row in rows], axis=-1).reshape(x.shape)


BY_MATRICES: dict[str, Function] = {
    "columns of it": _by_matrices,
    "products": _columns,
    "products from behind": _transposed,
    "sums of products": _added_up,
    "rows of it": _row_by_row,
}


@pytest.mark.parametrize("name", BY_MATRICES)
def test_pairs_may_be_multiplied_by_matrices(name: str) -> None:
    way = BY_MATRICES[name]
    graph = graph_of(lambda x, c, s: way(x, c, -s, s, c), TABLE, TABLE)
    (found,) = idioms(graph)
    assert (found.name, found.parameter("layout")) == ("rope", "interleaved")
    assert tuple(value for _, value in found.operands) == graph.inputs


@pytest.mark.parametrize("name", BY_MATRICES)
@pytest.mark.parametrize("signs", [(1, 1, 1), (-1, -1, 1), (-1, 1, -1), (1, -1, -1)])
def test_matrices_that_turn_nothing_are_no_rope(name: str, signs: tuple[int, int, int]) -> None:
    way, (one, other, last) = BY_MATRICES[name], signs
    graph = graph_of(lambda x, c, s: way(x, c, one * s, other * s, last * c), TABLE, TABLE)
    assert not idioms(graph)


def test_vectors_that_are_multiplied_are_no_rope() -> None:
    """Two terms, as products of matrices have, over rows and not within them."""
    vectors = mx.zeros((2, ROWS, WIDTH, 2))

    def products(x: mx.array, y: mx.array, c: mx.array) -> mx.array:
        return mx.concatenate([(y @ c)[..., 0], (y * c.T).sum(-1)], axis=-1) * x[..., :1]

    assert not idioms(graph_of(products, vectors, mx.zeros((2, 1))))


@pytest.mark.parametrize(
    "before",
    [lambda x: x + mx.arange(1.0, 9), lambda x: x + mx.sin(x), lambda x: x + x, lambda x: x + 2],
)
def test_a_row_may_be_added_to_before_it_is_turned(before: Callable[[mx.array], mx.array]) -> None:
    """As queries with a bias are."""
    way = Way("split", "plain", "joined")
    graph = graph_of(lambda x, c, s: way(before(x), c, s), TABLE, TABLE)
    (found,) = idioms(graph)
    (added,) = (n for n in graph.nodes if n.op == "add" and n.outputs[0] == found.operands[0][1])
    assert found.name == "rope"
    assert graph.inputs[0] in added.inputs


def test_a_row_may_be_turned_at_its_beginning_alone() -> None:
    def partial(x: mx.array, cosine: mx.array, sine: mx.array) -> mx.array:
        a, b, rest = x[..., :2], x[..., 2:4], x[..., 4:]
        c, s = cosine[:, :2], sine[:, :2]
        return mx.concatenate([a * c - b * s, a * s + b * c, rest], axis=-1)

    assert [idiom.name for idiom in idioms(graph_of(partial, TABLE, TABLE))] == ["rope"]


NEAR_MISSES: dict[str, Function] = {
    "a reflection": lambda x, c, s: x * c + _exchanged(x) * s,
    "both negative": lambda x, c, s: x * c - _exchanged(x) * s,
    "the other pairs": lambda x, c, s: (
        x * c + mx.concatenate([-x[..., 2:], x[..., :2]], axis=-1) * s
    ),
    "scaled sines": lambda x, c, s: x * c + _exchanged(x) * (2.0 * _sign() * s),
    "another row": lambda x, c, s: x * c + _exchanged(x + 1.0) * _sign() * s,
    "signs of each row": lambda x, c, s: x * c + mx.where(x < 0, -_exchanged(x), _exchanged(x)) * s,
    "signs of rows": lambda x, c, s: (
        x * c + mx.where(mx.arange(ROWS)[:, None] < 1, -_exchanged(x), _exchanged(x)) * s
    ),
    "rows reversed": lambda x, c, s: x * c + x[..., ::-1] * _sign() * s,
    "reversed cosines": lambda x, c, s: x * c[..., ::-1] + _exchanged(x) * _sign() * s,
    "cosines of neighbours": lambda x, c, s: (
        x * mx.repeat(c[..., :HALF], 2, -1) + _exchanged(x) * _sign() * s
    ),
    "sines of one half": lambda x, c, s: (
        x * c + mx.concatenate([-x[..., HALF:], 0 * x[..., :HALF]], axis=-1) * s
    ),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_is_no_rope(name: str) -> None:
    graph = graph_of(NEAR_MISSES[name], WIDE, WIDE)
    assert "rope" not in {idiom.name for idiom in idioms(graph)}


def test_rows_that_are_turned_with_others_are_no_rope() -> None:
    def mixed(x: mx.array, cosine: mx.array, sine: mx.array) -> mx.array:
        row = x[0]
        a = mx.broadcast_to(row[:, None], (ROWS, ROWS, WIDTH))
        b = mx.broadcast_to(row[None], (ROWS, ROWS, WIDTH))
        return a * cosine + _exchanged(b) * _sign() * sine

    graph = graph_of(mixed, WIDE, WIDE)
    assert "rope" not in {idiom.name for idiom in idioms(graph)}


def test_a_part_of_a_wider_row_may_be_turned() -> None:
    """As the part of a key that holds positions, beside one that holds none."""

    def later(x: mx.array, cosine: mx.array, sine: mx.array) -> mx.array:
        a, b = x[..., 2:4], x[..., 4:6]
        c, s = cosine[:, :2], sine[:, :2]
        return mx.concatenate([a * c - b * s, a * s + b * c], axis=-1)

    assert [idiom.name for idiom in idioms(graph_of(later, TABLE, TABLE))] == ["rope"]


@pytest.mark.parametrize("weight", [mx.arange(1.0, WIDTH + 1), mx.ones(WIDTH), None])
def test_a_row_may_be_normed_before_it_is_turned(weight: mx.array | None) -> None:
    """Before training all weights of a norm are one."""

    def normed(x: mx.array, cosine: mx.array, sine: mx.array) -> mx.array:
        return Way("split", "plain", "joined")(mx.fast.rms_norm(x, weight, 1e-5), cosine, sine)

    found = idioms(graph_of(normed, TABLE, TABLE))
    assert [idiom.name for idiom in found] == ["rms_norm", "rope"]
    assert dict(found[1].operands)["x"] == found[0].output
    assert ("weight" in dict(found[0].operands)) == (weight is not None)
