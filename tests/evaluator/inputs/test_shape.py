"""Shapes at which a program is judged and timed beside its task's own."""

import mlx.core as mx
import pytest

from kernelwright.evaluator.attacks.corpus import bases
from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.shape import (
    hidden_graphs,
    open_names,
    timed_graphs,
    visible_graphs,
)
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.ir.graph import Graph
from kernelwright.metal.kernel import Kernel, Program, Tensor
from kernelwright.metal.lower import lower
from kernelwright.metal.schedule import parse


@pytest.mark.parametrize("secret", ["a", "b", "c"])
def test_unseen_shapes_that_are_timed_are_somewhat_smaller_than_the_task(secret: str) -> None:
    graph = canonicalize(capture(lambda x: mx.softmax(x, -1), mx.zeros((4096, 64))))
    program = lower(graph, parse("rowwise(lanes=32, rows=4)"))
    config = EvaluatorConfig(secret=secret)
    rows = [g.input_types[0].shape[0] for g in timed_graphs(Task(graph, "task"), program, config)]
    assert len(rows) == 2
    assert all(0.4 * 4096 <= n < 4096 for n in rows)


def test_shapes_hang_on_the_secret() -> None:
    graph = canonicalize(capture(lambda x: mx.softmax(x, -1), mx.zeros((4096, 64))))
    program = lower(graph, parse("rowwise(lanes=32, rows=4)"))
    drawn = {
        tuple(
            g.fingerprint
            for g in timed_graphs(Task(graph, "task"), program, EvaluatorConfig(secret=s))
        )
        for s in "abcd"
    }
    assert len(drawn) == 4


def test_a_program_of_one_shape_is_timed_at_no_other() -> None:
    graph = canonicalize(capture(lambda x: mx.sum(x, 0), mx.zeros((4096, 64))))
    program = lower(graph, parse("column_split(chunks=16, strips=4)"))
    assert timed_graphs(Task(graph, "task"), program, EvaluatorConfig(secret="a")) == ()


def test_shapes_whose_every_step_is_large_stay_small_enough_to_judge() -> None:
    def masked(scores: mx.array, mask: mx.array) -> mx.array:
        return mx.softmax(mx.where(mask, scores, -1e4), axis=-1)

    arrays = (mx.zeros((8, 512, 512), mx.float16), mx.zeros((512, 512), mx.bool_))
    task = Task(canonicalize(capture(masked, *arrays)), "task")
    program = lower(task.graph, parse("rowwise(lanes=32, rows=4)"))
    config = EvaluatorConfig(secret="a")
    visible = visible_graphs(task, program, config)
    hidden = hidden_graphs(task, program, config)
    assert all(g.element_count <= config.generic_elements for g in (*visible, *hidden))
    batches = [g.input_types[0].shape[0] for g in visible]
    assert max(batches) > 8, "beyond the task's own"
    assert sum(n % 2 for n in batches) > len(batches) / 2
    assert len(hidden) > 1


@pytest.mark.parametrize("secret", ["a", "b", "c", "d"])
def test_every_residue_of_32_occurs_among_the_unseen_sizes_of_each_axis(secret: str) -> None:
    graph = canonicalize(capture(lambda x: mx.softmax(x, -1), mx.zeros((4096, 1024))))
    program = bases()["softmax"].program
    config = EvaluatorConfig(secret=secret)
    task = Task(graph, "task")
    first = hidden_graphs(task, program, config)
    second = hidden_graphs(task, program, config, again=True)
    for axis in range(2):
        sizes = [g.input_types[0].shape[axis] for g in (*first, *second)]
        assert len({n % 32 for n in sizes}) >= 30
        for suite in (first, second):
            assert {g.input_types[0].shape[axis] % 4 for g in suite} == {0, 1, 2, 3}


def test_sizes_reach_beyond_what_a_threadgroup_and_16_bits_hold() -> None:
    graph = canonicalize(capture(lambda x: mx.softmax(x, -1), mx.zeros((4096, 1024))))
    program = bases()["softmax"].program
    config, task = EvaluatorConfig(secret="a"), Task(graph, "task")
    visible = [g.input_types[0].shape for g in visible_graphs(task, program, config)]
    assert any(columns > 4096 for _, columns in visible)
    assert {1} <= {rows for rows, _ in visible} & {columns for _, columns in visible}
    hidden = [g.input_types[0].shape for g in hidden_graphs(task, program, config)]
    assert any(rows > 1 << 16 for rows, _ in hidden)
    assert any(columns > 300 for _, columns in hidden)


def _symbolic(graph: Graph, *shapes: tuple[str, ...]) -> Program:
    inputs = tuple(
        Tensor(name=f"x{place}", dtype=type_.dtype, shape=shape)
        for place, (type_, shape) in enumerate(zip(graph.input_types, shapes, strict=True))
    )
    output = Tensor(name="y", dtype=graph.output_types[0].dtype, shape=shapes[0])
    kernel = Kernel(
        name="k",
        inputs=tuple(tensor.name for tensor in inputs),
        outputs=("y",),
        source="y[thread_position_in_grid.x] = x0[thread_position_in_grid.x];",
        grid=("a*b", 1, 1),
        threadgroup=(32, 1, 1),
    )
    return Program(inputs=inputs, outputs=(output,), kernels=(kernel,))


def test_one_size_that_a_task_fixes_keeps_no_other_from_changing() -> None:
    def centred(x: mx.array) -> mx.array:
        return x - mx.sum(x, axis=-1, keepdims=True) * (1 / 48)

    graph = capture(centred, mx.zeros((16, 48)))
    task, program, config = Task(graph, "task"), _symbolic(graph, ("a", "b")), EvaluatorConfig()
    assert open_names(task, program) == ("a",)
    for graphs in (visible_graphs(task, program, config), hidden_graphs(task, program, config)):
        rows, columns = zip(*(g.input_types[0].shape for g in graphs), strict=True)
        assert len(set(rows)) >= config.generic_shapes
        assert set(columns) == {48}
    assert 48 in rows, "as many rows as columns"


def test_unseen_sizes_are_also_equal_and_alone() -> None:
    graph = canonicalize(capture(lambda x, w: mx.abs(x) * w, mx.zeros((16, 48)), mx.zeros((48,))))
    task, program = Task(graph, "task"), _symbolic(graph, ("a", "b"), ("b",))
    shapes = [g.input_types[0].shape for g in hidden_graphs(task, program, EvaluatorConfig())]
    assert any(rows == columns > 1 for rows, columns in shapes)
    assert any(min(shape) == 1 and max(shape) >= 300 for shape in shapes)


@pytest.mark.parametrize("secret", ["a", "b"])
def test_each_dimension_is_longer_than_16_bits_once(secret: str) -> None:
    program = bases()["softmax"].program
    graph = canonicalize(capture(lambda x: mx.softmax(x, -1), mx.zeros((9, 100))))
    hidden = hidden_graphs(Task(graph, "softmax"), program, EvaluatorConfig(secret=secret))
    shapes = [g.input_types[0].shape for g in hidden]
    assert any(rows > 1 << 16 and cols >= 3 for rows, cols in shapes)
    assert any(cols > 1 << 16 for _, cols in shapes)
