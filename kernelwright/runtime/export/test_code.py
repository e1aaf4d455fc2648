"""Prints the exported module's tests: values that a float64 oracle gave, and the kernel itself."""

import math
from typing import cast

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.mlx_answer import run_mlx
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.analysis.reference import reference
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops.op import Array
from kernelwright.runtime.export.integer_range import integers_of
from kernelwright.runtime.export.literal_code import type_source
from kernelwright.runtime.export.reference_code import as_returned, parameter_names
from kernelwright.store import CandidateDetail

_SAMPLED = 12

_BODY = '''\
"""Tests of {name}: the fallback everywhere, the kernel where there is a GPU that runs Metal."""

import mlx.core as mx
import pytest

import {name} as exported

# The shape and the dtype of each input, and the integers that it takes.
INPUTS = [{inputs}]
TOLERANCES = [{tolerances}]
# Some elements of each output for `example(0)`, by flat index, from a float64 oracle.
EXPECTED = [
{expected}]


def example(seed):
    """Make inputs whose every element is exact in its dtype."""
    arrays = []
    for place, (shape, dtype, *integers) in enumerate(INPUTS):
        count = 1
        for size in shape:
            count *= size
        steps = (mx.arange(count) * 37 + 11 * place + 13 * seed) % 101
        if dtype == mx.bool_:
            values = steps % 3 != 0
        elif integers:
            (taken,) = integers
            values = taken.start + taken.step * (steps % len(taken)).astype(mx.int64)
        else:
            values = (steps.astype(mx.float32) - 50) / 32
        arrays.append(values.astype(dtype).reshape(shape))
    return arrays


def outputs(result):
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (tuple, list)):
        return [array for part in result for array in outputs(part)]
    return [result] if isinstance(result, mx.array) else []


def test_fallback_gives_the_oracles_values():
    with mx.stream(mx.cpu):
        results = outputs(exported.reference(*example(0)))
        for result, expected, (relative, absolute) in zip(results, EXPECTED, TOLERANCES):
            flat = result.reshape(-1)
            for index, value in expected:
                assert flat[index].item() == pytest.approx(
                    value, rel=2 * relative, abs=2 * absolute, nan_ok=True
                )


def test_other_dtypes_go_to_the_fallback():
    with mx.stream(mx.cpu):
        arrays = [
            a.astype(mx.float32 if a.dtype != mx.float32 else mx.float16)
            if mx.issubdtype(a.dtype, mx.floating)
            else a
            for a in example(0)
        ]
        found = outputs(exported.{name}(*arrays))
        wanted = outputs(exported.reference(*arrays))
        for a, b in zip(found, wanted):
            assert a.shape == b.shape
            assert a.dtype == b.dtype
            assert mx.array_equal(a, b, equal_nan=a.dtype != mx.bool_).item()


@pytest.mark.skipif(not mx.metal.is_available(), reason="needs an Apple GPU")
@pytest.mark.parametrize("seed", range(5))
def test_kernel_agrees_with_the_fallback(seed):
    arrays = example(seed)
    assert exported._serves(*arrays)
    found = outputs(exported.{name}(*arrays))
    wanted = outputs(exported.reference(*arrays))
    for a, b, (relative, absolute) in zip(found, wanted, TOLERANCES):
        assert mx.allclose(a, b, rtol=relative, atol=absolute, equal_nan=True).item()
'''


def test_source(detail: CandidateDetail, name: str) -> str:
    """Return the test file's text."""
    graph = as_returned(detail.graph)
    names = parameter_names(graph)
    inputs = "".join(
        f"\n    {type_source(type_, integers)},  # {parameter}"
        for type_, integers, parameter in zip(
            graph.input_types, integers_of(graph), names, strict=True
        )
    )
    tolerances = ", ".join(
        f"({t.relative!r}, {t.absolute!r})" for t in map(Tolerance.of, _output_dtypes(graph))
    )
    expected = "".join(
        f"    [{', '.join(f'({i}, {value})' for i, value in sampled)}],\n"
        for sampled in expected_values(graph)
    )
    return _BODY.format(name=name, inputs=f"{inputs}\n", tolerances=tolerances, expected=expected)


def example_inputs(graph: Graph, seed: int = 0) -> list[NDArray[np.generic]]:
    """Make what the printed `example` makes, with NumPy."""
    return [
        _example(type_, place, seed, integers)
        for place, (type_, integers) in enumerate(
            zip(graph.input_types, integers_of(graph), strict=True)
        )
    ]


def _example(
    type_: TensorType, place: int, seed: int, integers: range | None
) -> NDArray[np.generic]:
    steps = (np.arange(type_.size, dtype=np.int64) * 37 + 11 * place + 13 * seed) % 101
    if type_.dtype is Dtype.BOOL:
        values: NDArray[np.generic] = steps % 3 != 0
    elif integers:
        values = integers.start + integers.step * (steps % len(integers))
    else:
        values = (steps - 50) / 32
    return values.astype(type_.dtype.numpy).reshape(type_.shape)


def _output_dtypes(graph: Graph) -> list[Dtype]:
    return [type_.dtype for type_ in graph.output_types]


def expected_values(graph: Graph) -> list[list[tuple[int, str]]]:
    """Return some elements of each output for `example_inputs`, by flat index, as Python text."""
    arrays = example_inputs(graph)
    # The oracle takes arrays of any dtype and calls them float64.
    results = reference(graph, cast("list[Array]", arrays))
    own = run_mlx(graph, arrays)
    return [_sampled(*pair) for pair in zip(results, own, strict=True)]


def _sampled(result: Array, own: NDArray[np.generic]) -> list[tuple[int, str]]:
    """Choose elements of which MLX itself is sure: the test asks no more of the fallback."""
    flat = np.asarray(result).reshape(-1)
    places = telling_places(flat, _SAMPLED)
    tolerance = Tolerance.of(Dtype(own.dtype.name))
    is_sure = np.isclose(
        own.reshape(-1)[places].astype(flat.dtype),
        flat[places],
        rtol=tolerance.relative,
        atol=tolerance.absolute,
        equal_nan=True,
    )
    return [
        (place, _literal(flat[place].item()))
        for place, sure in zip(places, is_sure, strict=True)
        if sure
    ]


def telling_places(flat: NDArray[np.generic], count: int) -> list[int]:
    """Choose places over a whole array, its last included: that is where tails go wrong.

    Where most elements are alike, such as zeros, half as many of the others are chosen, too: a
    kernel that gives nothing else would pass otherwise.
    """
    places = (
        {round(i * (flat.size - 1) / (count - 1)) for i in range(count)} if flat.size else set()
    )
    values, counts = np.unique(flat, return_counts=True)
    if len(values) > 1:
        others = np.flatnonzero(flat != values[counts.argmax()])
        least = min(count // 2, others.size)
        if len(places.intersection(others.tolist())) < least:
            places |= {
                int(others[i * (others.size - 1) // max(least - 1, 1)]) for i in range(least)
            }
    return sorted(places)


def _literal(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
