"""Defaults that are functions, enumerations and objects stay those of the function."""

import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import pytest

import kernelwright as kw
from tests.service.test_export_function import TYPE, _recorded

_MODEL = """\
import enum
import functools
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn


class Kind(enum.Enum):
    GATE = 1


class Flags(enum.IntFlag):
    LEFT = 1
    RIGHT = 2


@dataclass
class Config:
    act: object = nn.sigmoid


def own(x):
    return mx.sigmoid(x)


def library(x, act=nn.sigmoid, two=2.0):
    return act(x) * x * two


def named(x, *, act=mx.sigmoid, shape=(1, 2)):
    return act(x) * x * 2.0


def unnamed(x, act=lambda v: mx.sigmoid(v)):
    return act(x) * x * 2.0


def helper(x, act=own):
    return act(x) * x * 2.0


def partly(x, act=functools.partial(own)):
    return act(x) * x * 2.0


def configured(x, config=Config()):
    return config.act(x) * x * 2.0


def chosen(x, kind: Kind = Kind.GATE, flags=Flags.LEFT | Flags.RIGHT):
    return mx.sigmoid(x) * x * 2.0 if kind is Kind.GATE and Flags.LEFT in flags else x
"""
_TITLES = {
    "library": "library(x, act=nn.sigmoid, two=2.0)",
    "named": "named(x, *, act=mx.sigmoid, shape=(1, 2))",
    "unnamed": "unnamed(x, act=lambda v: mx.sigmoid(v))",
    "helper": "helper(x, act=own)",
    "partly": "partly(x, act=functools.partial(own))",
    "configured": "configured(x, config=Config())",
    "chosen": "chosen(x, kind: Kind = Kind.GATE, flags=Flags.LEFT | Flags.RIGHT)",
}


@pytest.mark.parametrize("name", _TITLES)
@pytest.mark.sampled(4)
def test_a_function_is_compared_and_tested_with_its_own_defaults(name: str, tmp_path: Path) -> None:
    file, store = tmp_path / "model.py", str(tmp_path / "kernels.db")
    file.write_text(_MODEL)
    _recorded(store, lambda x: mx.sigmoid(x) * x * 2.0)
    folder = tmp_path / "out"
    result = kw.export(f"{file}:{name}", folder, inputs=[TYPE], store=store, force=True)
    assert result.is_verified
    said = (folder / "VERIFICATION.md").read_text()
    assert "- [x] as searched, mx.grad\n" in said
    assert f"`{_TITLES[name]}`" in said
    assert (folder / f"{name}.py").read_text().startswith(f'"""{_TITLES[name]}, with')
    if name == "chosen":
        test = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
        subprocess.run(test, cwd=folder, check=True)
    assert (folder / f"test_{name}.py").exists()
