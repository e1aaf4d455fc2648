"""Checking that a graph keeps its own rules; tests run it after every pass."""

from kernelwright.errors import InputError
from kernelwright.ir.graph import Graph, Node
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import OPS, Call, Kind, op_named


def verify(graph: Graph) -> None:
    """Check single assignment, order, attributes, shapes and dtypes.

    Raises:
        InputError: a rule is broken; the sentence names the node.
    """
    made: set[int] = set()
    for value in (*graph.inputs, *(v for v, _ in graph.constants)):
        _claim(graph, value, made, "an input or constant")
    for value, constant in graph.constants:
        if graph.types[value] != constant.type:
            raise InputError(f"constant {value} is {constant.type}, declared {graph.types[value]}.")
    for place, node in enumerate(graph.nodes):
        where = f"node {place} ({node.op})"
        if missing := [v for v in node.inputs if v not in made]:
            raise InputError(f"{where} reads value {missing[0]} before it is made.")
        for value in node.outputs:
            _claim(graph, value, made, where)
        _check(graph, node, where)
    if missing := [v for v in graph.outputs if v not in made]:
        raise InputError(f"output value {missing[0]} is never made.")
    if graph.names and len(graph.names) != len(graph.inputs):
        raise InputError(f"{len(graph.inputs)} inputs have {len(graph.names)} names.")


def _claim(graph: Graph, value: int, made: set[int], where: str) -> None:
    if not 0 <= value < len(graph.types):
        raise InputError(f"{where} makes value {value}, which has no type.")
    if value in made:
        raise InputError(f"{where} makes value {value} a second time.")
    made.add(value)


def _check(graph: Graph, node: Node, where: str) -> None:
    op, call = op_named(node.op), Call.of(graph, node)
    if node.op in OPS and node.op != "custom_kernel":
        found = tuple(sorted(call.attributes))
        if found != tuple(sorted(op.attributes)):
            raise InputError(f"{where} has attributes {found}, expected {op.attributes}.")
    if op.kind is Kind.ELEMENTWISE and len({t.shape for t in call.inputs}) > 1:
        shapes = ", ".join(map(str, call.inputs))
        raise InputError(f"{where} needs operands of one shape, found {shapes}.")
    expected = op.shapes(call)
    if expected != tuple(t.shape for t in call.outputs):
        raise InputError(f"{where} makes {call.outputs[0]}, its operands give {expected[0]}.")
    if op.kind is Kind.VIEW:
        _check_view(call, where)
    dtype = call.outputs[0].dtype
    if op.behaviour.makes_bool and dtype is not Dtype.BOOL:
        raise InputError(f"{where} makes {dtype}, expected bool.")
    if node.op == "cast" and dtype is not call.dtype("dtype"):
        raise InputError(f"{where} makes {dtype}, its attribute says {call.dtype('dtype')}.")


def _check_view(call: Call, where: str) -> None:
    if any(t.dtype is not call.inputs[0].dtype for t in call.outputs):
        raise InputError(f"{where} is a view and changes the dtype.")
    is_reshape = "shape" in call.attributes and "strides" not in call.attributes
    if is_reshape and 0 < call.outputs[0].size < call.inputs[0].size:
        raise InputError(f"{where} makes {call.outputs[0]} of {call.inputs[0]}.")
