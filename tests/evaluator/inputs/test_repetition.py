"""Very large cases hold as many different rows as tell right from wrong, many times each."""

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.inputs import repetition
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.layout import Layout
from kernelwright.evaluator.oracle import block_analysis, row_blocks
from kernelwright.evaluator.oracle.reference import prepare
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.ir.graph import Graph

ROWS, COLUMNS, BLOCK = 1003, 8, 10
SECRET = "tests"


@pytest.fixture(autouse=True)
def few_elements_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "_BLOCK_ELEMENTS", BLOCK * COLUMNS)
    monkeypatch.setattr(repetition, "_DISTINCT_ELEMENTS", 20 * BLOCK * COLUMNS)


def scaled() -> Graph:
    arrays = mx.zeros((ROWS, COLUMNS)), mx.zeros((COLUMNS,))
    return canonicalize(capture(lambda x, w: mx.softmax(x, axis=-1) * w, *arrays))


@pytest.mark.parametrize("kind", [Distribution.MIXED, Distribution.NORMAL])
@pytest.mark.parametrize("layout", [Layout.DENSE, Layout.VARIED])
def test_rows_repeat_in_whole_blocks(kind: Distribution, layout: Layout) -> None:
    graph = scaled()
    x, w = Case(graph, kind, layout).inputs(SECRET)
    assert x.shape == (ROWS, COLUMNS)
    assert w.shape == (COLUMNS,)
    blocks = {x[i : i + BLOCK].tobytes() for i in range(0, ROWS - BLOCK, BLOCK)}
    assert len(blocks) == 20


def test_neighbours_differ_wherever_an_index_overflows() -> None:
    x, _ = Case(scaled(), Distribution.NORMAL).inputs(SECRET)
    for shift in (64, 256, 512):
        assert (x[shift:] != x[:-shift]).any(axis=1).mean() > 0.8


def test_another_secret_draws_other_rows_in_another_order() -> None:
    case = Case(scaled(), Distribution.NORMAL)
    one, _ = case.inputs(SECRET)
    again, _ = case.inputs(SECRET)
    other, _ = case.inputs("other")
    assert np.array_equal(one, again)
    assert not (one == other).all(axis=1).any()


def test_rows_that_depend_on_each_other_are_all_drawn() -> None:
    graph = canonicalize(capture(lambda x: mx.cumsum(x, axis=0), mx.zeros((ROWS, COLUMNS))))
    (x,) = Case(graph, Distribution.NORMAL).inputs(SECRET)
    assert len(np.unique(x[:, 0])) > 0.99 * ROWS


def test_repeated_blocks_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = scaled()
    whole = block_analysis._whole
    graphs = list[Graph]()

    def counted(part: Graph, *others: object) -> object:
        graphs.append(part)
        return whole(part, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(block_analysis, "_whole", counted)
    case, tolerances = Case(graph, Distribution.NORMAL), Task(graph, "t").output_tolerances
    repeated = prepare(case, tolerances, SECRET)
    assert len(graphs) == 21
    (wanted,) = repeated.expected_outputs
    monkeypatch.setattr(row_blocks, "_BLOCK_ELEMENTS", 1 << 17)
    (plain,) = block_analysis.analyse_in_blocks(graph, repeated.inputs, tolerances)
    np.testing.assert_array_equal(wanted.rounded, plain.rounded)
