"""A graph is taken apart into MLX's steps once, however often a plan asks."""

import mlx.core as mx

from kernelwright.ir import canonicalize, capture
from kernelwright.plan.mlx.step import mlx_steps


def test_a_graph_that_holds_weights_is_taken_apart_once() -> None:
    weight = mx.ones((256, 256))
    graph = canonicalize(capture(lambda x: mx.mean(x @ weight, axis=-1), mx.zeros((2, 256))))
    assert mlx_steps(graph) is mlx_steps(graph)


def test_a_graph_that_mlx_runs_as_it_is_has_a_step_a_node() -> None:
    graph = canonicalize(capture(lambda x: mx.exp(x) + 1, mx.zeros((2, 4))))
    steps = mlx_steps(graph)
    assert steps.graph is graph
    assert steps.among(None) == set(range(len(graph.nodes)))
    assert steps.among((1,)) == {1}
