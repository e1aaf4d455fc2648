"""Where weights of a softmax fade, values of every size show those that are cut off."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.independence import weighted_input
from kernelwright.evaluator.inputs.suite_plan import visible_cases
from kernelwright.evaluator.oracle.reference import judge, prepare
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture

Floats = NDArray[np.float32]
HEADS, QUERIES, KEYS, FEATURES = 8, 6, 33, 16


def attention(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.25)


def written_out(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    return mx.softmax(0.25 * (q @ k.swapaxes(-1, -2)), axis=-1) @ v


def task_of(
    function: Callable[..., mx.array], dtype: mx.Dtype, heads: int = HEADS, keys: int = KEYS
) -> Task:
    q = mx.zeros((1, heads, QUERIES, FEATURES), dtype)
    k = mx.zeros((1, heads, keys, FEATURES), dtype)
    return Task(canonicalize(capture(function, q, k, k)), "attention")


def attended(arrays: list[Floats], cut: Callable[[Floats], Floats]) -> Floats:
    q, k, v = arrays
    scores = np.float32(0.25) * (q @ k.swapaxes(-1, -2))
    weights = cut(np.exp(scores - scores.max(axis=-1, keepdims=True)))
    is_infinite = np.isinf(v).any(axis=-2, keepdims=True)
    found = (weights @ np.where(np.isinf(v), np.float32(0), v)) / weights.sum(-1, keepdims=True)
    return np.where(is_infinite, np.float32(np.inf), found)


@pytest.mark.parametrize("function", [attention, written_out])
def test_the_input_that_is_weighted_is_found(function: Callable[..., mx.array]) -> None:
    graph = task_of(function, mx.float32).graph
    assert weighted_input(graph) == 2
    kinds = {case.distribution for case in visible_cases(graph, (), EvaluatorConfig())}
    assert Distribution.FADING in kinds


def test_a_softmax_alone_weighs_nothing() -> None:
    graph = canonicalize(capture(lambda x: mx.softmax(x, axis=-1) * x, mx.zeros((8, 40))))
    assert weighted_input(graph) is None
    kinds = {case.distribution for case in visible_cases(graph, (), EvaluatorConfig())}
    assert Distribution.FADING not in kinds


@pytest.mark.parametrize("secret", ["a", "b", "c", "d"])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
@pytest.mark.parametrize("function", [attention, written_out])
def test_weights_that_are_cut_off_are_wrong(
    function: Callable[..., mx.array], dtype: mx.Dtype, secret: str
) -> None:
    task = task_of(function, dtype)
    one = prepare(Case(task.graph, Distribution.FADING), task.output_tolerances, secret)
    arrays = [array.astype(np.float32) for array in one.inputs]
    rounded = task.graph.output_types[0].dtype.numpy

    def passes(cut: Callable[[Floats], Floats]) -> bool:
        found = attended(arrays, cut).astype(rounded)
        return judge(one, [found])[0].is_acceptable

    assert passes(lambda weights: weights)
    assert not passes(lambda weights: np.where(weights < 1e-7, np.float32(0), weights))
    assert not passes(lambda weights: weights.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("secret", list(map(str, range(24))))
def test_few_keys_show_weights_of_halves(secret: str) -> None:
    task = task_of(attention, mx.bfloat16, heads=2, keys=9)
    cases = visible_cases(task.graph, (), EvaluatorConfig())
    fading = [case for case in cases if case.distribution is Distribution.FADING]
    passed = []
    for case in fading:
        one = prepare(case, task.output_tolerances, secret)
        arrays = [array.astype(np.float32) for array in one.inputs]
        found = attended(arrays, lambda weights: weights.astype(np.float16).astype(np.float32))
        rounded = found.astype(task.graph.output_types[0].dtype.numpy)
        passed.append(judge(one, [rounded])[0].is_acceptable)
    assert not all(passed)


def test_the_last_of_the_weighted_rows_may_not_be_read_twice_without_weight() -> None:
    task = task_of(attention, mx.float32)
    one = prepare(Case(task.graph, Distribution.FADING), task.output_tolerances, "a")
    arrays = [np.asarray(array, np.float32) for array in one.inputs]
    right = attended(arrays, lambda weights: weights)
    # No weight times an infinity.
    padded = np.where(np.isinf(right), np.float32(np.nan), right)
    assert np.isinf(arrays[2][..., -1, :]).sum() == HEADS
    assert judge(one, [right])[0].is_acceptable
    assert not judge(one, [padded])[0].is_acceptable
