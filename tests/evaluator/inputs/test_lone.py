"""One extreme, or one flag, stands alone in each row: in all columns where there are few."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.lone import lone_parts
from kernelwright.evaluator.inputs.suite_plan import visible_cases
from kernelwright.evaluator.oracle.swept_rows import visible_sweeps
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.graph import Graph
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture

SECRETS = [f"secret {n}" for n in range(5)]


def graph_of(fn: Callable[[mx.array], mx.array], *arrays: mx.array) -> Graph:
    with mx.stream(mx.cpu):
        return canonicalize(capture(fn, *arrays))


def lone_cases(graph: Graph, secret: str) -> list[np.ndarray]:
    cases = visible_cases(graph, (), EvaluatorConfig(secret=secret))
    lone = [case.inputs(secret)[0] for case in cases if case.distribution is Distribution.LONE]
    tolerances = [Tolerance.of(t.dtype) for t in graph.output_types]
    for rows in visible_sweeps(graph, tolerances, secret):
        lone += [rows.swept.inputs(part)[0] for part in rows.parts]
    return [np.asarray(array) for array in lone]


def greatest(a: mx.array) -> mx.array:
    return mx.max(a, axis=-1)


def least(a: mx.array) -> mx.array:
    return mx.min(a, axis=-1)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.int32, mx.uint8], ids=str)
def test_extremes_stand_in_every_column(dtype: mx.Dtype, secret: str) -> None:
    for fn, place in ((greatest, np.argmax), (least, np.argmin)):
        drawn = lone_cases(graph_of(fn, mx.zeros((9, 100), dtype)), secret)
        assert {int(c) for rows in drawn for c in place(rows, axis=1)} == set(range(100))


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("lone", [True, False])
def test_lone_flags_stand_in_every_column(lone: bool, secret: str) -> None:
    graph = graph_of(
        lambda a: mx.any(a, axis=-1) if lone else mx.all(a, axis=-1),
        mx.zeros((9, 100), mx.bool_),
    )
    drawn = lone_cases(graph, secret)
    assert all(((rows == lone).sum(axis=1) == 1).all() for rows in drawn)
    assert {int(c) for rows in drawn for c in np.argmax(rows == lone, axis=1)} == set(range(100))


@pytest.mark.parametrize("secret", SECRETS)
def test_of_long_rows_both_ends_and_each_residue_are_met(secret: str) -> None:
    drawn = lone_cases(graph_of(greatest, mx.zeros((4, 16384))), secret)
    columns = {int(c) for rows in drawn for c in np.argmax(rows, axis=1)}
    assert {0, 16383} <= columns
    assert {c % 32 for c in columns} == set(range(32))


def test_other_axes_and_whole_arrays_are_swept() -> None:
    columns = graph_of(lambda a: mx.max(a, axis=0), mx.zeros((50, 10)))
    met = {int(c) for a in lone_cases(columns, "tests") for c in np.argmax(a, axis=0)}
    assert met == set(range(50))
    whole = graph_of(lambda a: mx.max(a), mx.zeros((4, 5)))
    assert {int(np.argmax(a)) for a in lone_cases(whole, "tests")} == set(range(20))


def test_tasks_that_compare_nothing_get_no_such_cases() -> None:
    assert not lone_parts(graph_of(lambda a: mx.sum(a, axis=-1), mx.zeros((9, 100))))


@pytest.mark.parametrize("secret", SECRETS)
def test_nearly_all_flags_of_a_row_are_set(secret: str) -> None:
    graph = graph_of(lambda a: mx.cumsum(a.astype(mx.int32), axis=-1), mx.zeros((4, 300), mx.bool_))
    (drawn,) = (np.asarray(a) for a in Case(graph, Distribution.ALTERNATING).inputs(secret))
    assert (drawn.sum(axis=1) == 299).all()
    assert not drawn[0, 0]
    assert not drawn[1, -1]


@pytest.mark.parametrize("secret", SECRETS)
def test_rounding_meets_the_neighbours_of_halves(secret: str) -> None:
    graph = graph_of(mx.round, mx.zeros((9, 100)))
    (drawn,) = Case(graph, Distribution.TIED).inputs(secret)
    assert np.isin(np.array([0.49999997, -0.49999997, 0.5], np.float32), np.asarray(drawn)).all()
