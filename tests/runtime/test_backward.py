"""Gradients run searched kernels where the store has some, and are MLX's own elsewhere."""

from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.ir.graph import Graph
from kernelwright.runtime.optimize import Optimized, optimize
from tests.runtime.test_optimize import arrays, crown, gated


@pytest.fixture
def url(tmp_path: Path) -> str:
    path = str(tmp_path / "kernels.db")
    crown(path, gated, *arrays())
    return path


def gradients(function: Callable[..., object]) -> list[mx.array]:
    def loss(x: mx.array, gate: mx.array) -> mx.array:
        return mx.sum(mx.square(function(x, gate)))  # type: ignore[arg-type]

    return list(mx.grad(loss, argnums=(0, 1))(*arrays()))


def optimized(url: str) -> Optimized:
    made = optimize(gated, store=url, device="simulator")
    assert isinstance(made, Optimized)
    return made


def test_a_gradient_without_kernels_is_mlxs_own_and_wanted(url: str) -> None:
    fast = optimized(url)
    for found, expected in zip(gradients(fast), gradients(gated), strict=True):
        assert mx.allclose(found, expected).item()
    told = fast.explain(*arrays())
    assert told.path == "kernels"
    assert told.gradient == "MLX's own: no fresh champion fits these shapes and dtypes"
    (wanted,) = fast.wanted()
    assert (wanted.function, wanted.inputs) == ("gated.vjp", ("f32[4,64]",) * 3)


def test_a_gradient_that_was_searched_runs_kernels(url: str) -> None:
    fast = optimized(url)
    gradients(fast)
    graph = Graph.from_json(fast.wanted()[0].graph_json)
    crown(url, lambda *given: ir.interpret(graph, *given), *arrays(), mx.zeros((4, 64)))
    again = optimized(url)
    for found, expected in zip(gradients(again), gradients(gated), strict=True):
        assert mx.allclose(found, expected, rtol=1e-4, atol=1e-5).item()
    assert "regions run kernels" in str(again.explain(*arrays())).splitlines()[-1]
    assert again.wanted() == ()
