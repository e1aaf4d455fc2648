"""Idioms get their names in over 340 ways to write them, which nobody's pattern was made from."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import Graph, canonicalize, capture, gather_attention, idioms
from tests.ir.naming.idiom_meaning import misnamed
from tests.ir.naming.spelling import Spelling

FOLDER = Path(__file__).parent / "spellings"
GATHERED = frozenset({"attention", "quantized_matmul"})
"""Names that are also ops, which plans take as one."""
WITHOUT_MEANING = frozenset({"attention", "moe_gate", "rope"})
"""Names whose formula `idiom_meaning` does not write out."""


def _spellings() -> Iterator[object]:
    for file in sorted(FOLDER.glob("*.py")):
        module = import_module(f"tests.ir.naming.spellings.{file.stem}")
        for spelling in module.SPELLINGS:
            yield pytest.param(spelling, id=f"{file.stem}-{spelling.function.__name__}")


def _graph(spelling: Spelling) -> Graph:
    with mx.stream(mx.cpu):
        return canonicalize(capture(spelling.function, *spelling.arrays))


def _numbers(array: mx.array) -> np.ndarray:
    is_float = mx.issubdtype(array.dtype, mx.floating)
    return np.array(array.astype(mx.float32)).astype(np.float64) if is_float else np.array(array)


@pytest.mark.parametrize("spelling", list(_spellings()))
def test_a_function_is_called_what_it_is(spelling: Spelling) -> None:
    graph = _graph(spelling)
    gathered = {node.op for node in gather_attention(graph).nodes} & GATHERED
    found = {idiom.name for idiom in idioms(graph)} | gathered
    assert not found & {*spelling.others}
    assert not spelling.name or spelling.name in found
    assert spelling.name not in GATHERED or spelling.name in gathered
    if all(array.dtype != mx.float16 for array in spelling.arrays):
        # Numbers of half precision are not near enough to those that names mean.
        meant = [idiom for idiom in idioms(graph) if idiom.name not in WITHOUT_MEANING]
        assert not misnamed(graph, meant, [_numbers(array) for array in spelling.arrays])
