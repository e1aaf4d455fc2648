"""Regions go by what the user's source calls their results."""

import sys
from collections.abc import Callable
from dataclasses import make_dataclass, replace
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import (
    Graph,
    canonicalize,
    capture,
    capture_labelled,
    gather_attention,
    region_names,
    shared_name,
)
from kernelwright.plan import partition
from tests.ir.naming.styles import Layer, Model, Scaler, branches, turned

Function = Callable[..., object]


def names_of(function: Function, *arrays: object, **keywords: object) -> tuple[str, ...]:
    graph = gather_attention(canonicalize(capture_labelled(function, arrays, keywords)))
    return region_names(graph, partition(graph))


def square() -> mx.array:
    return mx.array(np.random.default_rng(0).normal(size=(16, 16)).astype(np.float32))


def line_in(function: Function, offset: int) -> str:
    return f"line {function.__code__.co_firstlineno + offset}"


def test_a_result_of_a_call_goes_by_the_call_and_its_arguments() -> None:
    def scores(q: mx.array, k: mx.array) -> mx.array:
        return turned(q) @ turned(k).T

    assert names_of(scores, square(), square()) == ("turned(q)", "turned(k)")


def test_a_result_goes_by_its_variable() -> None:
    def gated(x: mx.array, w: mx.array) -> mx.array:
        gate = mx.sigmoid(x) * x + 1
        mixed = gate @ w
        return mx.exp(mixed) * gate

    assert names_of(gated, square(), square())[0] == "gate"


def test_variables_that_are_given_again_go_by_their_lines() -> None:
    def rebound(x: mx.array, w: mx.array) -> mx.array:
        x = mx.tanh(x) * 2
        x = x @ w
        x = mx.tanh(x) * 2 + 1
        return x @ w

    expected = (f"x {line_in(rebound, 1)}", f"x {line_in(rebound, 3)}")
    assert names_of(rebound, square(), square()) == expected


def test_a_part_of_an_expression_goes_by_its_line() -> None:
    def chained(x: mx.array, w: mx.array) -> mx.array:
        return mx.softmax(x * 2 + 1, axis=-1) @ w * mx.sigmoid(x @ w)

    line = line_in(chained, 1)
    assert names_of(chained, square(), square()) == (f"softmax {line}", f"result {line}")


def test_layers_of_a_module_go_by_their_paths() -> None:
    assert names_of(Model(16), square()) == (
        "layer 0 · norm",
        "layer 0 · mlp · input of down",
        "layer 0",
        "layer 1 · mlp · input of down",
        "layer 1",
    )


def test_what_all_regions_are_within_is_not_repeated() -> None:
    block = Layer(16)

    def wrapped(x: mx.array) -> mx.array:
        return block(x)

    assert names_of(wrapped, square()) == ("norm", "mlp · input of down", "block")


def test_decorators_comprehensions_and_nested_functions_are_seen_through() -> None:
    names = names_of(branches, square(), square())
    assert {"closing(first)", "closing(second)"} <= set(names)
    assert sum(name.startswith("swish(part)") for name in names) == 2
    assert not any("wrapper" in name or "listcomp" in name for name in names)
    assert len(set(names)) == len(names)


def test_methods_and_containers_have_names() -> None:
    names = names_of(Scaler(square()).run, square())
    assert names[0] == "scaled(x), pair.right"


@pytest.mark.parametrize(
    "kind",
    [
        NamedTuple("Both", [("left", mx.array), ("right", mx.array)]),
        make_dataclass("Both", ["left", "right"]),
    ],
)
def test_fields_of_a_result_go_by_their_names(kind: Function) -> None:
    def split(x: mx.array, w: mx.array) -> object:
        return kind(mx.softmax(x * 2, axis=-1), right=mx.softmax(w * x.T, axis=0))

    assert names_of(split, square(), square()) == ("left", "right")


def test_several_regions_of_a_statement_are_told_apart() -> None:
    def same(x: mx.array, w: mx.array) -> mx.array:
        return mx.tanh(mx.tanh(mx.tanh(x * 2 + 1) @ w * 3) @ w) * 3 - x

    line = line_in(same, 1)
    assert names_of(same, square(), square()) == (
        f"input of matmul {line} #1",
        f"input of matmul {line} #2",
        f"result {line}",
    )


def test_a_graph_without_labels_goes_by_what_it_computes_of_what() -> None:
    def soup(x: mx.array, w: mx.array) -> mx.array:
        y = mx.exp(x + 1) * mx.cos(x) - mx.sin(x)
        return mx.softmax(y @ w * 2, axis=-1)

    graph = gather_attention(canonicalize(capture(soup, square(), square())))
    assert region_names(graph, partition(graph)) == ("elementwise(x)", "softmax(x)")


def _same_graph(function: Function, *arrays: object) -> tuple[Graph, Graph]:
    return (
        canonicalize(capture(function, *arrays)),
        canonicalize(capture_labelled(function, arrays, {})),
    )


@pytest.mark.parametrize("function", [turned, branches], ids=["turned", "branches"])
def test_labels_change_no_graph(function: Function) -> None:
    arrays = [square()] if function is turned else [square(), square()]
    plain, labelled = _same_graph(function, *arrays)
    assert plain == labelled
    # It keeps in what nest results were returned, too, which is no part of what is computed.
    assert plain.to_json() == replace(labelled, results=None).to_json()
    assert plain.fingerprint == labelled.fingerprint


def test_a_value_that_cannot_be_exported_costs_only_the_names() -> None:
    def with_vmap(x: mx.array) -> mx.array:
        def row(r: mx.array) -> mx.array:
            half = r * 0.5
            return mx.exp(half) * r

        unused = ~x.astype(mx.int32)
        return mx.vmap(row)(x) + (unused.shape[0])

    plain, labelled = _same_graph(with_vmap, square())
    assert plain == labelled


def test_a_function_is_traced_once() -> None:
    calls: list[int] = []

    def counted(x: mx.array) -> mx.array:
        calls.append(1)
        # A number would be an array of its own, as one without values elsewhere may be.
        y = mx.exp(x) * x
        return y + x

    capture_labelled(counted, [square()], {})
    assert len(calls) == 1


def test_the_user_s_own_tracer_stays() -> None:
    def tracer(frame: object, event: str, arg: object) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        capture_labelled(turned, [square()], {})
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


@pytest.mark.parametrize(
    ("names", "shared"),
    [
        (["layer 0 · mlp", "layer 1 · mlp", "layer 2 · mlp"], "layer 0–2 · mlp"),
        (["layer 0 · mlp", "layer 2 · mlp"], "layer 0, 2 · mlp"),
        (["norm", "norm line 4"], "norm"),
        (["rope(q)", "rope(k)"], "rope(q)"),
        (["x1 line 4"], "x1 line 4"),
    ],
)
def test_regions_that_are_alike_share_a_name(names: list[str], shared: str) -> None:
    assert shared_name(names) == shared
