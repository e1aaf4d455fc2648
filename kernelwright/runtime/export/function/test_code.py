"""Prints the tests of an exported function."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import mlx.core as mx
import numpy as np

from kernelwright.ir.graph import Graph
from kernelwright.runtime.export.function.agreement import is_close, neighbours
from kernelwright.runtime.export.function.arguments_code import GivenArguments, target_source
from kernelwright.runtime.export.function.case import taken_by
from kernelwright.runtime.export.function.function_export import FunctionFiles
from kernelwright.runtime.export.function.literal import literal
from kernelwright.runtime.export.function.module_code import FunctionModule
from kernelwright.runtime.export.function.object_code import MADE
from kernelwright.runtime.export.function.passed_call import _leaves
from kernelwright.runtime.export.test_code import telling_places

_Type = tuple[tuple[int, ...], mx.Dtype] | tuple[tuple[int, ...], mx.Dtype, range]

_SAMPLED = 8
ORDERLESS = frozenset({"argpartition", "argsorted_slice", "partition", "sorted_slice"})
"""Ops that MLX lets return a row's elements in any order."""

_BODY = '''\
"""Tests of {name}: the values of the original, and the kernels where there is a GPU for them."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import mlx.core as mx
import pytest

import {name} as exported

# For each call that kernels serve: its arrays' shapes and dtypes, with the integers that they
# take; how it is made of them; and some elements of each result of the original for
# `example(call, 0)`, by flat index.
CALLS = [
{calls}]


{example}


{made}def called(call):
    def function(*a):
        # What the function changes in place are arrays of its own.
        args, kwargs = call[1]([mx.array(array) for array in a])
        return exported._leaves(exported.{target}(*args, **kwargs))

    return function


# False where the ranks of unsorted rows are taken, whose elements come in any order.
HAS_ORDER = {has_order}


@pytest.mark.parametrize("call", CALLS)
def test_it_gives_the_values_of_the_original(call):
    with mx.stream(mx.cpu):
        results = called(call)(*example(call[0], 0))
        assert [r.shape for r in results] == [shape for shape, _, _ in call[2]]
        for result, (_, dtype, samples) in zip(results, call[2]):
            assert result.dtype == dtype
            tolerance = 1e-4 if dtype in (mx.float32, mx.complex64) else 2e-2
            tolerance *= mx.issubdtype(dtype, mx.inexact)
            for index, value in samples:
                found = result.reshape(-1)[index].item()
                assert found == pytest.approx(value, rel=tolerance, abs=tolerance, nan_ok=True)


@pytest.mark.skipif(not mx.metal.is_available(), reason="needs an Apple GPU")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("seed", range(3))
def test_the_kernels_agree_with_the_original(call, seed, monkeypatch):
    arrays = example(call[0], seed)
    kernels = [(way, outcome(compute)) for way, compute in ways(called(call), arrays)]
    monkeypatch.setattr(exported, "_runs_metal", lambda: False)
    for (way, found), (_, compute) in zip(kernels, ways(called(call), arrays)):
        wanted = outcome(compute)
        if isinstance(wanted, str):
            continue
        assert not isinstance(found, str), f"{{way}}: {{found}}"
        again = partial(outcome_of, called(call), way)
        assert not disagreement(found, wanted, again, arrays, HAS_ORDER), way


def outcome_of(function, way, arrays):
    return outcome(dict(ways(function, arrays))[way])



{ways}

{agreement}'''

_EXAMPLE = '''\
def example(types, seed):
    """Make arrays whose every element is exact in its dtype."""
    arrays = []
    for place, (shape, dtype, *integers) in enumerate(types):
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
    return arrays'''


def example(types: Sequence[_Type], seed: int) -> list[mx.array]:
    """Make what the printed `example` makes."""
    space: dict[str, object] = {"mx": mx}
    exec(_EXAMPLE, space)
    made: list[mx.array] = space["example"](types, seed)  # type: ignore[operator]
    return made


def function_tests(export: FunctionFiles, function: Callable[..., object]) -> str | None:
    """Return the test file's text; None where an argument of every call has no text."""
    printed, module = [], export.module
    for served in export.calls:
        call = GivenArguments.of(function, served.example.args, served.example.kwargs)
        nest = call.source(module.source)
        if nest is None or nest.data:
            continue
        types = _types(call, served.graph)
        listed = ", ".join(f"({', '.join(map(literal, type_))})" for type_ in types)
        made, near = _results(function, call, types)
        results = "".join(
            f"            {_samples(r, [n[place] for n in near], has_order(module))},\n"
            for place, r in enumerate(made)
        )
        printed.append(
            f"    (\n        [{listed}],\n        lambda a: {nest.text},\n"
            f"        [\n{results}        ],\n    ),\n"
        )
    if not printed:
        return None
    ways, agreement = (
        (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
        for name in ("ways", "agreement")
    )
    return _BODY.format(
        name=module.name,
        calls="".join(printed),
        example=_EXAMPLE,
        made=f"{MADE}\n\n" if any("_made(" in text for text in printed) else "",
        target=target_source(module.source),
        has_order=has_order(module),
        ways=ways[ways.index("def ways") :],
        agreement=agreement[agreement.index("# Each run") :],
    )


def _types(given: GivenArguments, graph: Graph) -> list[_Type]:
    """Return each array's shape and dtype, and the integers that it takes, if any."""
    taken = taken_by(given, graph)
    types = [(tuple(a.shape), a.dtype, i) for a, i in zip(given.arrays, taken, strict=True)]
    return [(s, d) if integers is None else (s, d, integers) for s, d, integers in types]


def _results(
    function: Callable[..., object], call: GivenArguments, types: Sequence[_Type]
) -> tuple[list[mx.array], list[list[mx.array]]]:
    """Return the original's results, and those for inputs moved by their last bits."""
    with mx.stream(mx.cpu):
        arrays = example(types, 0)
        compute = partial(_called, function, call)
        return compute(arrays), neighbours(compute, arrays)


def _called(
    function: Callable[..., object], call: GivenArguments, arrays: Sequence[mx.array]
) -> list[mx.array]:
    # A function may change what it is given, and return it.
    args, kwargs = call.rebuilt([mx.array(array) for array in arrays])
    made: list[mx.array] = _leaves(function(*args, **kwargs))
    mx.eval(made)
    return made


def has_order(module: FunctionModule) -> bool:
    """Say whether every result's elements stand in a certain order."""
    nodes = (node for variant in module.variants for node in variant.traced.graph.nodes)
    return not any(node.op in ORDERLESS for node in nodes)


def _samples(result: mx.array, near: Sequence[mx.array], is_certain: bool) -> str:
    """Choose elements that tell a right kernel from a wrong one.

    One that jumps where inputs move by their last bits may come out otherwise on another machine.
    """
    wide = result.astype(mx.float32) if mx.issubdtype(result.dtype, mx.floating) else result
    flat = wide.reshape(-1)
    places = telling_places(np.array(flat), _SAMPLED) if is_certain else []
    others = [n.reshape(-1) for n in near]
    values = ", ".join(
        f"({i}, {literal(flat[i].item())})"
        for i in places
        if all(is_close(n[i : i + 1], result.reshape(-1)[i : i + 1]) for n in others)
    )
    return f"({tuple(result.shape)!r}, {literal(result.dtype)}, [{values}])"
