"""A graph that breaks one of its own rules is refused, with the node that breaks it."""

from dataclasses import replace

import pytest

from kernelwright.errors import InputError
from kernelwright.ir import Dtype, Graph, Node, TensorType, verify

ROW = TensorType((4,), Dtype.FLOAT32)
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
    ],
)
def test_a_broken_rule_is_named(broken: Graph, message: str) -> None:
    with pytest.raises(InputError, match=message):
        verify(broken)
