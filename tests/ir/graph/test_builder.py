"""A builder makes equal nodes once, keeps only what outputs need, and rewrites node by node."""

from collections.abc import Sequence

import numpy as np

from kernelwright.ir import Constant, Dtype, Graph, Node, TensorType, verify
from kernelwright.ir.graph import ValueId
from kernelwright.ir.graph.builder import GraphBuilder, rewrite
from kernelwright.ir.ops import Call

ROW = TensorType((4,), Dtype.FLOAT32)
EMPTY = Graph(types=(), inputs=(), constants=(), nodes=(), outputs=())


def test_equal_nodes_are_one_where_they_are_merged() -> None:
    for merge in (True, False):
        builder = GraphBuilder(merge=merge)
        x = builder.value(ROW)
        first, second = (builder.apply("exp", x) for _ in range(2))
        assert (first == second) is merge


def test_nodes_that_no_output_needs_are_left_out() -> None:
    builder = GraphBuilder()
    x = builder.value(ROW)
    builder.apply("sin", x)
    graph = builder.finish([x], [builder.apply("exp", x)], EMPTY)
    verify(graph)
    assert [node.op for node in graph.nodes] == ["exp"]


def test_equal_constants_share_a_value() -> None:
    builder = GraphBuilder()
    values = {
        builder.constant(Constant.of(np.array(number), Dtype.FLOAT32)) for number in (2.0, 2.0, 3.0)
    }
    assert len(values) == 2


def test_equal_arrays_stay_apart_as_two_weights_do_before_training() -> None:
    builder = GraphBuilder()
    first, second = (Constant.of(np.ones(4), Dtype.FLOAT32) for _ in range(2))
    assert builder.constant(first) == builder.constant(first) != builder.constant(second)


def test_depth_counts_ops_and_no_views() -> None:
    builder = GraphBuilder()
    x = builder.value(ROW)
    seen = builder.apply("reshape", builder.apply("exp", x), shape=(2, 2))
    number = builder.constant(Constant.of(np.array(2.0), Dtype.FLOAT32))
    assert [builder.depth(v) for v in (number, x, seen)] == [-1, 0, 1]


def test_a_rule_replaces_what_it_sees_and_keeps_the_rest() -> None:
    def squared(builder: GraphBuilder, node: Node, call: Call) -> Sequence[ValueId] | None:
        is_own_product = node.op == "multiply" and node.inputs[0] == node.inputs[1]
        return [builder.apply("square", node.inputs[0])] if is_own_product else None

    graph = Graph(
        types=(ROW,) * 4,
        inputs=(0,),
        constants=(),
        nodes=(
            Node("exp", (0,), (1,), ()),
            Node("multiply", (1, 1), (2,), ()),
            Node("multiply", (2, 0), (3,), ()),
        ),
        outputs=(3,),
    )
    made = rewrite(graph, [squared])
    verify(made)
    assert [node.op for node in made.nodes] == ["exp", "square", "multiply"]
