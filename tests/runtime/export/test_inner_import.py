"""What a function imports of its user's files within itself is carried as what it names outside."""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import mlx.core as mx
import pytest

from kernelwright.errors import KernelwrightError
from kernelwright.runtime.export.function.alone import ExampleCall
from kernelwright.runtime.export.function.function_export import export_function
from kernelwright.runtime.export.function.module_file import imported
from kernelwright.runtime.export.function.variant import Lookup

_SETTINGS = "FACTOR = 2.0\ndef doubled(x):\n    return x * FACTOR\n"
_TEXT = """\
import mlx.core as mx
import mlx.nn as nn


def takes_names(x):
    from .settings_of_a_test import (
        FACTOR as F,
        doubled,
    )  # both are needed
    return mx.softmax(doubled(x) * F, axis=-1)


def takes_a_module(x):
    from . import settings_of_a_test as settings
    return mx.softmax(x * settings.FACTOR, axis=-1)


class Layer(nn.Module):
    def __call__(self, x):
        from imports_of_a_test.settings_of_a_test import doubled
        return mx.softmax(doubled(x), axis=-1)


layer = Layer()


def takes_a_package(x):
    import pytest
    return mx.softmax(x, axis=-1)


def changes_what_it_takes(x):
    from .settings_of_a_test import FACTOR
    FACTOR = FACTOR + 1
    return mx.softmax(x * FACTOR, axis=-1)
"""
_X = mx.arange(128.0).reshape(4, 32) / 64


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    package = tmp_path / "imports_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "settings_of_a_test.py").write_text(_SETTINGS)
    (package / "functions.py").write_text(_TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module("imports_of_a_test.functions")
    for name in [n for n in sys.modules if n.startswith(package.name)]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["takes_names", "takes_a_module", "layer"])
def test_it_needs_none_of_the_users_files(
    user: ModuleType, name: str, kernels_of: Callable[..., Lookup]
) -> None:
    function = getattr(user, name)
    lookup = kernels_of(lambda _: ("m4-pro",))
    export = export_function(
        function, name, [ExampleCall((_X,), {})], lookup, admits=lambda _: True
    )
    assert "of_a_test import" not in export.files[0].text
    with imported(export.files, name) as module:
        assert mx.array_equal(getattr(module, name)(_X), function(_X)).item()


@pytest.mark.parametrize(
    ("name", "module"),
    [("takes_a_package", "pytest"), ("changes_what_it_takes", "its package")],
)
def test_what_is_installed_or_a_variable_stays(user: ModuleType, name: str, module: str) -> None:
    call = ExampleCall((_X,), {})
    with pytest.raises(KernelwrightError, match=f"needs {module}"):
        export_function(getattr(user, name), name, [call], lambda _: {}, admits=lambda _: True)
