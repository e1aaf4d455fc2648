"""What `mx.compile` fuses, beside what the baseline's cost model says that it fuses."""

import re
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest
from hypothesis import HealthCheck, assume, given, reject, settings

from kernelwright.errors import UnsupportedError
from kernelwright.ir import OPS, Graph, Kind, canonicalize, capture
from kernelwright.ir.passes.duplicate import merge_common_subexpressions, split_views
from kernelwright.plan.mlx.fusion import (
    COMPILE_ARRAYS,
    COMPILE_DEPTH,
    compile_groups,
    compile_launches,
)
from kernelwright.plan.traffic import compiled_traffic
from tests.ir.op_steps import NOT_FROM_FUNCTIONS, dtypes_of, matrices, step_of
from tests.ir.programs import Program, example, programs

Function = Callable[..., mx.array | list[mx.array]]
X, Y = matrices(3)[:2]
ELEMENTWISE = sorted(
    name
    for name, op in OPS.items()
    if op.kind is Kind.ELEMENTWISE and name not in NOT_FROM_FUNCTIONS
)


def _letters(name: str) -> str:
    """Return what tells kernels apart, whatever the order of their ops; broadcasts cost nothing."""
    return "".join(sorted(name.lower().replace("_", "").replace("broadcast", "")))


def mlx_kernels(function: Function, arrays: list[mx.array], path: Path) -> list[str]:
    """Return the kernels that MLX fuses, as it names them in the graph of a compiled call."""
    mx.eval(arrays)
    made = mx.compile(function)(*arrays)
    mx.export_to_dot(str(path), made)
    return sorted(map(_letters, re.findall(r'label ?= ?"Compiled(\w+)"', path.read_text())))


def known_kernels(captured: Graph) -> list[str]:
    """Return the kernels that the cost model expects, named in the same way."""
    # MLX gives every reader its own broadcast before it fuses.
    graph = split_views(captured)
    groups = [group for group in compile_groups(graph) if len(group) > 1]
    return sorted(_letters("".join(_primitive(graph, i) for i in group)) for group in groups)


_VIEWS = frozenset({"Broadcast", "Squeeze", "ExpandDims", "Reshape", "Transpose", "Slice"})


def launches(function: Function, arrays: list[mx.array], path: Path) -> int:
    """Count what MLX launches of a compiled call: all but views, of which none copies here."""
    mx.eval(arrays)
    made = mx.compile(function)(*arrays)
    mx.export_to_dot(str(path), made)
    ops = re.findall(r'label ?= ?"(\w+)"', path.read_text())
    return sum(op not in _VIEWS and op != "CompiledBroadcast" for op in ops)


def _primitive(graph: Graph, index: int) -> str:
    op = OPS[graph.nodes[index].op]
    return op.primitive if op.primitive and op.variant is None else op.name


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_elementwise_op_is_fused(name: str, tmp_path: Path) -> None:
    step, dtype = step_of(name), dtypes_of(name)[-1]

    def added(x: mx.array, y: mx.array) -> mx.array:
        made = step(x, y, 0)
        first = made[0] if isinstance(made, list) else made
        return first + first.astype(mx.float32)

    arrays = [X.astype(dtype), Y.astype(dtype)]
    expected = known_kernels(capture(added, *arrays))
    assert mlx_kernels(added, arrays, tmp_path / "graph.dot") == expected
    assert expected


def _chain(count: int) -> Function:
    def chained(x: mx.array) -> mx.array:
        for _ in range(count):
            x = mx.sin(x)
        return x

    return chained


def _reduced(x: mx.array) -> mx.array:
    return mx.exp(mx.exp(x + 1).sum(axis=-1) * 2)


def _viewed(x: mx.array, y: mx.array) -> mx.array:
    return mx.exp(mx.sin(x)).T * mx.exp(mx.sin(y)).T


def _wrapped(x: mx.array) -> mx.array:
    return mx.exp(mx.exp(x)[None])


def _shared(x: mx.array, y: mx.array) -> list[mx.array]:
    once = mx.exp(mx.sin(x))
    return [once * y, once.sum()]


def _both(x: mx.array, y: mx.array) -> list[mx.array]:
    once = mx.exp(mx.sin(x))
    return [once * y, once]


def _wider(x: mx.array, y: mx.array) -> list[mx.array]:
    row = mx.exp(mx.sin(x[0]))
    return [row * y, row]


def _many(count: int) -> Function:
    def added(*arrays: mx.array) -> mx.array:
        levels = list(arrays)
        while len(levels) > 1:
            pairs = zip(levels[::2], levels[1::2], strict=False)
            levels = [a * b for a, b in pairs] + levels[len(levels) & ~1 :]
        return levels[0]

    return added


RULES: dict[str, tuple[Function, int]] = {
    "its depth": (_chain(COMPILE_DEPTH), 1),
    "one beyond its depth": (_chain(COMPILE_DEPTH + 1), 1),
    "twice its depth": (_chain(2 * COMPILE_DEPTH + 1), 1),
    "its arrays": (_many(COMPILE_ARRAYS - 1), COMPILE_ARRAYS - 1),
    "more than its arrays": (_many(COMPILE_ARRAYS + 4), COMPILE_ARRAYS + 4),
    "no reduction": (_reduced, 1),
    "no view": (_viewed, 2),
    "no view that adds an axis": (_wrapped, 1),
    "no value that another kernel reads": (_shared, 2),
    "an output of the same shape": (_both, 2),
    "no output of another shape": (_wider, 2),
}


@pytest.mark.parametrize("rule", RULES)
def test_it_fuses_by_the_rules_that_the_model_knows(rule: str, tmp_path: Path) -> None:
    function, count = RULES[rule]
    arrays = [X + place for place in range(count)]
    expected = known_kernels(capture(function, *arrays))
    assert mlx_kernels(function, arrays, tmp_path / "graph.dot") == expected
    assert bool(expected) == (function is not _wrapped)


# Unary steps are among those of rows; some that stand alone are left out of a trace.
@given(programs(8, ("binary", "row", "view")))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_programs_are_fused_as_the_model_says(tmp_path: Path, program: Program) -> None:
    arrays = example(0)
    try:
        captured = capture(program, *arrays)
    except UnsupportedError:
        # Of some functions that return an input as it is, MLX's tracer leaves out the result.
        reject()
    # MLX merges equal ops, but for those that are returned.
    assume(len(merge_common_subexpressions(captured).nodes) == len(captured.nodes))
    expected = known_kernels(captured)
    assert mlx_kernels(program, arrays, tmp_path / "graph.dot") == expected


def _centred(x: mx.array) -> mx.array:
    return mx.exp(x - mx.mean(x, axis=-1, keepdims=True))


def _averages(x: mx.array) -> list[mx.array]:
    mean = mx.mean(x, axis=-1, keepdims=True)
    return [x - mean, mean]


def _squared(x: mx.array) -> mx.array:
    return x * mx.rsqrt(mx.mean(mx.square(x), axis=-1, keepdims=True) + 1e-5)


def _divided(x: mx.array) -> mx.array:
    return mx.tanh(mx.sum(x, axis=0) / x.shape[0]) * x


MEANS = (
    _centred,
    _averages,
    _squared,
    _divided,
    lambda x: mx.mean(x, axis=-1),
    lambda x: mx.mean(x * x),
    lambda x: mx.mean(x, axis=-1) * 2 + 1,
    lambda x: mx.var(x, axis=-1),
    lambda x: mx.std(x, axis=0, ddof=1) * x,
    lambda x: mx.rsqrt(mx.mean(x, axis=0) + mx.max(x, axis=0)) * x,
    lambda x: mx.softmax(x - mx.mean(x, axis=1, keepdims=True), axis=-1),
    lambda x: [mx.mean(x, axis=1), mx.mean(mx.exp(x), axis=0) + 1],
)


@pytest.mark.parametrize("function", MEANS)
def test_launches_of_means_are_those_of_mlx(function: Function, tmp_path: Path) -> None:
    graph = canonicalize(capture(function, X))
    assert "mean" in {node.op for node in graph.nodes}
    assert compiled_traffic(graph).launches == launches(function, [X], tmp_path / "graph.dot")


@pytest.mark.parametrize("function", MEANS)
def test_the_launches_of_groups_add_up(function: Function) -> None:
    graph = canonicalize(capture(function, X))
    counted = compile_launches(graph)
    assert list(counted) == compile_groups(graph)
    assert sum(counted.values()) == compiled_traffic(graph).launches
    assert len({i for group in counted for i in group}) == sum(map(len, counted))
