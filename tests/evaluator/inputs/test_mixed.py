"""One case of all kinds: what its rows hold, and that no kind hangs on the secret."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.independence import independent_axes, rows_of
from kernelwright.evaluator.inputs.mixed import EVENTS, plan_of
from kernelwright.evaluator.inputs.suite_plan import hidden_cases, small_cases, visible_cases
from kernelwright.evaluator.inputs.value_domain import domains_of
from kernelwright.ir.graph import Graph
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture

SECRETS = [f"secret {n}" for n in range(20)]
CONFIG = EvaluatorConfig(secret="tests")


def graph_of(fn: Callable[..., object], *arrays: mx.array) -> Graph:
    with mx.stream(mx.cpu):
        return canonicalize(capture(fn, *arrays))


def softmax(x: mx.array) -> mx.array:
    return mx.softmax(x, axis=-1)


def normalized(x: mx.array, residual: mx.array, weight: mx.array) -> mx.array:
    return mx.fast.rms_norm(x + residual, weight, 1e-5)


def gated(gate: mx.array, up: mx.array) -> mx.array:
    return gate * mx.sigmoid(gate) * up


def column_sums(x: mx.array) -> mx.array:
    return mx.sum(x, axis=0)


def total(x: mx.array) -> mx.array:
    return mx.sum(x)


def product(x: mx.array, weight: mx.array) -> mx.array:
    return x @ weight


def regrouped(x: mx.array) -> mx.array:
    return mx.max(x.reshape(-1, x.shape[-1]), axis=-1)


@pytest.mark.parametrize(
    ("fn", "shapes", "axes"),
    [
        (softmax, [(6, 5, 40)], [(0, 1)]),
        (normalized, [(6, 40), (6, 40), (40,)], [(0,), (0,), (0,)]),
        (gated, [(6, 40), (6, 40)], [(0, 1), (0, 1)]),
        (column_sums, [(6, 40)], [(1,)]),
        (total, [(6, 40)], [()]),
        (product, [(6, 40), (40, 8)], [(0,), (1,)]),
        (regrouped, [(6, 5, 40)], [(0, 1)]),
    ],
)
def test_slices_stay_apart_along_the_axes_that_no_output_joins(
    fn: Callable[..., mx.array], shapes: list[tuple[int, ...]], axes: list[tuple[int, ...]]
) -> None:
    graph = graph_of(fn, *(mx.zeros(s) for s in shapes))
    assert [independent_axes(graph, place) for place in range(len(shapes))] == axes


def test_a_nan_in_a_row_reaches_no_other_row() -> None:
    graph = graph_of(normalized, mx.zeros((64, 40)), mx.zeros((64, 40)), mx.zeros((40,)))
    rows = rows_of(graph, 0)
    assert rows is not None
    assert (rows.count, rows.length) == (64, 40)


def test_an_array_that_is_read_by_elements_is_cut_into_segments() -> None:
    rows = rows_of(graph_of(gated, mx.zeros((4096,)), mx.zeros((4096,))), 0)
    assert rows is not None
    assert rows.count >= 64


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_one_case_holds_every_kind_for_every_input(secret: str, dtype: mx.Dtype) -> None:
    graph = graph_of(gated, mx.zeros((300, 70), dtype), mx.zeros((300, 70), dtype))
    plan = plan_of(graph)
    assert plan.parts == 1
    assert {e.kind for e in plan.events if e.focus == 1} == set(EVENTS)
    one, other = (a.astype(np.float32) for a in Case(graph, Distribution.MIXED).inputs(secret))
    for x in (one, other):
        assert (np.isnan(x) & np.signbit(x)).any(), "a negative NaN"
        assert (np.isnan(x) & ~np.signbit(x)).any(), "a positive NaN"
        assert np.isposinf(x[:, 0]).any(), "an infinity at the start of a row"
        assert np.isneginf(x[:, -1]).any(), "an infinity at the end of a row"
        assert np.isneginf(x).all(axis=1).any(), "a row that is masked"
        assert (np.signbit(x) & (x == 0)).all(axis=1).any(), "a row of negative zeros"
        assert ((x == 0) & ~np.signbit(x)).all(axis=1).any(), "a row of zeros"
        assert (np.abs(np.where(np.isfinite(x), x, 0)).max(axis=1) > 6e4).any()
        assert ((x[:, 1:] == x[:, :-1]).all(axis=1) & np.isfinite(x[:, 0])).any(), "constant"
    finite = np.isfinite(one).all(axis=1) & (one != 0).any(axis=1)
    assert (finite & (one == other).all(axis=1)).any(), "equal rows"
    assert (finite & (one == -other).all(axis=1)).any(), "opposite rows"
    assert (np.isposinf(one) & np.isneginf(other)).any()
    assert (np.isnan(one) & np.isfinite(other)).any()
    assert ((one == 0) & (other == 0)).any()


@pytest.mark.parametrize("secret", SECRETS[:5])
def test_neighbours_are_one_step_apart(secret: str) -> None:
    graph = graph_of(gated, mx.zeros((400, 70)), mx.zeros((400, 70)))
    one, other = Case(graph, Distribution.MIXED).inputs(secret)
    steps = one.view(np.int32).astype(np.int64) - other.view(np.int32)
    assert (steps == 1).all(axis=1).any()
    assert (steps == -1).all(axis=1).any()


@pytest.mark.parametrize("secret", SECRETS[:5])
def test_the_last_row_of_a_mixed_case_is_special_and_the_one_before_ordinary(secret: str) -> None:
    x = Case(graph_of(softmax, mx.zeros((300, 70))), Distribution.MIXED).inputs(secret)[0]
    assert np.isnan(x[-1]).any()
    assert np.isfinite(x[-2]).all()


@pytest.mark.parametrize("secret", SECRETS[:5])
def test_what_vectors_leave_over_is_special_in_each_input(secret: str) -> None:
    graph = graph_of(gated, mx.zeros((300003,)), mx.zeros((300003,)))
    one, other = Case(graph, Distribution.MIXED).inputs(secret)
    assert np.isnan(one[-1])
    assert np.isnan(other[-2])
    assert np.isposinf(one[-3])
    assert np.isneginf(other[-6])


def test_few_rows_take_the_kinds_in_several_cases() -> None:
    graph = graph_of(softmax, mx.zeros((9, 100)))
    plan = plan_of(graph)
    assert plan.parts > 1
    seen = {event for part in range(plan.parts) for event in plan.events_of(part)}
    assert seen == set(plan.events)
    mixed = [c for c in small_cases(graph) if c.distribution is Distribution.MIXED]
    assert len(mixed) == plan.parts


@pytest.mark.parametrize("secret", SECRETS[:3])
def test_every_input_meets_a_nan_and_a_row_of_zeros_in_some_case(secret: str) -> None:
    graph = graph_of(normalized, mx.zeros((9, 40)), mx.zeros((9, 40)), mx.zeros((40,)))
    drawn = [case.inputs(secret) for case in small_cases(graph)]
    for place in range(3):
        assert any(np.isnan(inputs[place].astype(float)).any() for inputs in drawn)
        assert any(np.isposinf(inputs[place].astype(float)).any() for inputs in drawn)
        assert any((inputs[place] == 0).mean() > 0.2 for inputs in drawn)
        assert any(np.abs(inputs[place]).max() > 1e14 for inputs in drawn)


def test_a_weight_that_all_rows_read_is_special_in_a_few_columns_of_a_large_case() -> None:
    graph = graph_of(normalized, mx.zeros((512, 1024)), mx.zeros((512, 1024)), mx.zeros((1024,)))
    cases = visible_cases(graph, (), CONFIG)
    assert len(cases) <= 3
    weight = cases[0].inputs("a")[2]
    assert np.isnan(weight).sum() == 1
    assert np.isfinite(weight).mean() > 0.99


def test_what_a_mask_hides_is_not_finite() -> None:
    def masked(x: mx.array, keep: mx.array) -> mx.array:
        return mx.where(keep, x, 0)

    graph = graph_of(masked, mx.zeros((40, 30)), mx.zeros((40, 30), mx.bool_))
    x, keep = Case(graph, Distribution.BEHIND_MASK).inputs("a")
    is_kept = keep.astype(bool)
    assert np.isnan(x[~is_kept]).any()
    assert np.isfinite(x[is_kept]).all()


@pytest.mark.parametrize(("kind", "end"), [(Distribution.ZERO, 0), (Distribution.EXTREME, 1)])
def test_integers_reach_both_ends_of_what_cannot_overflow(kind: Distribution, end: int) -> None:
    graph = graph_of(lambda x: mx.maximum(x, 3), mx.zeros((9, 40), mx.int32))
    drawn = Case(graph, kind).inputs("a")[0]
    assert set(drawn.flat) == {(-(2**31), 2**31 - 1)[end]}


def test_no_flag_is_set_or_every_one() -> None:
    graph = graph_of(lambda x: mx.any(x, axis=-1), mx.zeros((9, 40), mx.bool_))
    assert not Case(graph, Distribution.ZERO).inputs("a")[0].any()
    assert Case(graph, Distribution.EXTREME).inputs("a")[0].all()


def test_a_sum_meets_its_constant() -> None:
    graph = graph_of(lambda x: 1 / (x + 1), mx.zeros((20, 30)))
    assert -1.0 in Case(graph, Distribution.MIXED).inputs("a")[0]


def test_terms_of_a_sum_are_small_enough_for_any_order() -> None:
    graph = graph_of(lambda x: mx.sum(x * x, axis=-1), mx.zeros((90, 300)))
    x = Case(graph, Distribution.EXTREME).inputs("a")[0]
    assert 1e14 < np.abs(x).max() < 1e16


def smoothed(x: mx.array, w: mx.array) -> mx.array:
    return x[1:] * w[0] + x[:-1] * w[1]


@pytest.mark.parametrize(
    ("fn", "shapes", "overflows"),
    [
        (smoothed, [(40, 9), (2, 9)], True),
        (gated, [(40, 9), (40, 9)], False),
        (softmax, [(40, 9)], False),
        (normalized, [(40, 9), (40, 9), (9,)], True),
    ],
)
def test_what_overflows_only_on_the_way_is_known(
    fn: Callable[..., mx.array], shapes: list[tuple[int, ...]], overflows: bool
) -> None:
    graph = graph_of(fn, *(mx.zeros(s) for s in shapes))
    assert domains_of(graph)[0].is_summed is overflows


def test_few_rows_of_a_larger_shape_take_most_ordinary_kinds_where_some_see_them() -> None:
    graph = graph_of(softmax, mx.zeros((4, 90_000)))
    plan, config = plan_of(graph), EvaluatorConfig()
    parts = [
        case.part
        for case in (*visible_cases(graph, (), config), *hidden_cases(graph, (), config))
        if case.distribution is Distribution.MIXED
    ]
    assert parts == list(range(len(parts)))
    assert len(parts) >= plan.parts_of_all
