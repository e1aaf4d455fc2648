"""What a function reads besides its arguments stays what it is: parameters, captures, globals."""

from collections.abc import Callable, Mapping

import mlx.core as mx
import numpy as np
import pytest
from mlx.nn.layers.activations import Softmax
from mlx.nn.layers.base import Module
from mlx.nn.layers.containers import Sequential
from mlx.nn.layers.dropout import Dropout
from mlx.nn.layers.linear import Linear
from mlx.nn.utils import value_and_grad

from kernelwright import ir
from kernelwright.ir.graph import Graph
from kernelwright.plan import partition
from kernelwright.runtime.optimize import Optimized
from kernelwright.runtime.server import KernelServer, Service
from kernelwright.runtime.state import state_of

SCALE = mx.full((8,), 2.0)
NESTED = {"list": [mx.ones((8,))], "text": "no array"}


class Replaying(KernelServer):
    """Serves every region with MLX's own operations."""

    def serve(self, graph: Graph) -> Service:
        tasks = {region: region.extract() for region in partition(graph)}
        programs = {
            region: (lambda arrays, task=task: ir.interpret(task, *arrays))
            for region, task in tasks.items()
        }
        return Service(graph, programs, (), "every region replays MLX")


class Layer(Module):
    """A layer with its own array and a layer inside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.weight = mx.ones((8,))
        self.inner = Linear(8, 8)
        self.cache: list[mx.array] = []

    def __call__(self, x: mx.array) -> mx.array:
        return mx.softmax(self.inner(x) * self.weight, axis=-1)

    def remember(self, x: mx.array) -> mx.array:
        self.cache.append(mx.exp(x))
        return mx.exp(x) * 2 + 1

    def fill(self, x: mx.array) -> mx.array:
        self.weight[2:4] = x[0, 0]
        return mx.exp(x) * self.weight

    def renew(self, x: mx.array) -> mx.array:
        self.weight = self.weight + 1
        return mx.exp(x) * self.weight


T = (mx.ones((8,)), mx.ones((8,)))


def transposed(x: mx.array) -> mx.array:
    return mx.exp(x.T)


def added(x: mx.array, y: mx.array) -> mx.array:
    x += y
    return mx.exp(x)


def overwritten(cache: mx.array, y: mx.array) -> mx.array:
    cache[1] = y[0]
    return mx.exp(cache) * 2


def appended(cache: dict[str, mx.array], y: mx.array) -> mx.array:
    cache["keys"] = mx.concatenate([cache["keys"], y])
    return mx.exp(cache["keys"])


def with_global(x: mx.array) -> mx.array:
    return mx.exp(x) * SCALE + NESTED["list"][0]  # type: ignore[operator]


def x() -> mx.array:
    return mx.array(np.random.default_rng(0).standard_normal((4, 8), dtype=np.float32))


def same(found: object, expected: object) -> bool:
    return bool(mx.allclose(found, expected).item())  # type: ignore[arg-type]


def optimized(function: Callable[..., object]) -> Optimized:
    return Optimized(function, Replaying())


def test_a_module_computes_with_its_parameters_of_the_day() -> None:
    layer = Layer()
    for fast in (optimized(layer), optimized(layer.__call__), optimized(lambda x: layer(x))):
        assert fast.explain(x()).path == "kernels"
        assert same(fast(x()), layer(x()))
        layer.weight = layer.weight * 3
        layer.inner.weight = layer.inner.weight + 1
        assert same(fast(x()), layer(x()))


@pytest.mark.parametrize("is_warm", [True, False])
def test_gradients_flow_to_parameters(*, is_warm: bool) -> None:
    layer = Layer()
    fast = optimized(layer)
    if is_warm:
        fast(x())

    def gradients(function: Callable[..., object]) -> Mapping[str, mx.array]:
        loss = value_and_grad(layer, lambda x: mx.sum(mx.square(function(x))))  # type: ignore[arg-type]
        return loss(x())[1]  # type: ignore[no-any-return]

    found, expected = gradients(fast), gradients(layer)
    assert fast.explain(x()).path == "kernels"
    assert same(found["weight"], expected["weight"])
    assert same(found["inner"]["weight"], expected["inner"]["weight"])
    assert mx.any(found["weight"] != 0).item()


def test_captured_and_global_arrays_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = mx.ones((8,))

    def with_capture(x: mx.array) -> mx.array:
        return mx.exp(x) * captured

    for function in (with_capture, with_global):
        fast = optimized(function)
        assert same(fast(x()), function(x()))
        captured = captured * 5
        monkeypatch.setitem(globals(), "SCALE", SCALE * 7)
        monkeypatch.setitem(NESTED, "list", [mx.zeros((8,))])
        assert same(fast(x()), function(x()))
        assert fast.explain(x()).path == "kernels"


def test_training_and_evaluation_are_two_functions() -> None:
    dropping = Sequential(Softmax(), Dropout(0.5))  # type: ignore[no-untyped-call]
    fast = optimized(dropping)
    dropping.eval()
    assert same(fast(x()), mx.softmax(x(), axis=-1))
    assert fast.explain(x()).path == "kernels"
    dropping.train()
    assert "draws random numbers" in fast.explain(x()).reason
    assert not same(fast(x()), fast(x()))


@pytest.mark.parametrize("name", ["remember", "renew", "fill"])
def test_functions_that_change_what_they_keep_run_as_they_are(name: str) -> None:
    layer, reference = Layer(), Layer()
    fast = optimized(getattr(layer, name))
    for _ in range(3):
        assert same(fast(x()), getattr(reference, name)(x()))
    assert fast.explain(x()).path == "original"
    assert len(layer.cache) == len(reference.cache)
    assert same(layer.weight, reference.weight)


@pytest.mark.parametrize("function", [added, overwritten])
def test_an_argument_that_is_changed_in_place_changes(
    function: Callable[[mx.array, mx.array], mx.array],
) -> None:
    given, expected = mx.zeros((4, 8)), mx.zeros((4, 8))
    fast = optimized(function)
    assert same(fast(given, x()), function(expected, x()))
    assert same(given, expected)
    assert "changes an array in place" in fast.explain(given, x()).reason


def test_a_dict_that_is_changed_changes() -> None:
    cache = {"keys": mx.zeros((2, 8))}
    fast = optimized(appended)
    assert "changes a list or dict" in fast.explain(cache, x()).reason
    fast(cache, x())
    assert cache["keys"].shape == (6, 8)


def test_what_only_its_own_copy_changes_is_served() -> None:
    def shifted(x: mx.array) -> mx.array:
        moved = x * 2
        moved[0] = 1
        return mx.exp(moved)

    assert optimized(shifted).explain(x()).path == "kernels"


def test_an_array_that_cannot_be_replaced_keeps_the_original() -> None:
    pair = (mx.ones((8,)), mx.ones((8,)))
    fast = optimized(lambda x: mx.exp(x) * pair[0])
    assert "reads an array from a tuple" in fast.explain(x()).reason


def test_an_attribute_is_no_global_of_its_name() -> None:
    assert optimized(transposed).explain(x()).path == "kernels"


def test_a_reason_names_the_users_function() -> None:
    def peeking(x: mx.array) -> mx.array:
        return x * 2 if bool(x.sum() > 0) else x

    reason = optimized(peeking).explain(x()).reason
    assert peeking.__qualname__ in reason
    assert "looks at the values" in reason


def test_other_names_are_not_state() -> None:
    assert state_of(x).slots == []
    assert len(state_of(with_global).slots) == 2


def test_tracing_never_touches_what_the_function_keeps() -> None:
    layer = Layer()
    before, wrong = layer.weight, []

    class Looking(Replaying):
        def serve(self, graph: Graph) -> Service:
            wrong.append(layer.weight is not before)
            return super().serve(graph)

    put = type(layer).__setitem__
    writes: list[object] = []

    def noting(self: Layer, key: object, value: object) -> None:
        if self is layer:
            writes.append(key)
        put(self, key, value)

    Layer.__setitem__ = noting  # type: ignore[method-assign,assignment]
    try:
        fast = Optimized(lambda x: layer(x) * SCALE, Looking())
        assert fast.explain(x()).path == "kernels"
    finally:
        del Layer.__setitem__
    assert writes == []
    assert wrong == [False]


COUNT = 0
LAST: list[int] | None = None


class Counted:
    calls = 0

    def __init__(self) -> None:
        self.seen = 0

    def by_object(self, x: mx.array) -> mx.array:
        self.seen += 1
        return mx.exp(x) * 2 + 1

    def by_class(self, x: mx.array) -> mx.array:
        Counted.calls += 1
        return mx.exp(x) * 2 + 1


def counted(x: mx.array) -> mx.array:
    global COUNT
    COUNT += 1
    return mx.exp(x) * 2 + 1


def remembered(x: mx.array) -> mx.array:
    global LAST
    LAST = [len(x.shape)]
    return mx.exp(x) * 2 + 1


def _counting() -> tuple[Callable[[mx.array], mx.array], Callable[[], int]]:
    count = 0

    def counted(x: mx.array) -> mx.array:
        nonlocal count
        count += 1
        return mx.exp(x) * 2 + 1

    return counted, lambda: count


def _effects() -> dict[str, tuple[Callable[[mx.array], mx.array], Callable[[], object]]]:
    counter = Counted()
    return {
        "a global": (counted, lambda: COUNT),
        "a global that was not bound": (remembered, lambda: LAST),
        "a variable of an enclosing function": _counting(),
        "an object": (counter.by_object, lambda: counter.seen),
        "a class": (counter.by_class, lambda: Counted.calls),
    }


@pytest.mark.parametrize("what", list(_effects()))
def test_what_a_function_changes_besides_arrays_changes(what: str) -> None:
    global COUNT, LAST
    COUNT, LAST, Counted.calls = 0, None, 0
    function, value = _effects()[what]
    fast = optimized(function)
    for _ in range(3):
        fast(x())
    found = value()
    assert found == ([2] if what.endswith("not bound") else 3)
    assert "changes what it keeps" in fast.explain(x()).reason
    assert value() == found
