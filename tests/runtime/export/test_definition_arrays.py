"""Arrays of classes, deques and defaults are the user's in an export, however they were made."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import mlx.core as mx
import pytest

from kernelwright.runtime.export.function.alone import ExampleCall
from kernelwright.runtime.export.function.definition_arrays import definition_arrays
from kernelwright.runtime.export.function.function_export import export_function
from kernelwright.runtime.export.function.module_file import imported
from kernelwright.runtime.export.function.variant import Lookup

_TEXT = """
import collections
import functools

import mlx.core as mx


def draw(n=64):
    return mx.random.normal((n,))


class Given:
    def __init__(self):
        self.array = draw()

    def __get__(self, owner, kind=None):
        return self.array


class Meta(type):
    shift = draw()


class Weights(metaclass=Meta):
    large = draw()
    small = mx.random.normal((1, 1))
    given = Given()
    queue = collections.deque([draw()])


DRAWN = collections.deque([draw(), draw()], maxlen=2)


def large(x):
    return mx.softmax(x * Weights.large, axis=-1)


def small(x):
    return mx.softmax(x * Weights.small, axis=-1)


def given(x):
    return mx.softmax(x * Weights().given, axis=-1)


def of_the_metaclass(x):
    return mx.softmax(x * Weights.shift, axis=-1)


def of_a_class_queue(x):
    return mx.softmax(x * Weights.queue[0], axis=-1)


def of_a_queue(x):
    return mx.softmax(x * DRAWN[0] + DRAWN[1], axis=-1)


def default(x, factor=2.0, weight=draw(), *, shift=draw()):
    return mx.softmax(x * factor * weight + shift, axis=-1)


def default_list(x, weights=[draw(), draw()]):
    return mx.softmax(x * weights[0] + weights[1], axis=-1)


def twice(function):
    @functools.wraps(function)
    def wrapped(x, *args):
        return function(function(x, *args), *args)
    return wrapped


@twice
def decorated(x, weight=draw()):
    return mx.softmax(x * weight, axis=-1)


def helper(x, weight=draw()):
    return mx.softmax(x * weight, axis=-1)


def by_helper(x):
    return helper(x)


class Layer:
    def scale(self, x, weight=draw()):
        return x * weight

    @staticmethod
    def shift(x, weight=draw()):
        return x + weight

    @classmethod
    def rows(cls, x, weight=draw()):
        return mx.softmax(x * weight, axis=-1)

    def __call__(self, x):
        return self.rows(self.shift(self.scale(x)))


layer = Layer()


def by_methods(x):
    return layer(x)
"""


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder: Path = tmp_path_factory.mktemp("user")
    (folder / "heldbyclasses.py").write_text(_TEXT)
    sys.path.insert(0, str(folder))
    yield importlib.import_module("heldbyclasses")
    sys.path.remove(str(folder))
    del sys.modules["heldbyclasses"]


@pytest.mark.parametrize(
    "name",
    [
        "large",
        "small",
        "given",
        "of_the_metaclass",
        "of_a_class_queue",
        "of_a_queue",
        "default",
        "default_list",
        "decorated",
        "by_helper",
        "by_methods",
    ],
)
@pytest.mark.sampled(6)
def test_arrays_that_are_drawn_at_import_are_the_users(
    user: ModuleType, kernels_of: Callable[..., Lookup], name: str
) -> None:
    function = getattr(user, name)
    x = mx.random.normal((4, 64))
    export = export_function(
        function,
        name,
        [ExampleCall((x,), {})],
        kernels_of(lambda _: ("m4-pro",)),
        admits=lambda _: True,
    )
    with imported(export.files, name) as module:
        made = getattr(module, name)
        assert made.serves(x)
        assert mx.array_equal(made(x), function(x)).item()


def test_a_function_of_a_library_keeps_its_defaults() -> None:
    def scaled(x: mx.array, factor: mx.array = mx.ones((64,))) -> mx.array:  # noqa: B008
        return x * factor

    scaled.__module__ = "mlx.nn.layers"
    assert not definition_arrays({"scaled": scaled}, lambda name, array: name).lines
