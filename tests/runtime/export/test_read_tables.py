"""Classes of a caller whose methods read tables of their file are served until these change."""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import mlx.core as mx
import pytest

from kernelwright.runtime.export.function.alone import ExampleCall
from kernelwright.runtime.export.function.function_export import export_function
from kernelwright.runtime.export.function.module_file import imported
from kernelwright.runtime.export.function.variant import Lookup

_TEXT = """\
import enum
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property, partial, partialmethod
from types import SimpleNamespace

import mlx.core as mx

SETTINGS = {"gravity": 0.5, "box": [1.0, 2.0]}
NAMES = SimpleNamespace(factor=2.0)
ORDER = OrderedDict(a=1.0)
NARROW = {"x"}


@dataclass
class Config:
    mass: float = 2.0
    shifts: list = field(default_factory=lambda: [1.0])


CONFIG = Config()
ROUND = partial(max, 1.0)


class Unit(enum.Enum):
    METRE = 1.0
    FOOT = 0.3

    @property
    def scale(self):
        return SETTINGS["gravity"] if self is Unit.METRE else 1.0


@dataclass
class State:
    x: mx.array

    def factor(self, mass):
        found = SETTINGS["gravity"] * SETTINGS["box"][1] * NAMES.factor * ORDER["a"]
        return found * mass * CONFIG.shifts[0] * ROUND(len(NARROW))

    heavy = partialmethod(factor, 4.0)

    @cached_property
    def light(self):
        return self.factor(CONFIG.mass)


def fall(state):
    return mx.softmax(state.x * state.heavy() * state.light, axis=-1)


def measured(x, unit=Unit.METRE):
    return mx.softmax(x * unit.scale, axis=-1)
"""
_X = mx.ones((4, 32))


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "read_tables_of_a_test.py").write_text(_TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module("read_tables_of_a_test")
    del sys.modules["read_tables_of_a_test"]


@pytest.fixture
def serves(
    request: pytest.FixtureRequest, user: ModuleType, kernels_of: Callable[..., Lookup]
) -> Iterator[Callable[[], bool]]:
    name = request.param
    argument = user.State(_X) if name == "fall" else _X
    export = export_function(
        getattr(user, name),
        name,
        [ExampleCall((argument,), {})],
        kernels_of(lambda _: ("m4-pro",)),
        admits=lambda _: True,
    )
    with imported(export.files, name) as module:
        given = (user.State(_X),) if name == "fall" else (_X, user.Unit.METRE)
        yield lambda: getattr(module, name).serves(*given)


@pytest.mark.parametrize("serves", ["fall"], indirect=True)
def test_a_change_of_a_table_that_methods_read_is_noticed(
    user: ModuleType, serves: Callable[[], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert serves()
    changes: list[tuple[object, object, object]] = [
        (user.SETTINGS, "gravity", 1.0),
        (user.SETTINGS["box"], 1, 3.0),
        (vars(user.NAMES), "factor", 3.0),
        (user.ORDER, "b", 1.0),
        (vars(user.CONFIG), "mass", 3.0),
        (user.CONFIG.shifts, 0, 3.0),
        (vars(user), "SETTINGS", {"gravity": 1.0, "box": [1.0, 2.0]}),
        (vars(user), "ROUND", user.partial(min, 1.0)),
    ]
    for holder, key, value in changes:
        before = dict(holder) if isinstance(holder, dict) else list(holder)  # type: ignore[call-overload]
        holder[key] = value  # type: ignore[index]
        assert not serves(), (key, value)
        if isinstance(holder, dict):
            holder.clear()
            holder.update(before)
        else:
            holder[:] = before  # type: ignore[index]
        assert serves(), (key, value)
    user.NARROW.add("y")
    assert not serves()


@pytest.mark.parametrize("serves", ["measured"], indirect=True)
def test_a_change_of_a_table_that_an_enumeration_reads_is_noticed(
    user: ModuleType, serves: Callable[[], bool]
) -> None:
    assert serves()
    user.SETTINGS["gravity"] = 1.0
    assert not serves()
    user.SETTINGS["gravity"] = 0.5
    assert serves()
