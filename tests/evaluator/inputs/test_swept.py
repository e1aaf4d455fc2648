"""Whatever place of a reduction a program ignores is once the place that decides."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Stage, Status
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.oracle.swept_rows import hidden_sweeps, named_sweeps, visible_sweeps
from kernelwright.evaluator.task import Task, Tolerance
from kernelwright.ir.graph import Graph
from kernelwright.ir.passes import canonicalize
from kernelwright.ir.trace.capture import capture
from kernelwright.metal.kernel import Kernel, Program, Tensor

EXACT = (Tolerance(0.0, 0.0),)


def graph_of(fn: Callable[..., mx.array], *arrays: mx.array) -> Graph:
    with mx.stream(mx.cpu):
        return canonicalize(capture(fn, *arrays))


def greatest(a: mx.array) -> mx.array:
    return mx.max(a, axis=-1)


def program(graph: Graph, compared: str) -> Program:
    """Compute a row's maximum with a simdgroup, of the columns `c` for which `compared` holds."""
    (rows, columns), dtype = graph.input_types[0].shape, graph.input_types[0].dtype
    source = f"""
        uint row = threadgroup_position_in_grid.x;
        uint lane = thread_index_in_simdgroup;
        float most = -INFINITY;
        bool has_nan = false;
        for (uint c = lane; c < {columns}; c += 32) {{
            float value = a[row * {columns} + c];
            has_nan = has_nan || metal::isnan(value);
            if ({compared}) most = metal::max(most, value);
        }}
        most = simd_max(most);
        if (simd_any(has_nan)) most = NAN;
        if (lane == 0) o[row] = most;
    """
    return Program(
        inputs=(Tensor(name="a", dtype=dtype, shape=(rows, columns)),),
        outputs=(Tensor(name="o", dtype=dtype, shape=(rows,)),),
        kernels=(
            Kernel(
                name="row_max",
                inputs=("a",),
                outputs=("o",),
                source=source,
                grid=(32 * rows, 1, 1),
                threadgroup=(32, 1, 1),
            ),
        ),
    )


@pytest.mark.parametrize("secret", ["one", "two"])
@pytest.mark.parametrize(
    "compared",
    ["c != 1234", "c * 3 + 1 != 3703", "!(row == 5 && c == 77)", "c / 4 != 700", "c != 4095"],
)
@pytest.mark.sampled(5)
def test_a_maximum_that_ignores_a_place_is_wrong(compared: str, secret: str) -> None:
    graph = graph_of(greatest, mx.zeros((8, 4096)))
    with Evaluator(config=EvaluatorConfig(secret=secret, through=Stage.CORRECTNESS)) as evaluator:
        found = evaluator.evaluate(Task(graph, "max"), program(graph, compared))
    assert found.status is Status.WRONG


def test_a_column_of_a_longer_row_is_missed_at_the_hidden_gate_at_the_latest() -> None:
    graph = graph_of(greatest, mx.zeros((4, 16384), mx.float16))
    with Evaluator(config=EvaluatorConfig(secret="s", through=Stage.HIDDEN)) as evaluator:
        wrong = evaluator.evaluate(Task(graph, "max"), program(graph, "c * 3 + 1 != 37036"))
        right = evaluator.evaluate(Task(graph, "max"), program(graph, "true"))
    assert wrong.status in (Status.WRONG, Status.UNPROVEN)
    assert right.is_correct, right.summary


def test_each_element_decides_once_where_that_is_cheap() -> None:
    graph = graph_of(greatest, mx.zeros((5, 40)))
    met = {
        (row, int(column))
        for sweep in (*visible_sweeps(graph, EXACT, "s"),)
        for part in (0, 1, *sweep.parts)
        for row, column in enumerate(np.argmax(np.asarray(sweep.swept.inputs(part)[0]), axis=1))
    }
    assert len(met) == 5 * 40


def test_each_column_decides_at_the_hidden_gate() -> None:
    graph = graph_of(greatest, mx.zeros((4, 6000)))
    (sweep,) = hidden_sweeps(graph, EXACT, "s")
    parts = (0, 1, *sweep.parts)
    met = {
        int(column)
        for part in parts
        for column in np.argmax(np.asarray(sweep.swept.inputs(part)[0]), axis=1)
    }
    assert met == set(range(6000))


def test_columns_that_a_text_names_decide_in_every_row() -> None:
    graph = graph_of(greatest, mx.zeros((1024, 1024)))
    (sweep,) = named_sweeps(graph, EXACT, "s", (777,))
    decided = [np.argmax(np.asarray(sweep.swept.inputs(p)[0]), axis=1) for p in sweep.parts]
    assert any((columns == 777).all() for columns in decided)


def test_a_part_is_the_case_of_its_number() -> None:
    graph = graph_of(
        lambda a, b: mx.any(a, -1) & mx.all(b > 0, -1),
        *(
            mx.zeros((3, 90), mx.bool_),
            mx.zeros((3, 90)),
        ),
    )
    sweeps = visible_sweeps(graph, EXACT, "s")
    assert len(sweeps) == 2
    for sweep in sweeps:
        part = sweep.parts[3]
        drawn = Case(graph, Distribution.LONE, part=part).inputs("s")
        moved = list(sweep.inputs)
        for moves in sweep.moves:
            moved[moves.place] = moves.applied(moved[moves.place], 3)
        assert all((a == b).all() for a, b in zip(drawn, moved, strict=True))


def test_least_numbers_are_swept_where_inputs_are_positive() -> None:
    graph = graph_of(lambda a: mx.min(mx.log(a), axis=-1), mx.zeros((2, 50)))
    inputs = [Case(graph, Distribution.LONE, part=p).inputs("s")[0] for p in range(50)]
    assert {int(c) for a in inputs for c in np.argmin(np.asarray(a), axis=1)} == set(range(50))
