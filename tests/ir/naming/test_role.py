"""Regions keep the names that people gave, and have roles where nobody gave one."""

from dataclasses import replace

import mlx.core as mx
from mlx.nn.layers.normalization import RMSNorm

from kernelwright.ir import Graph, canonicalize, capture
from kernelwright.ir.trace.capture import capture_labelled
from kernelwright.plan import partition

X = mx.zeros((4, 64))
NORM = RMSNorm(64)
SHIFT = mx.ones((64,), mx.bfloat16)


def names(graph: Graph) -> list[tuple[str, ...]]:
    return [region.extract().names for region in partition(graph)]


def test_parameters_keep_their_names() -> None:
    graph = canonicalize(capture(lambda gate, up: mx.sigmoid(gate) * up, X, X))
    assert names(graph) == [("gate", "up")]


def test_what_nobody_named_has_its_role() -> None:
    graph = canonicalize(capture(lambda x: NORM(x @ x.T @ x) * 2, X))
    assert names(graph) == [("x", "weight")]


def test_names_identify_nothing_and_are_distinct() -> None:
    graph = canonicalize(capture(lambda x, y: mx.tanh(x) * y, X, X))
    (region,) = partition(replace(graph, names=("x", "x")))
    assert region.extract().names == ("x", "x_2")
    assert region.extract().fingerprint == region.bare().fingerprint == graph.fingerprint


def test_captured_arrays_keep_the_names_by_which_the_function_reads_them() -> None:
    scale = mx.full((64,), 3.0)

    def film(x: mx.array, gain: mx.array = SHIFT * 2, *, bias: mx.array = SHIFT * 3) -> mx.array:
        return mx.tanh(x * gain) * scale + bias * SHIFT

    graph = canonicalize(capture_labelled(film, (X,), {}))
    (found,) = names(graph)
    assert set(found) == {"x", "gain", "bias", "scale", "SHIFT"}
