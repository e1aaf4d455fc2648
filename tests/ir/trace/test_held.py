"""Arrays that are not evaluated yet are constants of a captured call, whatever holds them."""

import contextvars
import functools
import io
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.ir import capture_call, capture_labelled

Function = Callable[[mx.array], mx.array]


def _drawn() -> mx.array:
    return mx.random.normal((8, 8))


class _Meta(type):
    weight = _drawn()


class _Descriptor:
    def __init__(self) -> None:
        self.weight = _drawn()

    def __get__(self, owner: object, kind: type | None = None) -> mx.array:
        return self.weight


class _Class(metaclass=_Meta):
    weight = _drawn()
    ones = mx.ones((8,))
    broadcast = mx.broadcast_to(mx.arange(8.0), (8, 8))
    constant = mx.broadcast_to(mx.array(2.0), (8, 8))
    described = _Descriptor()

    @property
    def property(self) -> mx.array:
        return _Class.weight


class _Slots:
    __slots__ = ("__weakref__", "weight")

    def __init__(self) -> None:
        self.weight = _drawn()


@functools.cache
def _mask(n: int) -> mx.array:
    return mx.arange(n * n).reshape(n, n) * 0.5


def _generated() -> Iterator[mx.array]:
    weight = _drawn()
    while True:
        yield weight


_SLOTS, _COMPILED_SLOTS = _Slots(), _Slots()
_WEAK = weakref.ref(_SLOTS)
_SPACE = types.SimpleNamespace(weight=_drawn())
_QUEUE = deque([_drawn()])
_CONTEXT: contextvars.ContextVar[mx.array] = contextvars.ContextVar("weight")
_CONTEXT.set(_drawn())
_GENERATED = _generated()
_OBJECTS = np.empty(1, dtype=object)
_OBJECTS[0] = _drawn()


@mx.compile
def _compiled(x: mx.array) -> mx.array:
    return mx.exp(x) @ _COMPILED_SLOTS.weight


_HOLDERS: dict[str, Function] = {
    "class": lambda x: x @ _Class.weight,
    "slots": lambda x: x @ _SLOTS.weight,
    "namespace": lambda x: x @ _SPACE.weight,
    "deque": lambda x: x @ _QUEUE[0],
    "cache": lambda x: x @ _mask(8),
    "context variable": lambda x: x @ _CONTEXT.get(),
    "generator": lambda x: x @ next(_GENERATED),
    "weak reference": lambda x: x @ _WEAK().weight,  # type: ignore[union-attr]
    "descriptor": lambda x: x @ _Class().described,
    "metaclass": lambda x: x @ type(_Class).weight,
    "property": lambda x: x @ _Class().property,
    "compiled": lambda x: _compiled(x),
    "array of objects": lambda x: x @ _OBJECTS[0],
    "ones": lambda x: x * _Class.ones,
    "broadcast": lambda x: x * _Class.broadcast,
}


@pytest.mark.parametrize("holder", _HOLDERS)
@pytest.mark.sampled(8)
def test_what_existed_before_a_call_is_a_constant(holder: str) -> None:
    graph = capture_call(_HOLDERS[holder], mx.zeros((8, 8))).graph
    made = {"random_bits", "full", "arange"}.intersection(node.op for node in graph.nodes)
    assert not made
    assert [c.type.shape for _, c in graph.constants] in ([(8, 8)], [(8,)])


def test_a_held_array_that_is_returned_is_a_constant() -> None:
    held = deque([_drawn()])
    graph = capture_call(lambda x: (x + 1, held[0]), mx.zeros((8, 8))).graph
    assert [node.op for node in graph.nodes] == ["broadcast", "add"]


def test_a_constants_broadcast_is_one_of_the_call_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    # To look for what is alive takes longer than to trace `x * 2.0`.
    monkeypatch.setattr("kernelwright.ir.trace.held._live_arrays", pytest.fail)
    of_a_call, held = (
        capture_call(fn, mx.zeros((8, 8))).graph
        for fn in (lambda x: x * 2.0, lambda x: x * _Class.constant)
    )
    assert [node.op for node in of_a_call.nodes] == ["broadcast", "multiply"]
    assert held.to_json() == of_a_call.to_json()


def test_what_a_call_makes_itself_stays_an_operation() -> None:
    graph = capture_call(lambda x: x + mx.arange(8), mx.zeros((8, 8), mx.int32)).graph
    assert "arange" in {node.op for node in graph.nodes}


def test_what_mlx_cannot_export_is_evaluated_where_it_is_held() -> None:
    held = deque([mx.bitwise_invert(mx.arange(8))])
    graph = capture_call(lambda x: x + held[0], mx.zeros((8, 8), mx.int32)).graph
    assert [c.type.shape for _, c in graph.constants] == [(8,)]


def test_names_are_kept_where_a_held_array_was_evaluated() -> None:
    held = deque([_drawn()])

    def scaled(x: mx.array) -> mx.array:
        hidden = x @ held[0]
        return mx.exp(hidden)

    labels = capture_labelled(scaled, [mx.zeros((8, 8))], {}).labels
    assert "hidden" in {sighting.name for _, seen in labels for sighting in seen}


def test_arrays_of_others_are_left_unevaluated() -> None:
    other = [mx.ones((8, 8)) * 2]
    capture_call(lambda x: x + mx.ones((8, 8)), mx.zeros((8, 8)))
    drawing = io.StringIO()
    mx.export_to_dot(drawing, other[0])
    assert "Multiply" in drawing.getvalue()


@pytest.mark.parametrize("have_values", [False, True])
def test_as_many_arrays_may_be_alive_as_a_large_model_has(*, have_values: bool) -> None:
    others = [_drawn() + number for number in range(1100)]
    if have_values:
        mx.eval(others)
    held = types.SimpleNamespace(weight=_drawn())
    graph = capture_call(lambda x: x * held.weight + mx.ones((8, 8)), mx.zeros((8, 8))).graph
    held_values = [c.array for _, c in graph.constants if c.type.shape == (8, 8)]
    assert any(np.array_equal(values, np.array(held.weight)) for values in held_values)
    assert len(others) == 1100


def test_as_many_inputs_may_be_given_as_a_large_model_has() -> None:
    inputs = [mx.zeros((8, 8)) for _ in range(1100)]
    held = types.SimpleNamespace(weight=_drawn())
    call = capture_call(lambda xs: [x + held.weight for x in xs[-3:]], inputs)
    assert len(call.graph.inputs) == 1100
    (constant,) = call.graph.constants
    assert np.array_equal(constant[1].array, np.array(held.weight))
