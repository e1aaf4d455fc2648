"""Passes keep every bit, keep graphs valid, and reach the forms that they promise."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings

from kernelwright import ir
from kernelwright.errors import InputError
from kernelwright.ir import Graph, Kind, TensorType, canonicalize, capture
from kernelwright.ir.graph import Node
from kernelwright.ir.passes import (
    canonicalize_views,
    eliminate_dead_code,
    expand_means,
    fold_constants,
    merge_common_subexpressions,
    recognise_means,
    split_views,
)
from kernelwright.ir.passes.softmax import expand_softmax
from tests.ir.programs import Program, example, programs

PASSES: tuple[Callable[[Graph], Graph], ...] = (
    canonicalize,
    canonicalize_views,
    eliminate_dead_code,
    expand_means,
    fold_constants,
    merge_common_subexpressions,
    recognise_means,
    split_views,
)

X = mx.arange(24.0).reshape(4, 6)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def _there_and_back(graph: Graph) -> Graph:
    return expand_means(canonicalize(graph))


@given(program=programs())
@settings(max_examples=60, deadline=None)
def test_every_pass_keeps_every_bit(program: Program) -> None:
    inputs = example(0)
    graph = capture(program, *inputs)
    expected = program(*inputs)
    for rewrite in (*PASSES, _there_and_back):
        rewritten = rewrite(graph)
        ir.verify(rewritten)
        assert rewritten.input_types == graph.input_types
        found = ir.interpret(rewritten, *inputs)
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype
            assert mx.array_equal(a, b, equal_nan=True), ir.describe(rewritten)


@given(program=programs())
@settings(max_examples=40, deadline=None)
def test_canonicalisation_is_idempotent_and_survives_json(program: Program) -> None:
    canonical = canonicalize(capture(program, *example(0)))
    assert canonicalize(canonical) == canonical
    assert Graph.from_json(canonical.to_json()) == canonical


@given(program=programs())
@settings(max_examples=40, deadline=None)
def test_the_oracle_does_not_depend_on_how_the_graph_is_written(program: Program) -> None:
    arrays = [np.array(x) for x in example(1)]
    graph = capture(program, *example(0))
    raw, canonical = (ir.reference(g, arrays) for g in (graph, canonicalize(graph)))
    for a, b in zip(raw, canonical, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


@given(program=programs())
@settings(max_examples=40, deadline=None)
def test_a_canonical_view_has_one_reader(program: Program) -> None:
    graph = canonicalize(capture(program, *example(0)))
    for node in graph.nodes:
        if ir.op_named(node.op).kind is Kind.VIEW:
            readers = [n for n in graph.nodes if node.outputs[0] in n.inputs]
            returned = graph.outputs.count(node.outputs[0])
            assert len(readers) + (returned > 0) == 1


@pytest.mark.parametrize(
    "mean",
    [
        lambda x: x.mean(axis=-1),
        lambda x: x.sum(axis=-1) / 6,
        lambda x: mx.sum(x, axis=1) * (1 / 6),
        lambda x: mx.squeeze(mx.mean(x, axis=-1, keepdims=True), -1),
    ],
)
def test_a_mean_is_one_node_however_it_is_written(mean: Callable[[mx.array], mx.array]) -> None:
    graph = canonicalize(capture(mean, X))
    assert ops(graph) == ["mean", "reshape"]
    assert not graph.constants


@pytest.mark.parametrize("scale", [0.25, 1 / 7, 6.0])
def test_another_constant_is_not_a_mean(scale: float) -> None:
    assert "mean" not in ops(canonicalize(capture(lambda x: x.sum(axis=-1) * scale, X)))


def test_the_variance_of_a_sample_divides_by_one_less() -> None:
    graph = canonicalize(capture(lambda x: mx.var(x, axis=-1, ddof=1), X))
    assert [n.attribute("ddof") for n in graph.nodes if n.op == "mean"] == [0, 1]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.reshape(2, 12).reshape(4, 6) + 1, ["broadcast", "add"]),
        (lambda x: x.T.T * x, ["multiply"]),
        (lambda x: x.transpose(1, 0)[None], ["transpose", "reshape"]),
        (lambda x: x[None].transpose(1, 0, 2), ["reshape"]),
        (lambda x: mx.broadcast_to(x[None], (2, 4, 6)) * 1, ["broadcast", "broadcast", "multiply"]),
        (lambda x: x.astype(mx.float32) * x, ["multiply"]),
        (lambda x: x[:, :] * x, ["multiply"]),
        (lambda x: mx.stop_gradient(mx.contiguous(x)) * x, ["multiply"]),
        (lambda x: mx.split(x, 2, axis=1)[0], ["slice"]),
        (lambda x: x[-1] * x, ["slice", "reshape", "broadcast", "multiply"]),
        (lambda x: x[1, mx.array(2)], ["slice", "reshape"]),
        (lambda x: x[mx.array([2, 1])], ["gather", "reshape"]),
        (lambda x: x.at[2].add(x[0]), ["slice", "reshape", "broadcast", "slice_update"]),
        (lambda x: x[mx.array(9)], ["gather", "reshape"]),
        (lambda x: mx.exp(x[None]) + mx.sin(x[None]), ["exp", "sin", "add", "reshape"]),
    ],
)
def test_views_reach_their_canonical_form(
    function: Callable[[mx.array], mx.array], expected: list[str]
) -> None:
    assert ops(canonicalize(capture(function, X))) == expected


def test_what_vmap_repeats_is_repeated_along_its_own_axis() -> None:
    def normed(row: mx.array) -> mx.array:
        return row * mx.rsqrt(mx.mean(row * row) + 1e-6)

    x = mx.random.normal((2, 6, 32), key=mx.random.key(0))
    graph = canonicalize(capture(mx.vmap(mx.vmap(normed)), x))
    assert "transpose" not in {node.op for node in graph.nodes}
    assert mx.array_equal(ir.interpret(graph, x)[0], mx.vmap(mx.vmap(normed))(x))


def rows(count: int) -> mx.array:
    return mx.arange(count)[:, None]


PLACES = mx.array([[0, 3], [1, 1], [-1, 2], [3, 0], [2, 2], [0, 1]])


@pytest.mark.parametrize(
    "read",
    [
        lambda x, i: x[rows(6), i],
        lambda x, i: x[mx.arange(6, dtype=mx.uint32)[:, None], i],
        lambda x, i: x[mx.broadcast_to(rows(6), (6, 2)), i],
    ],
)
def test_reading_each_row_at_its_own_places_is_reading_along_an_axis(
    read: Callable[[mx.array, mx.array], mx.array],
) -> None:
    x = mx.random.normal((6, 4), key=mx.random.key(0))
    graph = canonicalize(capture(read, x, PLACES))
    assert [node.op for node in graph.nodes] == ["gather_axis"]
    assert mx.array_equal(ir.interpret(graph, x, PLACES)[0], read(x, PLACES))


@pytest.mark.parametrize(
    "read",
    [
        lambda x, i: x[rows(6) + 1, i],
        lambda x, i: x[rows(6)[::-1], i],
        lambda x, i: x[rows(3), i[:3]],
        lambda x, i: x[i, i],
        lambda x, i: x[mx.arange(2), i],
    ],
)
def test_reading_other_rows_stays_a_gather(
    read: Callable[[mx.array, mx.array], mx.array],
) -> None:
    x = mx.random.normal((7, 4), key=mx.random.key(0))
    assert "gather_axis" not in {node.op for node in canonicalize(capture(read, x, PLACES)).nodes}


def test_a_narrowing_cast_is_kept() -> None:
    graph = canonicalize(capture(lambda x: x.astype(mx.float16).astype(mx.float32), X))
    assert ops(graph) == ["cast", "cast"]


def test_a_widening_cast_and_back_is_nothing() -> None:
    half = X.astype(mx.float16)
    graph = canonicalize(capture(lambda x: x.astype(mx.float32).astype(mx.float16) * 2, half))
    assert ops(graph) == ["broadcast", "multiply"]


def test_constants_fold_with_the_rounding_of_their_dtype() -> None:
    half = X.astype(mx.float16)

    def scaled(x: mx.array) -> mx.array:
        return x * (mx.array(1.0, mx.float16) / mx.array(3.0, mx.float16))

    graph = canonicalize(capture(scaled, half))
    assert ops(graph) == ["broadcast", "multiply"]
    assert graph.constants[0][1].array == np.float16(1) / np.float16(3)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32], ids=str)
def test_folding_gives_the_bits_of_mlx(dtype: mx.Dtype) -> None:
    numbers = [mx.array(v, dtype) for v in (0.1, 2.5, -3.3, 1e-3, 1 / 3)]

    def fn(x: mx.array) -> list[mx.array]:
        results = [x]
        for a in numbers:
            results += [mx.round(a), mx.square(a), mx.sqrt(mx.abs(a)), mx.floor(a), mx.sign(a)]
            results += [a + numbers[0], a * numbers[2], a / numbers[4], a - numbers[1]]
            results += [mx.maximum(a, numbers[0]), a.astype(mx.int32), a.astype(mx.bfloat16)]
        return results

    x = mx.array([1.0], dtype)
    graph = canonicalize(capture(fn, x))
    assert not graph.nodes
    for found, expected in zip(ir.interpret(graph, x), fn(x), strict=True):
        assert found.dtype == expected.dtype
        assert mx.array_equal(found, expected)


def test_a_transcendental_function_of_a_constant_is_left_to_mlx() -> None:
    graph = canonicalize(capture(lambda x: x * mx.exp(mx.array(0.3)), X))
    assert "exp" in ops(graph)


def test_the_constant_of_a_commutative_op_comes_second() -> None:
    first = canonicalize(capture(lambda x: 2 * x, X))
    second = canonicalize(capture(lambda x: x * 2, X))
    assert first == second


def test_ranges_of_different_dtypes_are_not_merged() -> None:
    graph = canonicalize(capture(lambda x: [x, mx.arange(4), mx.arange(4.0)], X))
    assert [t.dtype for t in graph.output_types] == ["float32", "int32", "float32"]


def test_kernel_calls_are_never_merged() -> None:
    # Two calls that differ only in `init_value` look the same to MLX's tracer.
    type_ = TensorType((4,), ir.Dtype.FLOAT32)
    nodes = tuple(Node("custom_kernel", (0,), (i,)) for i in (1, 2))
    graph = Graph((type_,) * 3, (0,), (), nodes, (1, 2))
    assert len(merge_common_subexpressions(graph).nodes) == 2


BROKEN = Graph(
    types=(TensorType((4,), ir.Dtype.FLOAT32), TensorType((3,), ir.Dtype.FLOAT32)),
    inputs=(0,),
    constants=(),
    nodes=(Node("exp", (0,), (1,)),),
    outputs=(1,),
)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (Node("exp", (0,), (1,)), r"node 0 \(exp\) makes f32\[3\], its operands give \(4,\)"),
        (Node("exp", (1,), (1,)), "reads value 1 before it is made"),
        (Node("exp", (0,), (0,)), "makes value 0 a second time"),
        (Node("sum", (0,), (1,)), r"has attributes \(\), expected \('axes',\)"),
        (Node("exp", (0,), (7,)), "makes value 7, which has no type"),
    ],
)
def test_a_broken_graph_is_reported(node: Node, message: str) -> None:
    graph = Graph(BROKEN.types, BROKEN.inputs, (), (node,), BROKEN.outputs)
    with pytest.raises(InputError, match=message):
        ir.verify(graph)


def test_a_softmax_written_out_means_the_same() -> None:
    graph = canonicalize(capture(lambda x: mx.softmax(x, axis=-1) * 2, X))
    written = expand_softmax(graph)
    ir.verify(written)
    assert "softmax" not in ops(written)
    assert {"max", "subtract", "exp", "sum", "divide"} < set(ops(written))
    arrays = [np.array(X)]
    np.testing.assert_allclose(
        ir.reference(written, arrays)[0], ir.reference(graph, arrays)[0], rtol=1e-12
    )
