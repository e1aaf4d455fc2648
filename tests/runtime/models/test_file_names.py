"""A user's file that has the name of one of Python's is the user's."""

import importlib.util
import sys
from pathlib import Path

import mlx.core as mx
import pytest

from kernelwright.runtime.models.install import optimize_model
from kernelwright.runtime.models.purity.library import is_library
from tests.runtime.models.replaying import Replaying, served_classes

TEXT = """
import mlx.nn as nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.n, self.a, self.b = nn.RMSNorm(32), nn.Linear(32, 32), nn.Linear(32, 32)

    def __call__(self, x):
        return x + self.b(nn.silu(self.a(self.n(x))))
"""


@pytest.mark.parametrize("name", ["imp", "code", "own"])
def test_its_modules_are_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = tmp_path / f"{name}.py"
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    model = module.Gate()
    optimize_model(model, Replaying())
    model(mx.zeros((2, 32)))
    assert "Gate" in served_classes(model)


@pytest.mark.parametrize("name", ["random", "math", "collections.abc", "builtins", "mlx.nn", "sys"])
def test_pythons_own_stay_libraries(name: str) -> None:
    assert is_library(name)
    assert not is_library("__main__")
