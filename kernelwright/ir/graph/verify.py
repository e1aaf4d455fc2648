"""Checking that a graph keeps its own rules: what is read is checked, and tests every pass."""

from kernelwright.errors import InputError
from kernelwright.ir.graph import Graph, Node
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.graph.wiring import check_wiring
from kernelwright.ir.ops import OPS, Call, Kind, Op, op_named
from kernelwright.validation import shown

_NO_ANSWER = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError)
"""What the record of an op raises where operands or attributes are of no call of it."""
_MAKES_REAL = frozenset({"abs", "real", "imag"})
"""Elementwise ops that make real numbers of complex ones."""


def verify(graph: Graph) -> None:
    """Check the wiring, and each node's op, operands, attributes, shapes and dtypes.

    Raises:
        InputError: a rule is broken; the sentence names the node.
    """
    check_wiring(graph)
    _check_nodes(graph)


def read_graph(text: str) -> Graph:
    """Read a graph that is to be computed from JSON, and verify it.

    What shows graphs reads them by `Graph.from_json`, which needs neither the op table nor NumPy.

    Raises:
        InputError: the text is not a graph, or one that breaks a rule.
    """
    graph = Graph.from_json(text)
    # Its wiring was checked as it was read.
    _check_nodes(graph)
    return graph


def _check_nodes(graph: Graph) -> None:
    for place, node in enumerate(graph.nodes):
        _check(graph, node, f"node {place} ({node.op})")


def _check(graph: Graph, node: Node, where: str) -> None:
    op, call = op_named(node.op), Call.of(graph, node)
    # MLX's own primitives begin with a capital; those that the table lacks are barriers.
    if node.op not in OPS and not (node.op.isidentifier() and node.op[0].isupper()):
        raise InputError(f"{where} is no op that is known here.")
    if node.op not in OPS or node.op == "custom_kernel":
        return
    _check_operands(op, call, where)
    if call.attributes.keys() != set(op.attributes):
        found = tuple(sorted(call.attributes))
        raise InputError(f"{where} has attributes {found}, expected {op.attributes}.")
    if op.kind is Kind.ELEMENTWISE and len({t.shape for t in call.inputs}) > 1:
        shapes = ", ".join(map(str, call.inputs))
        raise InputError(f"{where} needs operands of one shape, found {shapes}.")
    try:
        expected = op.shapes(call)
        named = call.dtype("dtype") if node.op == "cast" else None
    except _NO_ANSWER as e:
        raise InputError(
            f"{where} cannot be computed of {_listed(call)} with the attributes "
            f"{shown(dict(call.attributes))}."
        ) from e
    if expected != tuple(t.shape for t in call.outputs):
        raise InputError(f"{where} makes {call.outputs[0]}, its operands give {expected[0]}.")
    if op.kind is Kind.VIEW:
        _check_view(call, where)
    _check_dtype(op, call, where)
    if named is not None and call.outputs[0].dtype is not named:
        raise InputError(f"{where} makes {call.outputs[0].dtype}, its attribute says {named}.")


def _check_operands(op: Op, call: Call, where: str) -> None:
    least, most = op.operand_bounds
    if len(call.inputs) < least or (most is not None and len(call.inputs) > most):
        wanted = str(least) if most == least else f"at least {least}"
        raise InputError(f"{where} takes {wanted} operands, found {len(call.inputs)}.")


def _check_dtype(op: Op, call: Call, where: str) -> None:
    dtype = call.outputs[0].dtype
    if op.behaviour.makes_bool and dtype is not Dtype.BOOL:
        raise InputError(f"{where} makes {dtype}, expected bool.")
    if op.kind is not Kind.ELEMENTWISE or op.behaviour.converts:
        return
    values = call.inputs[1:] if op.behaviour.chooses else call.inputs
    if len({t.dtype for t in values}) > 1:
        raise InputError(f"{where} needs operands of one dtype, found {_listed(call)}.")
    if op.behaviour.makes_bool or (op.name in _MAKES_REAL and values[0].dtype.is_complex):
        return
    if dtype is not values[0].dtype:
        raise InputError(f"{where} makes {dtype}, its operands give {values[0].dtype}.")


def _listed(call: Call) -> str:
    return ", ".join(map(str, call.inputs)) or "no operands"


def _check_view(call: Call, where: str) -> None:
    if any(t.dtype is not call.inputs[0].dtype for t in call.outputs):
        raise InputError(f"{where} is a view and changes the dtype.")
    is_reshape = "shape" in call.attributes and "strides" not in call.attributes
    if is_reshape and 0 < call.outputs[0].size < call.inputs[0].size:
        raise InputError(f"{where} makes {call.outputs[0]} of {call.inputs[0]}.")
