"""A user's file with one function, and kernels for it: a wrong one and a right one."""

from pathlib import Path

import pytest

_FILE = '''"""Gates."""

import mlx.core as mx

import kernelwright


@kernelwright.example("f32[24,40]", "f32[24,40]")
def gate(x, y):
    print("this module prints while it is traced")
    return x * mx.sigmoid(y)
'''


@pytest.fixture
def gate_file(tmp_path: Path) -> Path:
    file = tmp_path / "gates.py"
    file.write_text(_FILE)
    return file
