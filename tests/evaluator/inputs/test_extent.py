"""Further shapes are held to what lies between inputs and outputs as well."""

import mlx.core as mx
import pytest

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.extent import extent_of
from kernelwright.evaluator.inputs.shape import hidden_graphs, visible_graphs
from kernelwright.evaluator.task import Task
from kernelwright.ir import canonicalize, capture
from kernelwright.ir.passes import gather_attention
from kernelwright.metal.lower import lower
from kernelwright.metal.schedule import parse


def attend(query: mx.array, key: mx.array, value: mx.array) -> mx.array:
    return mx.fast.scaled_dot_product_attention(query, key, value, scale=0.125)


def pairwise(x: mx.array) -> mx.array:
    return mx.sum(mx.square(x[:, None] - x), axis=-1)


@pytest.mark.parametrize("secret", ["a", "b", "c"])
def test_scores_that_are_quadratic_in_a_size_keep_it_small(secret: str) -> None:
    """Four thousand queries of eight heads took 20 GB, and minutes of every kernel."""
    heads = [mx.zeros((1, 8, 64, 64))] * 3
    graph = gather_attention(canonicalize(capture(attend, *heads)))
    program = lower(graph, parse("prefill(rows=1, simdgroups=2, keys=32, fixed=0, ahead=0)"))
    config = EvaluatorConfig(secret=secret)
    visible = visible_graphs(Task(graph, "task"), program, config)
    hidden = hidden_graphs(Task(graph, "task"), program, config)
    assert all(extent_of(g) <= config.generic_elements for g in (*visible, *hidden))
    assert max(g.input_types[0].shape[2] for g in visible) > 256


def test_an_extent_counts_what_is_largest_on_the_way() -> None:
    heads = [mx.zeros((1, 2, 500, 16))] * 3
    scores = extent_of(gather_attention(canonicalize(capture(attend, *heads))))
    assert scores >= 2 * 500 * 500
    differences = extent_of(canonicalize(capture(pairwise, mx.zeros((500, 16)))))
    assert differences == 500 * 500 * 16
    plain = canonicalize(capture(lambda x: mx.softmax(x, -1), mx.zeros((500, 16))))
    assert extent_of(plain) == plain.element_count


def test_memory_is_asked_for_what_lies_on_the_way() -> None:
    graph = canonicalize(capture(pairwise, mx.zeros((500, 16))))
    assert Case(graph, Distribution.NORMAL).work_bytes >= 8 * 500 * 500 * 16
