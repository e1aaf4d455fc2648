"""What runs kernels by `kernelwright.optimize` is exported as the user's own code."""

from pathlib import Path

import mlx.core as mx
import pytest

import kernelwright as kw
from kernelwright.runtime.models.site import site_of
from tests.service.test_export_function import TYPE, _imported, _recorded

_MODEL = """\
import kernelwright as kw
import mlx.core as mx
import mlx.nn as nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0

    @kw.optimize
    def forward(self, x):
        return mx.sigmoid(x) * x * self.scale

    @kw.optimize(
        buckets=[8, 16],
    )
    def __call__(self, x):
        return self.forward(x)


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0

    def __call__(self, x):
        return mx.sigmoid(x) * x * self.scale


gate = Gate()
step = kw.optimize(gate.forward)
tuned = kw.optimize(Plain())


def nested(x):
    return tuned(x)
"""


@pytest.mark.parametrize("name", ["gate", "gate.forward", "step", "tuned", "nested"])
@pytest.mark.sampled(3)
def test_optimized_code_is_exported_without_kernelwright(name: str, tmp_path: Path) -> None:
    file, store = tmp_path / "model.py", str(tmp_path / "kernels.db")
    file.write_text(_MODEL)
    _recorded(store, lambda x: mx.sigmoid(x) * x * 2.0)
    folder = tmp_path / "out"
    result = kw.export(f"{file}:{name}", folder, inputs=[TYPE], store=store, force=True)
    assert result.is_verified
    (written,) = result.written
    assert "import kernelwright" not in (folder / f"{written.name}.py").read_text()


def test_an_optimized_model_runs_kernels_again_after_its_export(tmp_path: Path) -> None:
    file, store = tmp_path / "model.py", str(tmp_path / "kernels.db")
    file.write_text(_MODEL)
    tuned = _imported(file).tuned
    _recorded(store, lambda x: mx.sigmoid(x) * x * 2.0)
    site, kind = site_of(tuned), type(tuned)
    assert site is not None
    assert kw.export(tuned, tmp_path / "out", inputs=[TYPE], store=store, force=True).is_verified
    assert site_of(tuned) is site
    assert type(tuned) is kind
