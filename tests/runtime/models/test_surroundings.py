"""What a model holds besides parameters, and what its code names, may change after `optimize`."""

import importlib
import itertools
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from kernelwright.runtime.models.install import explain_model, optimize_model, restore_model
from kernelwright.runtime.models.surroundings import Surroundings
from tests.runtime.models.replaying import Replaying, served_classes

nn: Any = importlib.import_module("mlx.nn")
"""MLX exports its layers in a way that type checkers do not follow."""
X = mx.linspace(-1, 1, 64).reshape(2, 32)
table = mx.linspace(0, 1, 32)
gain = 2.0


class Layer(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(32, 32)
        self.options: Any = {"scale": 1.0, "more": [1.0]}
        self.config = SimpleNamespace(shift=0.5)

    def __call__(self, x: mx.array) -> mx.array:
        scale = self.options["scale"] * self.options["more"][0] * gain
        made: mx.array = mx.softmax(self.proj(x) * scale + self.config.shift, axis=-1)
        return made


class Stack(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layers = [Layer(), Layer(), nn.Linear(32, 32)]

    def encode(self, x: mx.array) -> mx.array:
        for layer in self.layers[:-1]:
            x = layer(x)
        return x

    def __call__(self, x: mx.array) -> mx.array:
        made: mx.array = self.layers[-1](self.encode(x))
        return made


class Tabled(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(32, 32)

    def __call__(self, x: mx.array) -> mx.array:
        made: mx.array = self.proj(x) * table
        return made


def build(kind: Callable[[], Stack | Tabled] = Stack) -> Stack | Tabled:
    mx.random.seed(3)
    model = kind()
    mx.eval(model.parameters())
    return model


def pair(kind: Callable[[], Stack | Tabled] = Stack) -> tuple[Any, Any]:
    """Return a model with kernels that was called, and the same without."""
    model, other = build(kind), build(kind)
    server = Replaying()
    optimize_model(model, server)
    assert mx.allclose(model(X), other(X), atol=1e-5)
    mx.eval(model(X))
    assert server.runs > 0
    return model, other


def _set_layer(model: Stack) -> None:
    mx.random.seed(5)
    model.layers[0] = nn.Linear(32, 32)


def _insert(model: Stack) -> None:
    mx.random.seed(5)
    model.layers.insert(0, nn.Linear(32, 32))


@pytest.mark.parametrize(
    "change",
    [
        _set_layer,
        _insert,
        lambda model: model.layers.pop(0),
        lambda model: model.layers.reverse(),
        lambda model: model.layers[0].options.update(scale=9.0),
        lambda model: model.layers[0].options["more"].__setitem__(0, 9.0),
        lambda model: setattr(model.layers[0].config, "shift", mx.pi),
        lambda model: model.layers[0].proj.pop("bias"),
        lambda model: nn.quantize(model, group_size=32),
    ],
    ids=["set", "insert", "pop", "reverse", "dict", "nested", "object", "bias", "quantize"],
)
def test_what_a_model_holds_may_change_in_place(change: Callable[[Any], object]) -> None:
    model, other = pair()
    change(model)
    change(other)
    for _ in range(2):
        assert mx.allclose(model(X), other(X), atol=1e-5)


def test_a_list_that_came_later_may_change_in_place() -> None:
    model, other = pair()
    for changed in (model, other):
        changed.layers = list(changed.layers)
    assert mx.allclose(model(X), other(X), atol=1e-5)
    for changed in (model, other):
        changed.layers.pop(0)
    assert mx.allclose(model(X), other(X), atol=1e-5)


def test_arrays_that_are_no_parameters_are_no_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    model, other = pair(Tabled)
    table[:] = mx.linspace(2, 3, 32)
    assert mx.allclose(model(X), other(X), atol=1e-5)
    monkeypatch.setattr(f"{__name__}.table", mx.linspace(4, 5, 32))
    assert mx.allclose(model(X), other(X), atol=1e-5)
    assert served_classes(model) == {"Linear"}


def test_a_part_that_is_called_by_itself_looks_around(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sampled(Stack):
        def __call__(self, x: mx.array) -> mx.array:
            return super().__call__(x) * float(str(mx.max(x).item()))

    model, other = pair(Sampled)
    assert "Layer" in served_classes(model)
    monkeypatch.setattr(f"{__name__}.gain", 7.0)
    assert mx.allclose(model.encode(X), other.encode(X), atol=1e-5)


def test_a_module_may_know_its_parent() -> None:
    def build_family() -> Stack:
        model = Stack()
        object.__setattr__(model.layers[0], "parent", model)
        return model

    pair(build_family)


def test_a_call_of_no_elements_is_mlxs() -> None:
    model, other = pair()
    for _ in range(2):
        assert model(X[:0]).shape == other(X[:0]).shape == (0, 32)


def test_what_goes_wrong_while_looking_fails_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object, **named: object) -> object:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("kernelwright.runtime.models.plan_chooser.trace_call", fail)
    model, other = build(), build()
    optimize_model(model, Replaying())
    assert mx.array_equal(model(X), other(X))
    assert "MLX runs all of it" in explain_model(model, (X,), {})


class Amplifier(threading.local):
    gain = 2.0


class Routed(nn.Module):  # type: ignore[misc]
    def __init__(self, **held: object) -> None:
        super().__init__()
        for name, value in held.items():
            object.__setattr__(self, name, value)

    def __call__(self, x: mx.array) -> mx.array:
        made: mx.array = x * float(next(self.rates)) * self.local.gain * self.drawn.random()
        return made


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("rates", itertools.repeat(2.0), "rates (repeat)"),
        ("local", Amplifier(), "local (_local)"),
        ("drawn", np.random.default_rng(1), "drawn (Generator)"),
    ],
)
def test_a_module_that_holds_such_a_thing_is_left_to_mlx(
    name: str, value: object, said: str
) -> None:
    module = Routed(**{name: value})
    assert Surroundings.of(Routed.__call__, module).obstacle == said
    around = Surroundings.of(Routed.__call__, Routed())
    assert not around.obstacle
    assert around.holds()


def test_a_layer_may_belong_to_two_models() -> None:
    one, other = build(), build()
    two = Stack()
    two.layers = list(one.layers)
    for model in (one, two):
        optimize_model(model, Replaying())
        for _ in range(2):
            assert mx.allclose(model(X), other(X), atol=1e-5)
    for layer in (one.layers[0], other.layers[0]):
        layer.proj = nn.Identity()
    for model in (one, two):
        assert mx.allclose(model(X), other(X), atol=1e-5)
    restore_model(two)
    for layer in (one.layers[0], other.layers[0]):
        layer.proj = nn.RMSNorm(32)
    assert mx.allclose(one(X), other(X), atol=1e-5)


def test_a_part_that_was_restored_may_change() -> None:
    model, other = pair()
    restore_model(model.layers[0])
    for changed in (model, other):
        changed.layers[0].proj = nn.Identity()
    assert mx.allclose(model(X), other(X), atol=1e-5)


def test_an_equal_value_is_the_same_and_another_type_is_not() -> None:
    model = build()
    options = model.layers[0].options
    options["sizes"] = [(1, 2.5)]
    holds = Surroundings.of(_sized, model).holds
    size = [1, 2.5]
    options["sizes"][0] = tuple(size)
    assert holds()
    options["sizes"][0] = (True, 2.5)
    assert not holds()


def _sized(model: Stack) -> object:
    return model.layers[0].options["sizes"]


class Raising:
    __slots__ = ("scale",)

    def __getattr__(self, name: str) -> float:
        raise TypeError("not now")


def test_an_object_that_cannot_be_asked_fails_no_call() -> None:
    class Asking(Tabled):
        def __call__(self, x: mx.array) -> mx.array:
            made: mx.array = self.proj(x)
            return made if x.shape[0] == 2 else made * self.helper.scale

    model = Asking()
    model.helper = Raising()
    optimize_model(model, Replaying())
    for _ in range(2):
        assert mx.allclose(model(X), model.proj(X), atol=1e-5)


def test_a_module_may_be_a_default_of_two_models() -> None:
    class Activated(Tabled):
        def __init__(self, act: Callable[[mx.array], mx.array] = nn.GELU()) -> None:  # noqa: B008
            super().__init__()
            self.act = act

        def __call__(self, x: mx.array) -> mx.array:
            made: mx.array = self.act(self.proj(x))
            return made

    class Owning(Activated):
        def __call__(self, x: mx.array) -> mx.array:
            return Activated.__call__(Activated(nn.silu), x) + super().__call__(x)

    first, second = Activated(), Owning(nn.silu)
    for model in (first, second):
        optimize_model(model, Replaying())
        mx.eval(model(X))
    assert Surroundings.of(Owning.__call__, second).holds()
