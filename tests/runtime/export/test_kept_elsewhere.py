"""Functions that keep values in partials, context variables, weak references and caches."""

import contextvars
import functools
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
import pytest

from kernelwright.errors import KernelwrightError
from kernelwright.runtime.export.function.alone import ExampleCall
from kernelwright.runtime.export.function.function_export import FunctionFiles, export_function
from kernelwright.runtime.export.function.module_file import imported
from kernelwright.runtime.export.function.source import carry
from kernelwright.runtime.export.function.variant import Lookup

# mypy: disable-error-code="no-untyped-call,no-any-return,misc,name-defined"

_X = mx.arange(128.0).reshape(4, 32) / 64
_WEIGHT = mx.full((32,), 0.5)


class Holder:
    def __init__(self) -> None:
        self.weight = mx.full((32,), 0.5)


HOLDER = Holder()
OBSERVED = weakref.proxy(HOLDER)


class Child:
    def __init__(self, parent: Holder) -> None:
        self.parent = weakref.ref(parent)

    def __call__(self, x: mx.array) -> mx.array:
        parent = self.parent()
        assert parent is not None
        return mx.softmax(x * parent.weight, axis=-1)


child = Child(HOLDER)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = mx.ones(32)

    @functools.cached_property
    def table(self) -> mx.array:
        return mx.cos(mx.arange(32))

    def scaled(self, x: mx.array, factor: float, *, bias: float = 0.0) -> mx.array:
        return mx.softmax(x * self.weight * factor + bias, axis=-1)

    double = functools.partialmethod(scaled, 2.0, bias=1.0)

    def __call__(self, x: mx.array) -> mx.array:
        return self.double(x) + self.table


scaled = Scaled()


def weighted(x: mx.array, weight: mx.array) -> mx.array:
    return mx.softmax(x * weight, axis=-1)


by_name = functools.partial(weighted, weight=_WEIGHT)
by_place = functools.partial(lambda weight, x: mx.softmax(x * weight, axis=-1), _WEIGHT)
TEMPERATURE = contextvars.ContextVar("TEMPERATURE", default=2.0)


def of_a_partial(x: mx.array) -> mx.array:
    return by_name(x) + 1


def of_a_place(x: mx.array) -> mx.array:
    return by_place(x)


def of_a_context(x: mx.array) -> mx.array:
    return mx.softmax(x * TEMPERATURE.get(), axis=-1)


def of_a_proxy(x: mx.array) -> mx.array:
    return mx.softmax(x * OBSERVED.weight, axis=-1)


def _distance(a: mx.array, b: mx.array) -> mx.array:
    return mx.exp(-mx.square(a - b).sum())


distances = mx.vmap(mx.vmap(_distance, in_axes=(None, 0)), in_axes=(0, None))


def of_mapped(x: mx.array) -> mx.array:
    return 1 - distances(x, x).sum(axis=-1)


@mx.custom_function
def rounded(x: mx.array) -> mx.array:
    return mx.round(x)


@rounded.vjp
def _(primal: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
    return cotangent


def of_a_custom_function(x: mx.array) -> mx.array:
    return cast("mx.array", rounded(x)) * 2


class Table:
    def __init__(self) -> None:
        self.table: mx.array | None = None

    def __call__(self, x: mx.array) -> mx.array:
        if self.table is None:
            self.table = mx.cos(mx.arange(32))
        return mx.softmax(x * self.table, axis=-1)


filled = Table()


def _exported(function: Callable[..., object], name: str, lookup: Lookup) -> FunctionFiles:
    return export_function(function, name, [ExampleCall((_X,), {})], lookup, admits=lambda _: True)


def _serves(module: ModuleType, name: str) -> bool:
    found = getattr(module, name)
    if hasattr(found, "serves"):
        return bool(found.serves(_X))
    call: Any = type(found).__call__
    return bool(call.serves(found, _X))


@pytest.fixture
def lookup(kernels_of: Callable[..., Lookup]) -> Lookup:
    return kernels_of(lambda _: ("m4-pro",))


@pytest.mark.parametrize("name", ["child", "scaled", "of_a_partial", "of_a_context", "of_mapped"])
@pytest.mark.sampled(3)
def test_it_is_served_and_computes_the_same(name: str, lookup: Lookup) -> None:
    function = globals()[name]
    with imported(_exported(function, name, lookup).files, name) as module:
        assert _serves(module, name)
        assert mx.allclose(getattr(module, name)(_X), function(_X)).item()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("child", lambda module: vars(module.HOLDER)),
        ("of_a_partial", lambda module: module.by_name.keywords),
    ],
)
def test_an_array_that_is_put_in_later_is_an_input(
    name: str, change: Callable[[ModuleType], dict[str, object]], lookup: Lookup
) -> None:
    with imported(_exported(globals()[name], name, lookup).files, name) as module:
        before = getattr(module, name)(_X)
        change(module)["weight"] = mx.zeros(32)
        assert _serves(module, name)
        (variants,) = module._VARIANTS.values()
        assert all(variant.slots for variant in variants)
        assert not mx.allclose(getattr(module, name)(_X), before).item()


def test_a_context_that_was_changed_is_not_served(lookup: Lookup) -> None:
    name = "of_a_context"
    with imported(_exported(of_a_context, name, lookup).files, name) as module:
        token = module.TEMPERATURE.set(3.0)
        assert not _serves(module, name)
        module.TEMPERATURE.reset(token)
        assert _serves(module, name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("of_a_place", r"an array where no other can be put \(by_place\), such as a positional"),
        ("of_a_proxy", r"reads OBSERVED \(ProxyType\), and nothing tells when that changes; keep"),
        ("filled", r"changes what it keeps \(.*elsewhere.py:\d+\); compute that once, in __init__"),
    ],
)
def test_what_no_export_follows_is_refused(name: str, words: str, lookup: Lookup) -> None:
    with pytest.raises(KernelwrightError, match=words):
        _exported(globals()[name], name, lookup)
    assert filled.table is None


def test_the_derivative_of_a_custom_function_is_carried() -> None:
    blocks = carry(of_a_custom_function, "of_a_custom_function").blocks
    assert any("@rounded.vjp\ndef rounded_rule_1(" in block for block in blocks)
