"""One fingerprint for a rotary embedding, whichever way people write it."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright import ir
from kernelwright.plan import partition

Turn = Callable[[mx.array, mx.array, mx.array], mx.array]
B, H, L, D = 2, 3, 5, 8
X, TABLE = (B, H, L, D), (L, D // 2)


def halves(x: mx.array) -> tuple[mx.array, mx.array]:
    return x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]


def split(x: mx.array) -> tuple[mx.array, mx.array]:
    a, b = mx.split(x, 2, axis=-1)
    return a, b


def pairs(x: mx.array) -> tuple[mx.array, mx.array]:
    return x[..., ::2], x[..., 1::2]


def beside(a: mx.array, b: mx.array) -> mx.array:
    return mx.stack([a, b], axis=-1).reshape(*a.shape[:-1], -1)


def after(a: mx.array, b: mx.array) -> mx.array:
    return mx.concatenate([a, b], axis=-1)


def turned(a: mx.array, b: mx.array, c: mx.array, s: mx.array) -> tuple[mx.array, mx.array]:
    return a * c - b * s, a * s + b * c


def rotated(x: mx.array) -> mx.array:
    a, b = mx.split(x, 2, axis=-1)
    return after(-b, a)


def numbers(a: mx.array, b: mx.array) -> mx.array:
    return a + 1j * b


def by_complex(a: mx.array, b: mx.array, c: mx.array, s: mx.array) -> tuple[mx.array, mx.array]:
    z = numbers(a, b) * numbers(c, s)
    return mx.real(z), mx.imag(z)


def in_rows(x: mx.array, c: mx.array, s: mx.array) -> mx.array:
    y = x.reshape(*x.shape[:-1], 2, -1)
    return mx.stack([*turned(y[..., 0, :], y[..., 1, :], c, s)], axis=-2).reshape(x.shape)


def in_columns(x: mx.array, c: mx.array, s: mx.array) -> mx.array:
    y = x.reshape(*x.shape[:-1], -1, 2)
    return mx.stack([*turned(y[..., 0], y[..., 1], c, s)], axis=-1).flatten(-2)


def other_order(x: mx.array, c: mx.array, s: mx.array) -> mx.array:
    a, b = mx.split(x, 2, axis=-1)
    return after(-(s * b) + c * a, c * b + s * a)


def negated_whole(x: mx.array, c: mx.array, s: mx.array) -> mx.array:
    a, b = mx.split(x, 2, axis=-1)
    return after(-(b * s - a * c), b * c + a * s)


def exchanged(x: mx.array) -> mx.array:
    a, b = mx.split(x, 2, axis=-1)
    return after(b, a)


def as_bits(x: mx.array, c: mx.array, s: mx.array) -> mx.array:
    z = x.reshape(*x.shape[:-1], -1, 2).view(mx.complex64).squeeze(-1) * numbers(c, s)
    return z[..., None].view(mx.float32).reshape(x.shape)


def signs() -> mx.array:
    return mx.where(mx.arange(D) < D // 2, -1.0, 1.0)


def updated(x: mx.array, c: mx.array, s: mx.array) -> mx.array:
    made = mx.zeros_like(x)
    made[..., : D // 2], made[..., D // 2 :] = turned(*halves(x), c, s)
    return made


def by_matrices(x: mx.array, c: mx.array, s: mx.array) -> mx.array:
    turns = mx.stack([c, -s, s, c], axis=-1).reshape(1, 1, L, D // 2, 2, 2)
    rows = x.reshape(B, H, L, D // 2, 1, 2)
    return (turns[..., 0] * rows[..., 0] + turns[..., 1] * rows[..., 1]).reshape(x.shape)


def by_sums(x: mx.array, c: mx.array, s: mx.array) -> mx.array:
    turns = mx.stack([c, -s, s, c], axis=-1).reshape(L, D // 2, 2, 2)
    return (turns * x.reshape(B, H, L, D // 2, 1, 2)).sum(-1).reshape(x.shape)


def partly(turn: Turn) -> Turn:
    def partial(x: mx.array, c: mx.array, s: mx.array) -> mx.array:
        size = 2 * c.shape[-1]
        return after(turn(x[..., :size], c, s), x[..., size:])

    return partial


def partly_at_once(x: mx.array, c: mx.array, s: mx.array) -> mx.array:
    a, b, kept = mx.split(x, [2, 4], axis=-1)
    return mx.concatenate([*turned(a, b, c, s), kept], axis=-1)


HALVES: list[Turn] = [
    lambda x, c, s: after(*turned(*halves(x), c, s)),
    lambda x, c, s: after(*turned(*split(x), c, s)),
    other_order,
    lambda x, c, s: x * after(c, c) + rotated(x) * after(s, s),
    lambda x, c, s: rotated(x) * mx.tile(s, (1, 2)) + mx.tile(c, (1, 2)) * x,
    lambda x, c, s: after(*by_complex(*halves(x), c, s)),
    lambda x, c, s: x * after(c, c) + exchanged(x) * after(-s, s),
    lambda x, c, s: after(s, s) * rotated(x) + after(c, c) * x,
    negated_whole,
    in_rows,
]
PAIRS: list[Turn] = [
    lambda x, c, s: beside(*turned(*pairs(x), c, s)),
    in_columns,
    lambda x, c, s: beside(*by_complex(*pairs(x), c, s)),
    lambda x, c, s: (
        x * mx.repeat(c, 2, axis=-1) + beside(-x[..., 1::2], x[..., ::2]) * mx.repeat(s, 2, axis=-1)
    ),
    lambda x, c, s: x * beside(c, c) + beside(-x[..., 1::2], x[..., ::2]) * beside(s, s),
    as_bits,
]
WHOLE: list[Turn] = [
    HALVES[0],
    lambda x, c, s: x * after(c, c) + mx.roll(x, D // 2, -1) * signs() * after(s, s),
    lambda x, c, s: (
        x * mx.tile(c, (1, 2))
        + mx.where(mx.arange(D) < D // 2, -exchanged(x), exchanged(x)) * mx.tile(s, (1, 2))
    ),
    updated,
]
BIASED: list[Turn] = [
    lambda x, c, s: after(*turned(*halves(x + 1.5), c, s)),
    lambda x, c, s: (x + 1.5) * after(c, c) + rotated(x + 1.5) * after(s, s),
]
ANGLES: list[Turn] = [
    lambda x, t, u: after(*turned(*halves(x), mx.cos(t), mx.sin(t))),
    lambda x, t, u: x * mx.cos(after(t, t)) + rotated(x) * mx.sin(after(t, t)),
    lambda x, t, u: after(
        mx.real(numbers(*halves(x)) * mx.exp(1j * t)), mx.imag(numbers(*halves(x)) * mx.exp(1j * t))
    ),
]
PART = (L, D // 4)
WAYS: dict[str, tuple[list[Turn], tuple[int, ...]]] = {
    "halves": (HALVES, TABLE),
    "pairs": (PAIRS, TABLE),
    "halves of whole rows": (WHOLE, TABLE),
    "pairs by matrices": ([PAIRS[0], by_matrices, by_sums], TABLE),
    "biased": (BIASED, TABLE),
    "angles": (ANGLES, TABLE),
    "the first half's halves": ([partly_at_once, *map(partly, HALVES)], PART),
    "the first half's pairs": ([partly(turn) for turn in PAIRS[:5]], PART),
}


def task_of(turn: Turn, arrays: list[mx.array]) -> ir.Graph:
    graph = ir.canonicalize(ir.capture(turn, *arrays))
    return ir.standardize(ir.gather_attention(graph))


@pytest.mark.parametrize("name", WAYS)
def test_all_ways_are_one_task_with_one_meaning(name: str) -> None:
    ways, table = WAYS[name]
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(s, dtype=np.float32) for s in (X, table, table)]
    inputs = [mx.array(a) for a in arrays]
    expected = np.array(ways[0](*inputs))
    tasks = [task_of(way, inputs) for way in ways]
    for task in tasks:
        (exact,) = ir.reference(task, arrays)
        np.testing.assert_allclose(exact, expected, rtol=1e-5, atol=1e-5)
    assert len({task.fingerprint for task in tasks}) == 1


NEAR_MISSES: dict[str, Turn] = {
    "a reflection": lambda x, c, s: x * after(c, c) + exchanged(x) * after(s, s),
    "both negative": lambda x, c, s: x * after(c, c) - exchanged(x) * after(s, s),
    "tables exchanged": lambda x, c, s: x * after(c, s) + rotated(x) * after(s, c),
    "other halves": lambda x, c, s: x * after(c, c) + rotated(rotated(x)) * after(s, s),
    "pairs by halves": lambda x, c, s: (
        x * after(c, c) + beside(-x[..., 1::2], x[..., ::2]) * after(s, s)
    ),
    "another row": lambda x, c, s: x * after(c, c) + rotated(2 * x) * after(s, s),
    "the way back": lambda x, c, s: x * after(c, c) - rotated(x) * after(s, s),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_keeps_its_meaning_and_is_no_turn(name: str) -> None:
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(s, dtype=np.float32) for s in (X, TABLE, TABLE)]
    inputs = [mx.array(a) for a in arrays]
    task = task_of(NEAR_MISSES[name], inputs)
    (exact,) = ir.reference(task, arrays)
    expected = np.array(NEAR_MISSES[name](*inputs))
    np.testing.assert_allclose(exact, expected, rtol=1e-5, atol=1e-5)
    assert task.fingerprint not in {task_of(w, inputs).fingerprint for w in (HALVES[0], PAIRS[0])}


def test_halves_and_pairs_and_the_way_back_stay_apart() -> None:
    arrays = [mx.ones(X), mx.ones(TABLE), mx.ones(TABLE)]

    def back(x: mx.array, c: mx.array, s: mx.array) -> mx.array:
        a, b = halves(x)
        return after(a * c + b * s, b * c - a * s)

    def with_full_tables(x: mx.array, c: mx.array, s: mx.array) -> mx.array:
        return x * c + rotated(x) * s

    wide = [mx.ones(X), mx.ones((L, D)), mx.ones((L, D))]
    tasks = [task_of(turn, arrays) for turn in (HALVES[0], PAIRS[0], back)]
    tasks.append(task_of(with_full_tables, wide))
    assert len({task.fingerprint for task in tasks}) == 4


def test_what_a_zero_hides_of_an_infinity_is_no_turn() -> None:
    """A product with a matrix of signs is NaN where a row has an infinity, and a turn is not."""
    matrix = mx.array(np.roll(np.eye(D), D // 2, axis=1) * np.repeat([1, -1], D // 2)[:, None])

    def by_matrix(x: mx.array, c: mx.array, s: mx.array) -> mx.array:
        return x * after(c, c) + (x @ matrix.astype(mx.float32)) * after(s, s)

    arrays = [mx.ones(X), mx.ones(TABLE), mx.ones(TABLE)]
    assert mx.array_equal(by_matrix(*arrays), HALVES[0](*arrays))
    assert task_of(by_matrix, arrays).fingerprint != task_of(HALVES[0], arrays).fingerprint


def test_a_turn_by_complex_pairs_needs_no_complex_kernel() -> None:
    arrays = [mx.ones(X), mx.ones(TABLE), mx.ones(TABLE)]
    graph = ir.gather_attention(ir.canonicalize(ir.capture(PAIRS[2], *arrays)))
    assert all(not type_.dtype.is_complex for type_ in graph.types)
    (region,) = partition(graph)
    assert len(region.inputs) == 3
