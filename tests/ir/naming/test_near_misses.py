"""A function with one mistake in its graph keeps no name that it no longer deserves."""

import random
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import Graph, canonicalize, capture, idioms
from kernelwright.ir.graph import Constant, Node
from tests.ir.naming.idiom_meaning import misnamed
from tests.ir.naming.spelling import Spelling

FILES: tuple[str, ...] = (
    "activation_again",
    "gated_unit",
    "layer_norm",
    "near_row",
    "rectifier",
    "rms_norm",
)
FILES += ("curve", "layer_again", "near_activation", "row_again", "softmax")
ALIKE = (
    ("add", "subtract", "multiply", "divide", "maximum", "minimum"),
    ("exp", "sigmoid", "tanh", "erf", "sqrt", "rsqrt", "square", "negative", "abs"),
    ("greater", "less", "greater_equal", "less_equal"),
    ("sum", "max", "min"),
)
FACTORS = (2.0, -1.0, 1.05, 0.0)
WITHOUT_MEANING = frozenset({"attention", "moe_gate", "rope"})


def _with_node(graph: Graph, index: int, node: Node) -> Graph:
    return replace(graph, nodes=(*graph.nodes[:index], node, *graph.nodes[index + 1 :]))


def _mistakes(graph: Graph) -> Iterator[Graph]:
    """Yield the graph with another op, other operands or another number in one place."""
    values = list(graph.inputs)
    for index, node in enumerate(graph.nodes):
        types = [graph.types[v] for v in node.inputs]
        for ops in ALIKE:
            others = ops if node.op in ops and types[0].dtype.is_float else ()
            yield from (_with_node(graph, index, replace(node, op=o)) for o in others)
        for place, type_ in enumerate(types):
            for value in (v for v in values if graph.types[v] == type_):
                read = (*node.inputs[:place], value, *node.inputs[place + 1 :])
                yield _with_node(graph, index, replace(node, inputs=read))
        values += node.outputs
    for place, (value, held) in enumerate(graph.constants):
        if held.type.dtype.is_float and held.type.size == 1:
            for factor in FACTORS:
                other = Constant.of(np.array(held.array, np.float64) * factor, held.type.dtype)
                rest = graph.constants[place + 1 :]
                yield replace(graph, constants=(*graph.constants[:place], (value, other), *rest))


@pytest.mark.parametrize("file", FILES)
@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_one_mistake_takes_a_wrong_name_away(file: str) -> None:
    spellings: list[Spelling] = import_module(f"tests.ir.naming.spellings.{file}").SPELLINGS
    drawn = random.Random(file)
    for spelling in drawn.sample(spellings, min(8, len(spellings))):
        if any(array.dtype == mx.float16 for array in spelling.arrays):
            continue
        with mx.stream(mx.cpu):
            graph = canonicalize(capture(spelling.function, *spelling.arrays))
        mistakes = list(_mistakes(graph))
        arrays = [np.array(array) for array in spelling.arrays]
        for mistake in drawn.sample(mistakes, min(8, len(mistakes))):
            known = [i for i in idioms(canonicalize(mistake)) if i.name not in WITHOUT_MEANING]
            assert not misnamed(canonicalize(mistake), known, arrays), spelling.function.__name__
