"""What cannot be exported is refused with the user's line, the variable and what to do."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import mlx.core as mx
import pytest

from kernelwright.errors import KernelwrightError
from kernelwright.runtime.export.function.alone import ExampleCall
from kernelwright.runtime.export.function.function_export import export_function

_USER = """\
from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial

import mlx.core as mx
import pytest as elsewhere


class Opaque:
    def __init__(self, value):
        self.value = value


class Locked:
    def __init__(self):
        self.lock = threading.Lock()
        self.factor = 2.0

    def run(self, x):
        with self.lock:
            return mx.exp(x) * self.factor


LOCKED = Locked()
LOCKED.factor = 3.0
STATE = {"m": mx.ones((8,))}


class Registry:
    items = {}


Registry.items["exp"] = mx.exp


@dataclass(frozen=True)
class Config:
    scale: float | None = None


def registered(x):
    return Registry.items["exp"](x) * 2


def configured(x, config=Config(2.0)):
    return mx.exp(x) * config.scale


def of_another_package(x):
    y = mx.exp(x)
    return y * len(vars(elsewhere))


def imports_another_package(x):
    import pytest

    return mx.exp(x) * pytest.approx(1).expected


def gives_an_object(x):
    y = mx.exp(x) * 2
    return Opaque(y)


def changes_a_dict(x, state):
    state["m"] = state["m"] + x
    return mx.exp(state["m"])


def changes_a_nested_list(x, state):
    y = mx.exp(x)
    state["seen"].append(y)
    return y * 2


def changes_its_own_dict(x):
    STATE["m"] = STATE["m"] * 0.9
    return mx.exp(x) * STATE["m"]


def looks_at_a_value(x):
    y = mx.exp(x)
    return y if y.sum().item() > 0 else x


def checkpointed(x):
    return mx.checkpoint(mx.exp)(x)
"""


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    file = tmp_path_factory.mktemp("refused") / "refused_of_a_test.py"
    file.write_text(_USER)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[file.stem]


def _said(user: ModuleType, name: str, *rest: object) -> str:
    value: object = user
    for part in name.split("."):
        value = getattr(value, part)
    call = ExampleCall((mx.zeros((4, 8)), *rest), {})
    assert callable(value)
    with pytest.raises(KernelwrightError) as caught:
        export_function(value, name, [call], lambda _: {}, admits=lambda _: True)
    return str(caught.value).replace(str(Path(str(user.__file__)).parent), "")


@pytest.mark.parametrize(
    ("name", "rest", "parts"),
    [
        (
            "of_another_package",
            (),
            ["needs pytest as a whole", "(elsewhere, /refused_of_a_test.py:53)"],
        ),
        ("imports_another_package", (), ["needs pytest", "(pytest, /refused_of_a_test.py:57)"]),
        (
            "gives_an_object",
            (),
            ["an object of Opaque", ":64: return Opaque(y)", "make Opaque a dataclass"],
        ),
        ("changes_a_dict", ({"m": mx.zeros((8,))},), ["a list, dict or object", "_test.py:68)"]),
        ("changes_a_nested_list", ({"seen": []},), ["a list, dict or object", "_test.py:74)"]),
        ("changes_its_own_dict", (), ["replaces arrays that it keeps", "_test.py:79)"]),
        ("looks_at_a_value", (), ["looks_at_a_value (/refused_of_a_test.py:85) looks at the val"]),
        ("checkpointed", (), ["checkpointed (/refused_of_a_test.py:89) uses", "mx.checkpoint"]),
        ("LOCKED.run", (), ["LOCKED.lock", "has no text"]),
        ("registered", (), ["works in its file", "KeyError: 'exp'", "such as a registry"]),
    ],
)
def test_a_refusal_names_the_line_and_the_variable(
    user: ModuleType, name: str, rest: tuple[object, ...], parts: list[str]
) -> None:
    said = _said(user, name, *rest)
    assert all(part in said for part in parts), said
    assert said.endswith(".")
    assert "\n" not in said


def test_a_dataclass_may_have_its_annotations_as_text(user: ModuleType) -> None:
    call = ExampleCall((mx.zeros((4, 8)),), {})
    with pytest.raises(KernelwrightError, match="found none in the store"):
        export_function(user.configured, "f", [call], lambda _: {}, admits=lambda _: True)


def test_a_module_is_not_called_as_one_that_every_program_has(user: ModuleType) -> None:
    call = ExampleCall((mx.zeros((4, 8)),), {})
    with pytest.raises(KernelwrightError, match="write exported_queue = queue in its file"):
        export_function(user.configured, "queue", [call], lambda _: {}, admits=lambda _: True)
