"""Floats that a task casts to indices stay within what they index."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.evaluate import Evaluator
from kernelwright.evaluator.evaluation import Stage
from kernelwright.evaluator.inputs.suite_plan import small_cases
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.ir.graph import Graph
from kernelwright.metal.lower import lower, schedules

_PLACES = 20


def interpolated(table: mx.array, times: mx.array) -> mx.array:
    low = times.astype(mx.int32)
    high = mx.minimum(low + 1, _PLACES - 1)
    share = times - low
    return table[low] * (1 - share) + share * table[high]


def graph_of(fn: Callable[[mx.array, mx.array], mx.array], dtype: mx.Dtype) -> Graph:
    with mx.stream(mx.cpu):
        arrays = (mx.zeros((_PLACES,), dtype), mx.zeros((48,), dtype))
        return canonicalize(capture(fn, *arrays))


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_every_kind_of_case_stays_within_the_table(dtype: mx.Dtype) -> None:
    cases = list(small_cases(graph_of(interpolated, dtype)))

    drawn = [case.inputs("secret")[1].astype(np.float64) for case in cases]

    assert all(((times >= 0) & (times < _PLACES)).all() for times in drawn)
    assert len({int(t) for times in drawn for t in times}) == _PLACES
    assert any((times != np.floor(times)).any() for times in drawn)


def test_a_table_that_is_read_between_its_places_is_judged() -> None:
    graph = graph_of(interpolated, mx.float32)
    config = EvaluatorConfig(secret="times", through=Stage.HIDDEN)
    with Evaluator("simulator", config) as evaluator:
        program = lower(graph, schedules(graph, evaluator.info)[0])
        found = evaluator.evaluate(Task(graph, "interpolated"), program)

    assert found.is_correct, found.summary
