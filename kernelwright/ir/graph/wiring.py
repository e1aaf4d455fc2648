"""What holds of every graph, whatever its ops are: each value has one source, which comes first."""

from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING

from kernelwright.errors import InputError

if TYPE_CHECKING:
    from kernelwright.ir.graph.graph import Graph

LARGEST_SIZE = 2**31 - 1
"""What MLX holds as one size of an array."""
MOST_ELEMENTS = 2**40
"""Of one array that fits a machine's memory."""


def check_wiring(graph: "Graph") -> None:
    """Check sizes, constants, single assignment and order; `verify` checks what ops are given.

    Raises:
        InputError: a rule is broken; the sentence names the node.
    """
    _check_sizes(graph)
    made: set[int] = set()
    known = range(len(graph.types))
    _claim((*graph.inputs, *(v for v, _ in graph.constants)), known, made, "an input or constant")
    _check_constants(graph)
    for place, node in enumerate(graph.nodes):
        where = f"node {place} ({node.op})"
        if missing := [v for v in node.inputs if v not in made]:
            raise InputError(f"{where} reads value {missing[0]} before it is made.")
        if not node.outputs:
            raise InputError(f"{where} makes nothing.")
        _claim(node.outputs, known, made, where)
    if missing := [v for v in graph.outputs if v not in made]:
        raise InputError(f"output value {missing[0]} is never made.")
    _check_inputs(graph)


def _check_sizes(graph: "Graph") -> None:
    for value, type_ in enumerate(graph.types):
        is_held = all(0 <= extent <= LARGEST_SIZE for extent in type_.shape)
        if not is_held or prod(type_.shape) > MOST_ELEMENTS:
            raise InputError(
                "expected sizes that fit a machine's memory, found the shape "
                f"{list(type_.shape)} of value {value}."
            )


def _claim(values: Iterable[int], known: range, made: set[int], where: str) -> None:
    for value in values:
        if value not in known:
            raise InputError(f"{where} makes value {value}, which has no type.")
        if value in made:
            raise InputError(f"{where} makes value {value} a second time.")
        made.add(value)


def _check_constants(graph: "Graph") -> None:
    for value, constant in graph.constants:
        if graph.types[value] != constant.type:
            raise InputError(f"constant {value} is {constant.type}, declared {graph.types[value]}.")
        if (found := memoryview(constant.data).nbytes) != constant.type.nbytes:
            raise InputError(
                f"constant {value} is {constant.type}, {constant.type.nbytes} bytes, found {found}."
            )


def _check_inputs(graph: "Graph") -> None:
    count = len(graph.inputs)
    if graph.names and len(graph.names) != count:
        raise InputError(f"{count} inputs have {len(graph.names)} names.")
    if len(graph.keywords) > count:
        raise InputError(f"{count} inputs have {len(graph.keywords)} keywords.")
    # Of a part some arguments may be missing; what it is given beside them all has one place.
    if graph.turns and len(graph.turns) != count:
        raise InputError(f"{count} inputs have the places {list(graph.turns)} among arguments.")
