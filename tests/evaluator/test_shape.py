"""Shapes at which a program is judged and timed beside its task's own."""

import mlx.core as mx
import pytest

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.shape import hidden_graphs, timed_graphs
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
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
    hidden = hidden_graphs(Task(graph, "task"), program, config)
    assert max(g.input_types[0].shape[0] for g in hidden) < 400


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
