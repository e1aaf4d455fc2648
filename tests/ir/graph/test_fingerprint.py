"""A fingerprint changes with what is computed and with nothing else."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace

import mlx.core as mx
import pytest

from kernelwright import ir
from kernelwright.ir import Constant, Dtype, Graph, Node, TensorType, canonicalize, capture
from tests.ir.functions import CASES, Case, arrays

X = mx.arange(24.0).reshape(4, 6)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_two_tracings_agree(case: Case) -> None:
    first, second = (capture(case.function, *arrays(case.kinds, seed)) for seed in (0, 1))
    assert first.fingerprint == second.fingerprint


PROCESS = """
import mlx.core as mx
from kernelwright.ir import canonicalize, capture
mx.set_default_device(mx.cpu)
def fn(x, w, *, mask):
    return mx.softmax(mx.where(mask, mx.fast.rms_norm(x, w, 1e-5) * 2 - 1, -mx.inf), axis=-1)
x = mx.zeros((4, 8), mx.float16)
print(canonicalize(capture(fn, x, x[0], mask=x > 0)).fingerprint)
"""


def test_two_processes_agree() -> None:
    seeds = ("1", "2")
    printed = [
        subprocess.run(
            [sys.executable, "-c", PROCESS],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in seeds
    ]
    assert printed[0] == printed[1]
    assert len(printed[0].strip()) == 64


def _changed(value: ir.graph.Attribute) -> ir.graph.Attribute:
    match value:
        case bool():
            return not value
        case Dtype():
            return Dtype.INT8 if value is not Dtype.INT8 else Dtype.INT16
        case int() | float():
            return value + 1
        case str():
            return value + "x"
    return (*value, 1)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_attribute_counts(case: Case) -> None:
    graph = canonicalize(capture(case.function, *arrays(case.kinds, 0)))
    for place, node in enumerate(graph.nodes):
        for key, value in node.attributes:
            attributes = tuple((k, _changed(v) if k == key else v) for k, v in node.attributes)
            nodes = list(graph.nodes)
            nodes[place] = Node(node.op, node.inputs, node.outputs, attributes)
            other = replace(graph, nodes=tuple(nodes))
            assert other.fingerprint != graph.fingerprint, (node, key, value)


def _graph() -> Graph:
    return canonicalize(capture(lambda x, y: mx.exp(x * 3) - y, X, X))


def _other_constant(graph: Graph) -> Graph:
    value, constant = graph.constants[0]
    changed = Constant(constant.type, bytes(reversed(constant.data)))
    return replace(graph, constants=((value, changed),))


def _other_wiring(graph: Graph) -> Graph:
    *nodes, last = graph.nodes
    swapped = Node(last.op, last.inputs[::-1], last.outputs, last.attributes)
    return replace(graph, nodes=(*nodes, swapped))


def _other_op(graph: Graph) -> Graph:
    *nodes, last = graph.nodes
    return replace(graph, nodes=(*nodes, Node("add", last.inputs, last.outputs)))


def _other_dtype(graph: Graph) -> Graph:
    types = tuple(TensorType(t.shape, Dtype.FLOAT16) for t in graph.types)
    return replace(graph, types=types)


def _other_outputs(graph: Graph) -> Graph:
    return replace(graph, outputs=graph.outputs * 2)


def _other_shape(graph: Graph) -> Graph:
    return ir.resize(graph, {(0, 0): 5})


@pytest.mark.parametrize(
    "change",
    [_other_constant, _other_wiring, _other_op, _other_dtype, _other_outputs, _other_shape],
)
def test_constants_wiring_ops_dtypes_outputs_and_shapes_count(
    change: Callable[[Graph], Graph],
) -> None:
    assert change(_graph()).fingerprint != _graph().fingerprint


def test_what_travels_between_processes_carries_no_cache() -> None:
    graph = _graph()
    assert hash(graph) == hash(_graph())
    assert graph.fingerprint
    sent = pickle.loads(pickle.dumps(graph))
    assert set(sent.__dict__) == {f.name for f in fields(Graph)}
    assert sent == graph


def test_names_keywords_dead_values_and_order_do_not_count() -> None:
    graph = _graph()
    named = replace(graph, names=("a", "b"), keywords=("b",))
    dead = replace(
        graph,
        types=(*graph.types, graph.types[0]),
        nodes=(*graph.nodes, Node("exp", (graph.inputs[0],), (len(graph.types),))),
    )
    assert graph.fingerprint == named.fingerprint == dead.fingerprint


def test_two_ways_to_write_a_computation_share_a_fingerprint() -> None:
    def one(x: mx.array) -> mx.array:
        middle = x.mean(axis=-1, keepdims=True)
        return (x - middle) * 2

    def other(x: mx.array) -> mx.array:
        middle = (mx.sum(x, axis=1) * (1 / 6))[:, None]
        return 2 * (x.reshape(24).reshape(4, 6) - middle)

    assert canonicalize(capture(one, X)).fingerprint == canonicalize(capture(other, X)).fingerprint
