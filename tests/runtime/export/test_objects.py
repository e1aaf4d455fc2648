"""Objects come into an export as they are, whatever made them, and calls are told apart by them."""

# MLX's stubs lack its layers, and what is called here comes from printed text.
# mypy: ignore-errors

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from kernelwright.runtime.export.function.alone import ExampleCall
from kernelwright.runtime.export.function.function_export import export_function
from kernelwright.runtime.export.function.module_file import imported
from kernelwright.runtime.export.function.passed_call import _Call
from kernelwright.runtime.export.function.portability import NotPortableError
from kernelwright.runtime.export.function.source import carry
from kernelwright.runtime.export.function.variant import Lookup

X = mx.random.normal((3, 8), key=mx.random.key(1))
TABLE = np.linspace(0, 1, 8)


class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"


class Pair(NamedTuple):
    low: mx.array
    high: float


@dataclass(frozen=True)
class Config:
    mode: Mode = Mode.SUM
    pair: Pair = field(default_factory=lambda: Pair(mx.arange(8) * 0.5, 2.0))


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor: float) -> None:
        self.factor = factor


def squared(x: mx.array, power: int = 2) -> mx.array:
    return x**power


class Layer(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.tied = [self.linear, {"again": self.linear}]
        self.config, self.slotted = config, Slotted(3.0)
        self.act = functools.partial(squared, power=3)
        self.table = TABLE
        self.kinds = {"a", "b"}

    def __call__(self, x: mx.array) -> mx.array:
        x = self.act(self.linear(x)) * self.config.pair.low + self.slotted.factor
        x = x + mx.array(self.table.astype(np.float32))
        return x.sum(-1) if self.config.mode is Mode.SUM else x.mean(-1)


def _alone(function: Callable[..., object], name: str, *, by_state: bool) -> Callable[..., object]:
    source = carry(function, name, by_state=by_state)
    space: dict[str, object] = {"_DATA": source.data, "mx": mx, **source.arrays}
    exec("\n".join([*dict.fromkeys(source.imports), *source.blocks]), space)
    made = space[name]
    assert callable(made)
    return made


def test_an_object_that_no_statement_makes_is_written_out() -> None:
    layers = [Layer(Config(mode)) for mode in Mode]
    for layer in layers:
        layer.eval()
        layer.linear.weight = layer.linear.weight * 2
        layer.linear = nn.QuantizedLinear.from_linear(nn.Linear(32, 8), 32, 8)
        made = _alone(layer, "layer", by_state=True)
        wide = mx.concatenate([X] * 4, axis=1)
        assert mx.array_equal(made(wide), layer(wide)).item()
        assert not made.training


def test_what_two_places_share_stays_shared() -> None:
    made = _alone(Layer(Config()), "layer", by_state=True)
    assert made.tied[0] is made.linear
    assert made.tied[1]["again"] is made.linear


def test_what_has_no_text_is_named_with_its_place() -> None:
    layer = Layer(Config())
    layer.tied[1]["rows"] = iter([1])
    with pytest.raises(NotPortableError, match=r"layer\.tied\.1\.rows is a list_iterator"):
        carry(layer, "layer", by_state=True)


def test_a_lambda_a_partial_and_a_closure_are_carried() -> None:
    made = [lambda x, k=2: x * k, lambda x: x + TABLE.size]
    functions = [*made, functools.partial(squared, power=4), _scaled(3.0), mx.compile(squared)]
    for function in functions:
        alone = _alone(function, "function", by_state=False)
        assert mx.allclose(alone(X), function(X)).item()


class Chain:
    def __init__(self, *steps: Callable[[mx.array], mx.array]) -> None:
        self.steps = [*steps]

    def __call__(self, x: mx.array) -> mx.array:
        for step in self.steps:
            x = step(x)
        return x


raised = functools.partial(lambda power, x: x**power, 3)
chain = Chain(lambda x: x * 2 + TABLE.size, lambda x: x - 1)
chain.steps.append(chain.steps[0])


def test_lambdas_that_others_hold_are_carried() -> None:
    for function, by_state in ((raised, False), (chain, True)):
        alone = _alone(function, "function", by_state=by_state)
        assert mx.allclose(alone(X), function(X)).item()
    steps = vars(_alone(chain, "chain", by_state=True))["steps"]
    assert steps[0] is steps[2]


def _scaled(factor: float) -> Callable[[mx.array], mx.array]:
    def scaled(x: mx.array) -> mx.array:
        return x * factor

    return scaled


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.array([1.0, 2.0]), np.array([1.0, 3.0])),
        (np.float32(1), np.float32(2)),
        (range(3), range(4)),
        ({1, 2}, {1, 3}),
        (slice(1), slice(2)),
        (Mode.SUM, Mode.MEAN),
        (_scaled(1.0), _scaled(2.0)),
        (lambda x: x + 1, lambda x: x - 1),
        (functools.partial(squared, power=2), functools.partial(squared, power=3)),
        (Slotted(1.0), Slotted(2.0)),
        (Config(Mode.SUM), Config(Mode.MEAN)),
        (_scaled(1.0), squared),
    ],
)
def test_calls_with_other_values_are_told_apart(one: object, other: object) -> None:
    assert _Call(((X, one), {})).key != _Call(((X, other), {})).key


def test_calls_with_equal_values_are_one() -> None:
    for make in (lambda: np.ones(3), lambda: {"b", "a"}, lambda: _scaled(2.0), lambda: Config()):
        assert _Call(((X, make()), {})).key == _Call(((X, make()), {})).key


class Failing:
    """Its attributes fail, as those of a configuration do that misses its file."""

    def __init__(self) -> None:
        self.scale = 2.0

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"{name} cannot be read")


class Lenient(dict):
    """Has every attribute, if only as None."""

    __getattr__ = dict.get


def test_objects_that_make_attributes_up_are_carried(kernels_of: Callable[..., Lookup]) -> None:
    x = mx.zeros((4, 8))
    export = export_function(
        _shifted,
        "shifted",
        [ExampleCall((x,), {})],
        kernels_of(lambda _: ("m4-pro",)),
        admits=lambda _: True,
    )
    with imported(export.files, "shifted") as module:
        assert module.shifted.serves(x)
        assert module.shifted(x).tolist() == _shifted(x).tolist()


failing = Failing()


def _shifted(x: mx.array, shift: Lenient = Lenient(by=0.5)) -> mx.array:  # noqa: B008
    return mx.exp(x) * failing.scale + shift.by
