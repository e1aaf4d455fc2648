"""A graph that breaks one of its own rules is refused, with the node that breaks it."""

import json
from dataclasses import replace

import pytest

from kernelwright.errors import InputError
from kernelwright.ir import Dtype, Graph, Node, Region, TensorType, read_graph, verify

ROW = TensorType((4,), Dtype.FLOAT32)
HALVES = TensorType((4,), Dtype.FLOAT16)
INTEGERS = (("dtype", Dtype.INT8),)
GOOD = Graph(
    types=(ROW, ROW, ROW),
    inputs=(0,),
    constants=(),
    nodes=(Node("exp", (0,), (1,), ()), Node("add", (0, 1), (2,), ())),
    outputs=(2,),
)


def test_a_graph_that_keeps_the_rules_passes() -> None:
    verify(GOOD)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (replace(GOOD, nodes=GOOD.nodes[::-1]), r"node 0 \(add\) reads value 1 before it is made"),
        (replace(GOOD, outputs=(7,)), "output value 7 is never made"),
        (replace(GOOD, names=("x", "y")), "1 inputs have 2 names"),
        (replace(GOOD, types=(ROW, ROW)), "makes value 2, which has no type"),
        (replace(GOOD, inputs=(0, 1)), "makes value 1 a second time"),
        (replace(GOOD, types=(ROW, ROW, TensorType((3,), Dtype.FLOAT32))), "its operands give"),
        (
            replace(GOOD, types=(ROW, TensorType((2,), Dtype.FLOAT32), ROW)),
            r"node 0 \(exp\) makes",
        ),
        (
            replace(GOOD, nodes=(GOOD.nodes[0], Node("less", (0, 1), (2,), ()))),
            "makes float32, expected bool",
        ),
        (
            replace(GOOD, nodes=(Node("exp", (0,), (1,), (("axis", 0),)), GOOD.nodes[1])),
            "has attributes",
        ),
        (
            replace(
                GOOD, nodes=(Node("cast", (0,), (1,), (("dtype", Dtype.INT8),)), GOOD.nodes[1])
            ),
            "its attribute says int8",
        ),
        (replace(GOOD, nodes=(Node("frob", (0,), (1,)), GOOD.nodes[1])), "is no op that is known"),
        (replace(GOOD, nodes=(Node("exp", (0, 0), (1,)), GOOD.nodes[1])), "takes 1 operands"),
        (replace(GOOD, nodes=(GOOD.nodes[0], Node("add", (0,), (2,)))), "takes 2 operands"),
        (replace(GOOD, nodes=(GOOD.nodes[0], Node("matmul", (0,), (2,)))), "takes 2 operands"),
        (replace(GOOD, nodes=(GOOD.nodes[0], Node("gather", (), (2,)))), "takes at least 1"),
        (replace(GOOD, nodes=(Node("exp", (0,), ()), GOOD.nodes[1])), "makes nothing"),
        (replace(GOOD, types=(ROW, HALVES, ROW)), "makes float16, its operands give float32"),
        (replace(GOOD, types=(ROW, ROW, TensorType((10**13,), ROW.dtype))), "fit a machine's"),
        (replace(GOOD, types=(TensorType((-4,), ROW.dtype), ROW, ROW)), "fit a machine's"),
        (
            replace(GOOD, nodes=(GOOD.nodes[0], Node("sum", (0,), (2,), (("axes", "no"),)))),
            "cannot be computed of",
        ),
    ],
)
def test_a_broken_rule_is_named(broken: Graph, message: str) -> None:
    with pytest.raises(InputError, match=message):
        verify(broken)


def test_a_primitive_that_the_table_lacks_is_a_barrier() -> None:
    verify(replace(GOOD, nodes=(Node("Frobnicate", (0,), (1,)), GOOD.nodes[1])))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("outputs", [77], "output value 77 is never made"),
        ("outputs", ["2"], "expected whole numbers"),
        ("inputs", [True], "expected whole numbers"),
        ("names", [3], "expected texts"),
        ("types", [[[4], "float33"]] * 3, "float33"),
        ("types", [[[10**13], "float32"]] * 3, "fit a machine's memory"),
        ("nodes", [["add", [0, 2], [1], {}], ["exp", [1], [2], {}]], "before it is made"),
        ("nodes", [["exp", [0], [1], {"a": None}]], "expected an attribute"),
        ("nodes", [["exp", [0], [1], []]], "expected the JSON of a graph"),
        ("constants", [[1, "AAAA"]], "16 bytes, found 3"),
        ("turns", [5, 5], "among arguments"),
    ],
)
def test_an_edited_graph_is_not_read(key: str, value: object, message: str) -> None:
    text = json.dumps(json.loads(GOOD.to_json()) | {key: value})
    with pytest.raises(InputError, match=message):
        Graph.from_json(text)


def test_a_part_that_is_given_what_its_function_makes_is_read() -> None:
    graph = Graph(
        types=(ROW,) * 5,
        inputs=(0,),
        constants=(),
        nodes=(
            Node("exp", (0,), (1,), ()),
            Node("sin", (0,), (2,), ()),
            Node("add", (1, 0), (3,), ()),
            Node("multiply", (3, 2), (4,), ()),
        ),
        outputs=(4,),
    )
    part = Region(graph, (2, 3)).extract()
    assert part.turns == (1, 0, 1)
    assert read_graph(part.to_json()) == part


def test_a_graph_that_is_to_be_computed_is_verified() -> None:
    assert read_graph(GOOD.to_json()) == GOOD
    with pytest.raises(InputError, match="is no op that is known"):
        read_graph(GOOD.to_json().replace('"exp"', '"frobnicate"'))
