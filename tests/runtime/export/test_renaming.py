"""Two things that share a name in two files have two names in one module."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import mlx.core as mx
import pytest

from kernelwright.runtime.export.function.renaming import NotRenamableError, renamed
from kernelwright.runtime.export.function.source import carry


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "def one(x):\n    return norm(x, norm=2)\n",
            "def one(x):\n    return norm_2(x, norm=2)\n",
        ),
        ("def norm(x):\n    return norm(x - 1)\n", "def norm_2(x):\n    return norm_2(x - 1)\n"),
        ("lambda é: norm(é) + a.norm", "lambda é: norm_2(é) + a.norm"),
        ("@norm\nclass norm:\n    pass\n", "@norm_2\nclass norm_2:\n    pass\n"),
    ],
)
def test_what_code_takes_from_outside_is_renamed(text: str, expected: str) -> None:
    assert renamed(text, {"norm": "norm_2"}) == expected


@pytest.mark.parametrize(
    "text", ["def one(norm):\n    return norm", "norm = 1\nprint(norm)", "f'{norm}'"]
)
def test_what_code_binds_or_formats_is_not_renamed(text: str) -> None:
    with pytest.raises(NotRenamableError, match="norm"):
        renamed(text, {"norm": "norm_2"})


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "first_of_two.py").write_text(
        "SCALE = 2.0\ndef norm(x): return x * SCALE\ndef one(x): return norm(x) + 1\n"
    )
    (tmp_path / "second_of_two.py").write_text(
        "from first_of_two import one\nSCALE = 3.0\ndef norm(x): return x - SCALE\n"
        "def two(x): return one(norm(x)) * SCALE\n"
        "def make(k):\n    def scaled(x): return x * k\n    return scaled\n"
        "class Pair:\n    def __init__(self): self.parts = [make(2.0), make(3.0)]\n"
        "    def __call__(self, x): return self.parts[0](x) - self.parts[1](x) * x\n"
        "pair = Pair()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("first_of_two", "second_of_two"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("second_of_two")


@pytest.mark.parametrize(("name", "by_state"), [("two", False), ("pair", True)])
def test_functions_that_share_a_name_are_carried_side_by_side(
    module: ModuleType, name: str, by_state: bool
) -> None:
    function: Callable[[mx.array], mx.array] = getattr(module, name)
    source = carry(function, name, by_state=by_state)
    space: dict[str, object] = {"mx": mx}
    exec("\n".join([*source.imports, *source.blocks]), space)
    x = mx.array([1.0, 2.0])
    assert mx.array_equal(space[name](x), function(x))  # type: ignore[operator]
