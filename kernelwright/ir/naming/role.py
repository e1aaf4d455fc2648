"""What people call the arrays that a region reads: parameters' names, or the roles they play."""

from functools import lru_cache

from kernelwright.ir.graph import Graph, Node, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.naming.idioms import idioms
from kernelwright.ir.ops import Kind, op_named

_LETTERS = ("x", "y", "z")
_NAMED_BY_PLACE = {
    "gather": (None, "indices"),
    "gather_axis": (None, "indices"),
    "select": ("mask",),
}
"""What an op calls its operands; None where it has no word for one."""


def names_of(graph: Graph, values: tuple[ValueId, ...], nodes: tuple[Node, ...]) -> tuple[str, ...]:
    """Name the `values` that some `nodes` of `graph` read, each name once."""
    given = dict(zip(graph.inputs, graph.names, strict=False))
    roles = _roles(graph)
    chosen: list[str] = []
    for value in values:
        name = given.get(value) or _role(graph, value, nodes, roles)
        chosen.append(_free(name.replace(".", "_"), chosen))
    return tuple(chosen)


@lru_cache(maxsize=8)
def _roles(graph: Graph) -> dict[ValueId, str]:
    """Return what the graph's idioms call their operands."""
    return {v: role for idiom in idioms(graph) for role, v in idiom.operands if role != "x"}


def _role(graph: Graph, value: ValueId, nodes: tuple[Node, ...], roles: dict[ValueId, str]) -> str:
    """Return the role of a value, or of a view of it that the nodes read."""
    same = {value}
    for node in nodes:
        is_view = op_named(node.op).kind is Kind.VIEW or node.op == "cast"
        if is_view and node.inputs[0] in same:
            same.update(node.outputs)
    for alias in sorted(same):
        if alias in roles:
            return roles[alias]
    for node in nodes:
        for name, operand in zip(_NAMED_BY_PLACE.get(node.op, ()), node.inputs, strict=False):
            if name and operand in same:
                return name
    if graph.types[value].dtype is Dtype.BOOL:
        return "mask"
    if value not in graph.constant_of:
        return ""
    return next((seen.name for labelled, (seen, *_) in graph.labels if labelled == value), "weight")


def _free(name: str, taken: list[str]) -> str:
    """Return the name, numbered where somebody has it; the next letter where there is none."""
    if not name:
        name = next((letter for letter in _LETTERS if letter not in taken), _LETTERS[0])
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
