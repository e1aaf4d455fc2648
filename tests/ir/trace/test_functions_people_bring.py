"""What people write around ops is captured and replayed bit for bit: transforms, nests, updates."""

import enum
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import mlx.core as mx
import numpy as np
import pytest
from mlx.nn.layers.activations import gelu, log_softmax
from mlx.nn.layers.linear import Linear

from kernelwright.errors import InputError
from kernelwright.ir import canonicalize, capture, interpret, verify
from kernelwright.ir.trace.capture import capture_labelled

X = mx.random.normal((4, 8), key=mx.random.key(0))
Y = mx.random.normal((4, 8), key=mx.random.key(1))
ROWS = mx.array([3, 1, 2, 0])
KEY = mx.random.key(2)
Function = Callable[..., object]


@mx.compile
def _compiled(x: mx.array) -> mx.array:
    return mx.exp(x) * mx.sin(x)


@mx.custom_function
def _custom(x: mx.array) -> mx.array:
    return mx.sin(x) * 2


@_custom.vjp
def _custom_vjp(primals: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
    return cotangent * 3


def _customised(x: mx.array) -> mx.array:
    found = _custom(x)
    assert isinstance(found, mx.array)
    return found.sum()


def _looped(x: mx.array, steps: int) -> mx.array:
    while steps:
        x, steps = mx.sin(x) + steps, steps - 1
    return x


def _updated(x: mx.array, rows: mx.array) -> mx.array:
    found = mx.zeros_like(x)
    found[1:3] = x[:2]
    found[:, ::2] = -1
    found[rows] = found[rows] * 2
    return found


def _tried(x: mx.array) -> mx.array:
    try:
        return x.reshape(5, 5)
    except ValueError:
        return x.reshape(2, 16)


FUNCTIONS: dict[str, tuple[Function, tuple[object, ...]]] = {
    "a loop over a Python number": (_looped, (X, 3)),
    "a choice by shape": (lambda x: x.reshape(-1) if x.shape[0] > 2 else x, (X,)),
    "rows in a loop": (lambda x: mx.stack([mx.softmax(row) for row in x]), (X,)),
    "an error that it handles": (_tried, (X,)),
    "updates in place": (_updated, (X, ROWS)),
    "at, added": (lambda x, rows: x.at[rows].add(1.0), (X, ROWS)),
    "at, the larger": (lambda x, rows: x.at[rows, 2].maximum(0.5), (X, ROWS)),
    "at, multiplied": (lambda x: x.at[:, 1:3].multiply(2.0), (X,)),
    "indices of all kinds": (
        lambda x, rows: (x[rows, rows], x[rows[:, None], rows[None]], x[None, rows, 1:3]),
        (X, ROWS),
    ),
    "a nest": (
        lambda t: {"s": t["a"] + t["b"][0], "v": [t["b"][1][0] * 2]},
        ({"a": X, "b": [Y, (X,)]},),
    ),
    "a compiled function inside": (lambda x: _compiled(x) + 1, (X,)),
    "a function compiled while it runs": (lambda x: mx.compile(lambda a: (a * a).sum(-1))(x), (X,)),
    "without shapes": (lambda x: mx.compile(gelu, shapeless=True)(x), (X,)),
    "a gradient": (lambda x: mx.grad(lambda a: mx.tanh(a).sum())(x), (X,)),
    "a value and its gradient": (
        lambda x, y: mx.value_and_grad(lambda a: ((a - y) ** 2).mean())(x),
        (X, Y),
    ),
    "a gradient of one's own": (lambda x: mx.grad(_customised)(x), (X,)),
    "a second gradient": (
        lambda x: mx.grad(lambda a: mx.grad(lambda b: (b**3).sum())(a).sum())(x),
        (X,),
    ),
    "a vjp": (lambda x, y: mx.vjp(lambda a: log_softmax(a), [x], [y])[1][0], (X, Y)),
    "a jvp": (lambda x, y: mx.jvp(mx.exp, [x], [y])[1][0], (X, Y)),
    "vmap": (lambda x, y: mx.vmap(lambda a, b: mx.softmax(a * b))(x, y), (X, Y)),
    "vmap along others": (lambda x, y: mx.vmap(mx.inner, in_axes=(1, 1))(x, y), (X, Y)),
    "vmap of a gradient": (lambda x: mx.vmap(mx.grad(lambda a: (a**3).sum()))(x), (X,)),
    "keys that are split": (
        lambda x, key: x * mx.random.bernoulli(0.5, x.shape, key=mx.random.split(key)[0]),
        (X, KEY),
    ),
    "a transform of Fourier": (lambda x: mx.fft.irfft(mx.fft.rfft(x) * 2), (X,)),
    "complex numbers": (lambda x, y: mx.abs(mx.exp(x + 1j * y)), (X, Y)),
    "an einsum": (lambda x, y: mx.einsum("ij,kj->ik", x, y), (X, Y)),
    "a tensordot": (lambda x, y: mx.tensordot(x, y.T, axes=1), (X, Y)),
    "linear algebra on the CPU": (
        lambda x: mx.linalg.inv(x @ x.T + 8 * mx.eye(4), stream=mx.cpu),
        (X,),
    ),
    "results that repeat": (lambda x: [(y := mx.exp(x)), y, x], (X,)),
    "no input in a result": (lambda x: (x * 2, mx.ones((2, 2))), (X,)),
}


def _flat(tree: object) -> list[mx.array]:
    if isinstance(tree, mx.array):
        return [tree]
    children = list(tree.values()) if isinstance(tree, dict) else tree
    return (
        [a for child in children for a in _flat(child)]
        if isinstance(children, list | tuple)
        else []
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_replayed_bit_for_bit(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    graph = capture(function, *arguments)
    verify(graph)
    wanted = [np.array(a) for a in _flat(function(*arguments))]
    for form in (graph, canonicalize(graph)):
        replayed = [np.array(a) for a in interpret(form, *arguments)]
        assert [a.tobytes() for a in replayed] == [a.tobytes() for a in wanted]
        assert [(a.shape, a.dtype) for a in replayed] == [(a.shape, a.dtype) for a in wanted]


def test_a_module_among_the_arguments_is_called_as_it_is() -> None:
    # Its weights are not evaluated yet: what makes them is no part of the graph.
    linear = Linear(8, 4)
    graph = capture(lambda x, layer: mx.tanh(layer(x)), X, linear)
    assert len(graph.inputs) == 1
    assert not any(node.op == "random_bits" for node in graph.nodes)
    (made,) = interpret(graph, X)
    assert mx.allclose(made, mx.tanh(linear(X))).item()


class _Mode(enum.Enum):
    SOFT = "soft"


@pytest.mark.parametrize("value", [_Mode.SOFT, b"text", 1j, mx.float16])
def test_plain_values_stand_beside_the_arrays_of_a_result(value: object) -> None:
    graph = capture(lambda x: {"value": value, "x": mx.exp(x)}, X)
    assert len(graph.outputs) == 1


@pytest.mark.parametrize("make", [OrderedDict, lambda pairs: defaultdict(list, pairs)])
def test_dicts_of_other_kinds_keep_their_kind(make: Callable[..., dict[str, object]]) -> None:
    kinds: list[type] = []

    def function(given: dict[str, mx.array]) -> mx.array:
        kinds.append(type(given))
        return given["a"] * given["b"]

    given = make([("a", X), ("b", Y)])
    assert len(capture(function, given).inputs) == 2
    assert set(kinds) == {type(given)}


@dataclass
class _Scores:
    y: mx.array


@mx.compile
def _compiled_to_record(x: mx.array) -> _Scores:
    return _Scores(mx.exp(x))


@partial(mx.compile, shapeless=True)
def _compiled_shapeless(x: mx.array) -> mx.array:
    return mx.exp(x[:, ::2].reshape(8, -1))


def _calls_compiled(x: mx.array) -> mx.array:
    return _compiled_to_record(x).y * 2


@pytest.mark.parametrize("function", [_compiled_to_record, _compiled_shapeless, _calls_compiled])
def test_what_only_its_compiled_call_refuses_is_refused_with_its_line(function: Function) -> None:
    with pytest.raises(InputError, match=r"people_bring.py:\d+\) raises .* at every call, for mx"):
        capture_labelled(function, (X,), {})
    # It can be traced all the same: a trace compiles nothing.
    assert capture(function, X).outputs


def test_what_is_compiled_with_a_state_is_not_called() -> None:
    state = [mx.zeros(8)]

    def update(x: mx.array) -> mx.array:
        return mx.exp(x) + state[0]

    capture_labelled(mx.compile(update, inputs=state, outputs=state), (X,), {})
    assert state[0].tolist() == [0] * 8


_compiled_exp = mx.compile(mx.exp)


def _draws_beside_compiled(x: mx.array) -> mx.array:
    return _compiled_exp(x) + mx.random.uniform(shape=(8,))


def test_a_call_of_what_is_compiled_leaves_the_seed_as_it_was() -> None:
    mx.random.seed(7)
    before = [key.tolist() for key in mx.random.state]  # type: ignore[attr-defined]
    capture_labelled(_draws_beside_compiled, (X,), {})
    assert [key.tolist() for key in mx.random.state] == before  # type: ignore[attr-defined]


def _table(n: int) -> mx.array:
    return mx.cos(mx.arange(n))


def test_a_function_of_sizes_alone_is_captured() -> None:
    graph = capture(_table, 64)
    assert graph.inputs == ()
    (made,) = interpret(graph)
    assert mx.array_equal(made, _table(64)).item()


def test_an_empty_part_of_what_is_joined_plays_no_part() -> None:
    def joined(x: mx.array, cache: mx.array) -> mx.array:
        return mx.exp(mx.concatenate([cache, x, cache], axis=0))

    graph = canonicalize(capture(joined, X, mx.zeros((0, 8))))
    assert [node.op for node in graph.nodes] == ["exp"]
