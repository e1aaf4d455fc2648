"""Structure of users' data in cases: whole rows, masks, parameters, indices and related inputs."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.structures.placing import structure_plan
from kernelwright.evaluator.inputs.structures.real_rows import (
    REAL_ROWS,
    SPECIAL_ROWS,
    mixed_rows,
)
from kernelwright.evaluator.inputs.suite_plan import visible_cases
from kernelwright.ir.graph import Graph
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture

SECRETS = ("one", "two")
Rows = NDArray[np.generic]


def graph_of(fn: Callable[..., object], *arrays: mx.array) -> Graph:
    with mx.stream(mx.cpu):
        return canonicalize(capture(fn, *arrays))


def drawn(graph: Graph, secret: str) -> list[tuple[NDArray[np.generic], ...]]:
    cases = visible_cases(graph, (), EvaluatorConfig(secret=secret))
    chosen = [c for c in cases if c.distribution is Distribution.STRUCTURED]
    return [tuple(np.asarray(a) for a in case.inputs(secret)) for case in chosen]


def normalised(x: mx.array, w: mx.array, b: mx.array) -> mx.array:
    return mx.fast.layer_norm(x, w, b, 1e-5)


ROWS: dict[str, Callable[[NDArray[np.float32]], bool]] = {
    "ramp": lambda r: bool((np.diff(r) == 1).all() and r[0] == 0),
    "centred ramp": lambda r: bool((np.diff(r) == 1).all() and r[0] == -r[-1]),
    "unit": lambda r: bool((r >= 0).all() and (r < 1).all() and len(set(r.tolist())) > 50),
    "probabilities": lambda r: bool((r > 0).all() and abs(r.sum() - 1) < 1e-5),
    "bytes": lambda r: bool((r == np.floor(r)).all() and r.max() == 255 and r.min() == 0),
    "palindrome": lambda r: bool((r == r[::-1]).all() and r[0] != r[1] and r[1] != r[2]),
    "period": lambda r: bool((r[3:] == r[:-3]).all() and len(set(r[:3].tolist())) == 3),
    "positive": lambda r: bool((r > 0).all() and r.max() > 1),
    "negative": lambda r: bool((r < 0).all() and r[0] != r[1]),
    "powers of two": lambda r: bool((r[1:80] == 2 * r[:79]).all() and r[0] > 0),
    "two hot": lambda r: bool((r == 1).sum() == 2 and (r == 0).sum() == len(r) - 2),
    "half padding": lambda r: bool((r[: len(r) // 2] == 0).all() and (r[len(r) // 2 :] != 0).all()),
    "seventeen numbers": lambda r: bool((r != 0).sum() == 17),
    "rising": lambda r: bool((np.diff(r) >= 0).all() and r[0] < -1),
    "falling": lambda r: bool((np.diff(r) <= 0).all() and r[-1] < -1),
    "normalised": lambda r: bool(abs(r.mean()) < 1e-6 and abs((r**2).mean() - 1) < 1e-4),
    "zero sum": lambda r: bool(r.sum() == 0 and np.abs(r).min() > 0 and len(set(np.abs(r))) > 20),
    "rotated": lambda r: bool(
        (np.diff(r) < 0).sum() == 1 and r[-1] < r[0] and len(set(r.tolist())) > 50
    ),
    "two descents": lambda r: bool((np.diff(r) < 0).sum() == 2),
    "an octave": lambda r: bool(r.min() > 0 and r.max() == 2 * r.min()),
    "one above all": lambda r: bool(r.max() - 12 > np.sort(r)[-2] > np.min(r) > r.max() - 15),
    "nearly constant": lambda r: bool(0 < np.ptp(r) < 1e-2 * abs(r[0])),
    "nearly normalised": lambda r: bool(
        0.9 < r.std() < 1.1 and (1e-5 < abs(r.mean()) < 1e-2 or 1e-5 < abs(r.std() - 1) < 1e-2)
    ),
    "a sum of nearly one": lambda r: bool((r > 0).all() and 1e-5 < abs(r.sum() - 1) < 1e-3),
    "a norm of nearly one": lambda r: bool(
        r.min() < 0 and 1e-5 < abs(np.square(r).sum() - 1) < 1e-3
    ),
    "all but one negative": lambda r: bool((r > 0).sum() == 1 and (r < 0).sum() == len(r) - 1),
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_a_structure_stand_in_some_case(name: str, secret: str) -> None:
    cases = drawn(graph_of(lambda x: mx.softmax(x, axis=-1), mx.zeros((40, 100))), secret)
    with np.errstate(all="ignore"):
        assert any(ROWS[name](row) for (x,) in cases for row in np.asarray(x, np.float32))


@pytest.mark.parametrize("secret", SECRETS)
def test_parameters_have_the_values_of_a_fresh_model(secret: str) -> None:
    graph = graph_of(normalised, mx.zeros((40, 96)), mx.zeros(96), mx.zeros(96))
    seen = set()
    for _, w, b in drawn(graph, secret):
        seen.add(tuple(float(p[0]) if (p == p[0]).all() else None for p in (w, b)))
    assert {(1.0, 0.0), (1.0, None), (None, 0.0), (0.5, None)} <= seen


@pytest.mark.parametrize("secret", SECRETS)
def test_large_shapes_hold_a_fresh_model_too(secret: str) -> None:
    graph = graph_of(normalised, mx.zeros((600, 1024)), mx.zeros(1024), mx.zeros(1024))
    ((_, w, b),) = drawn(graph, secret)
    assert (w == 1).all()
    assert (b == 0).all()


MASKS: dict[str, Callable[[NDArray[np.intp], NDArray[np.intp]], NDArray[np.bool_]]] = {
    "causal": lambda i, j: j <= i,
    "anticausal": lambda i, j: j >= i,
    "checkerboard": lambda i, j: (i + j) % 2 == 0,
    "hole": lambda i, j: (j < 16) | (j >= 32),
}


def masked(x: mx.array, m: mx.array) -> mx.array:
    return mx.softmax(mx.where(m, x, mx.array(-1e9)), axis=-1)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("name", MASKS)
def test_masks_have_a_structure_in_rows_of_some_case(name: str, secret: str) -> None:
    graph = graph_of(masked, mx.zeros((48, 64)), mx.zeros((48, 64), mx.bool_))
    i, j = np.indices((48, 64))
    wanted = MASKS[name](i, j)
    assert any((m[6:] == wanted[6:]).all(axis=1).any() for _, m in drawn(graph, secret))


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_masks_let_few_through(count: int, secret: str) -> None:
    graph = graph_of(masked, mx.zeros((48, 64)), mx.zeros((48, 64), mx.bool_))
    assert any((m.astype(int).sum(axis=1) == count).any() for _, m in drawn(graph, secret))


INDICES: dict[str, Callable[[NDArray[np.int64]], bool]] = {
    "identity": lambda t: bool((t == np.arange(len(t))).all()),
    "reversed": lambda t: bool((np.diff(t) == -1).all()),
    "stride two": lambda t: bool((np.diff(t) == 2).all()),
    "strictly sorted": lambda t: bool((np.diff(t) > 0).all() and (np.diff(t) != 1).any()),
    "distinct": lambda t: bool(len(set(t.tolist())) == len(t) and (np.diff(t) < 0).any()),
    "even": lambda t: bool((t % 2 == 0).all() and len(set(t.tolist())) > 5),
    "alternating": lambda t: bool((t[2:] == t[:-2]).all() and t[0] != t[1]),
    "binary": lambda t: bool(set(t.tolist()) == {0, 1}),
    "pairs swapped": lambda t: bool((t == np.arange(len(t)) ^ 1).all()),
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("name", INDICES)
def test_indices_have_each_structure_as_a_whole(name: str, secret: str) -> None:
    def take(t: mx.array, i: mx.array) -> mx.array:
        return mx.take(t, i, axis=0)

    graph = graph_of(take, mx.zeros((100, 16)), mx.zeros(50, mx.int32))
    found = [np.asarray(i, np.int64) for _, i in drawn(graph, secret)]
    assert all(0 <= i.min() <= i.max() < 100 for i in found)
    assert any(INDICES[name](i) for i in found)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.int32, mx.uint8], ids=str)
def test_rows_of_two_inputs_are_nearly_equal(dtype: mx.Dtype, secret: str) -> None:
    graph = graph_of(
        lambda a, b: mx.all(a == b, axis=-1), mx.zeros((64, 40), dtype), mx.zeros((64, 40), dtype)
    )
    cases = drawn(graph, secret)
    differing = [(a != b).sum(axis=1) for a, b in cases]
    assert any((d == 1).any() for d in differing)
    assert any((d == 2).any() for d in differing)
    pairs = [(a, b) for a, b in cases if (a[:, 0] != a[:, 1]).any()]
    orders = (np.arange(40)[::-1], np.roll(np.arange(40), 1), np.roll(np.arange(40), -1))
    for order in orders:
        alike = ((a[:, order] == b).all(axis=1) & (a != b).any(axis=1) for a, b in pairs)
        assert any(rows.any() for rows in alike)


@pytest.mark.parametrize("secret", SECRETS)
def test_every_bit_of_an_integer_differs_alone(secret: str) -> None:
    zeros = mx.zeros((512, 40), mx.int32)
    seen = set()
    for a, b in drawn(graph_of(lambda a, b: mx.all(a == b, axis=-1), zeros, zeros), secret):
        bits = np.asarray(a).view(np.uint32) ^ np.asarray(b).view(np.uint32)
        seen.update(bits[(bits != 0).sum(axis=1) == 1].max(axis=1).tolist())
    assert {1 << bit for bit in range(32)} <= seen


MATRICES: dict[str, Callable[[NDArray[np.float32], NDArray[np.float32]], bool]] = {
    "identity": lambda a, b: bool((a == np.eye(len(a))).all()),
    "diagonal": lambda a, b: bool(((a != 0) == np.eye(len(a), dtype=bool)).all() and a[0, 0] != 1),
    "upper": lambda a, b: bool(((a != 0) == np.triu(np.ones(a.shape, bool))).all()),
    "symmetric": lambda a, b: bool((a == a.T).all() and a[0, 1] != a[0, 2]),
    "skew": lambda a, b: bool((a == -a.T).all() and a[0, 1] != 0),
    "permutation": lambda a, b: bool(set(a.reshape(-1).tolist()) == {0, 1} and a[0, 0] != 1),
    "transposed": lambda a, b: bool((b == a.T).all() and (a != b).any()),
    "the same": lambda a, b: bool((b == a).all()),
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("name", MATRICES)
def test_square_matrices_have_each_structure(name: str, secret: str) -> None:
    graph = graph_of(lambda a, b: a @ b, mx.zeros((32, 32)), mx.zeros((32, 32)))
    cases = drawn(graph, secret)
    assert any(MATRICES[name](np.asarray(a, "f4"), np.asarray(b, "f4")) for a, b in cases)


@pytest.mark.parametrize(
    "weights", [(1 / 3, 1 / 3, 1 / 3), (0, 1, 0), (-1, 0, 1), (-1, 2, -1), (0.25, 0.5, 0.25)]
)
def test_short_filters_are_those_that_are_used(weights: tuple[float, ...]) -> None:
    graph = graph_of(
        lambda x, w: x[:-2] * w[0] + x[1:-1] * w[1] + x[2:] * w[2], mx.zeros(300), mx.zeros(3)
    )
    assert any(np.allclose(w, weights) for _, w in drawn(graph, "one"))


def test_structures_keep_to_what_a_task_may_be_given() -> None:
    graph = graph_of(lambda x, w: mx.log(x) * w, mx.zeros((40, 64)), mx.zeros(64))
    for x, _ in drawn(graph, "one"):
        numbers = np.asarray(x, np.float32)
        assert (numbers[~np.isnan(numbers)] > 0).all()


def test_large_shapes_cost_one_further_case() -> None:
    graph = graph_of(lambda x: mx.softmax(x, axis=-1), mx.zeros((1024, 1024)))
    assert len(drawn(graph, "one")) == 1
    assert structure_plan(graph_of(lambda x: x + 1, mx.zeros((8, 8)))).parts <= 40
    assert Case(graph, Distribution.STRUCTURED).part == 0


@pytest.mark.parametrize("length", [1, 2, 7, 33])
def test_special_rows_are_of_every_length(length: int) -> None:
    random = np.random.default_rng(0)

    made = [draw(12, length, random) for draw in (*REAL_ROWS, *SPECIAL_ROWS)]

    assert {rows.shape for rows in made} == {(12, length)}


def test_rows_of_nan_begin_or_end_anywhere() -> None:
    drawn = mixed_rows(SPECIAL_ROWS, 60, 64, np.random.default_rng(0))

    tails = [np.isnan(row[-1]) and np.isnan(row).sum() > 2 for row in drawn]

    assert any(tails)
