"""Properties of graphs hold for every op of the table, in every dtype that MLX takes for it."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kernelwright import ir
from kernelwright.errors import UnsupportedError
from kernelwright.ir import OPS, Graph, canonicalize, capture
from kernelwright.ir.trace.array import to_numpy
from tests.ir.op_steps import (
    NOT_FROM_FUNCTIONS,
    Drawn,
    OpProgram,
    dtypes_of,
    matrices,
    op_programs,
    step_of,
)

NAMES = sorted(OPS.keys() - NOT_FROM_FUNCTIONS.keys())


def _agree(graph: Graph, inputs: list[mx.array], expected: list[mx.array]) -> None:
    ir.verify(graph)
    for found, wanted in zip(ir.interpret(graph, *inputs), expected, strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert mx.array_equal(found, wanted, equal_nan=True), ir.describe(graph)


@pytest.mark.parametrize("name", NAMES)
def test_every_op_is_captured_and_keeps_its_bits_in_every_dtype(name: str) -> None:
    inputs = matrices(0)
    made: set[str] = set()
    for dtype in dtypes_of(name):
        program = OpProgram((Drawn(name, dtype, 0, 1, 1),))
        graph = capture(program, *inputs)
        canonical = canonicalize(graph)
        gathered = ir.gather_attention(canonical)
        made.update(n.op for each in (graph, canonical, gathered) for n in each.nodes)
        for each in (graph, canonical):
            _agree(each, inputs, program(*inputs))
    assert name in made


NUMBERED = sorted(n for n in NAMES if OPS[n].meaning is not None)
WITHOUT_COMPLEX_MEANING = frozenset({"floor_divide", "logaddexp"})


@pytest.mark.parametrize("name", NUMBERED)
def test_the_float64_meaning_agrees_with_mlx_in_every_dtype(name: str) -> None:
    inputs = matrices(0)
    for dtype in dtypes_of(name):
        program = OpProgram((Drawn(name, dtype, 0, 1, 1),))
        graph = capture(program, *inputs)
        is_half = dtype in (mx.float16, mx.bfloat16)
        is_complex = dtype == mx.complex64
        if any(OPS[node.op].meaning is None for node in graph.nodes) or is_half:
            continue
        if is_complex and name in WITHOUT_COMPLEX_MEANING:
            with pytest.raises(UnsupportedError, match="no meaning for complex64"):
                ir.reference(graph, [to_numpy(x) for x in inputs])
            continue
        found = ir.reference(graph, [to_numpy(x) for x in inputs])
        for ideal, made in zip(found, program(*inputs), strict=True):
            actual: NDArray[np.float64] = to_numpy(made)  # type: ignore[assignment]
            if actual.dtype.kind in "iub":
                np.testing.assert_array_equal(ideal, actual, err_msg=f"{dtype}")
            else:
                np.testing.assert_allclose(ideal, actual, rtol=1e-3, atol=1e-4, err_msg=f"{dtype}")


@settings(max_examples=80, deadline=None)
@given(op_programs(), st.integers(0, 7))
def test_canonicalisation_keeps_every_bit_of_any_ops(program: OpProgram, seed: int) -> None:
    inputs = matrices(seed)
    graph = canonicalize(capture(program, *inputs))
    _agree(graph, inputs, program(*inputs))
    assert canonicalize(graph) == graph
    assert Graph.from_json(graph.to_json()) == graph


def test_an_op_without_a_step_is_missed_by_no_program() -> None:
    assert all(step_of(name) for name in NAMES)
    assert set(NOT_FROM_FUNCTIONS) <= OPS.keys()
