"""Code that looks at the classes of modules finds those that it wrote."""

import importlib
from typing import Any

import mlx.core as mx
import pytest

from kernelwright.runtime.models.install import explain_model, optimize_model, restore_model
from tests.runtime.models.replaying import Replaying

nn: Any = importlib.import_module("mlx.nn")
"""MLX exports its layers in a way that type checkers do not follow."""
X = mx.linspace(-1, 1, 64).reshape(2, 32)
registered: list[str] = []


class Registering(type):
    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, object]) -> type:
        registered.append(name)
        return super().__new__(cls, name, bases, body)


class Plain(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(32, 32)
        self.norm = nn.RMSNorm(32)

    def __call__(self, x: mx.array) -> mx.array:
        made: mx.array = self.norm(self.proj(x))
        return made


class Noted(Plain, metaclass=Registering):
    pass


class _Named(Plain):
    def __init_subclass__(cls, name: str) -> None:
        super().__init_subclass__()
        cls.name = name


class Named(_Named, name="some"):
    pass


class Looking(Plain):
    def __call__(self, x: mx.array) -> mx.array:
        gains = {nn.Linear: 2.0, nn.RMSNorm: 3.0}
        is_own = self.__class__ is Looking and type(self.norm) in {nn.RMSNorm, nn.LayerNorm}
        return super().__call__(x) * gains[type(self.proj)] * (5.0 if is_own else 7.0)


@pytest.mark.parametrize("kind", [Plain, Noted, Named, Looking])
def test_a_model_computes_what_its_classes_say(kind: type[Plain]) -> None:
    model = kind()
    known, expected = list(registered), model(X)
    server = Replaying()
    optimize_model(model, server)
    for _ in range(3):
        assert mx.allclose(model(X), expected, atol=1e-5)
    assert server.runs > 0
    assert registered == known
    assert {type(model): 1}[kind] == 1
    assert model.__class__ is kind
    restore_model(model)
    assert type(model) is kind


class Strict(Plain):
    def __call__(self, x: mx.array) -> mx.array:
        return super().__call__(x) * (5.0 if type(self.proj) is nn.Linear else 7.0)


class StrictWithin(Plain):
    def __call__(self, x: mx.array) -> mx.array:
        kinds = [type(part) is type(self.norm) for part in (self.proj, nn.RMSNorm(32))]
        return super().__call__(x) * sum(kinds)


class Lenient(Plain):
    def __call__(self, x: mx.array) -> mx.array:
        is_other = type(x) is not mx.array or type(self) is None
        return super().__call__(x) * (5.0 if is_other else 7.0)


@pytest.mark.parametrize("kind", [Strict, StrictWithin])
def test_a_model_that_compares_classes_by_identity_is_left_to_mlx(kind: type[Plain]) -> None:
    model = kind()
    expected = model(X)
    optimize_model(model, Replaying())
    for _ in range(2):
        assert mx.allclose(model(X), expected, atol=1e-5)
    assert f"{kind.__name__}.__call__ compares the class of a module" in explain_model(
        model, (), {}
    )


def test_other_comparisons_by_identity_do_not_count() -> None:
    model, server = Lenient(), Replaying()
    expected = model(X)
    optimize_model(model, server)
    for _ in range(2):
        assert mx.allclose(model(X), expected, atol=1e-5)
    assert server.runs > 0


def test_a_module_may_be_given_another_class() -> None:
    class Twice(nn.Linear):  # type: ignore[misc]
        def __call__(self, x: mx.array) -> mx.array:
            made: mx.array = super().__call__(x) * 2
            return made

    model = nn.Sequential(nn.Linear(32, 32), nn.RMSNorm(32), nn.Linear(32, 32))
    optimize_model(model, Replaying())
    expected = model(X)
    mx.eval(model(X))
    model.layers[-1].__class__ = Twice
    assert mx.allclose(model(X), expected * 2, atol=1e-5)
