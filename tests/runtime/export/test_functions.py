"""Functions of real models go through search and export, and compute elsewhere what they did."""

import ast
import importlib.util
import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import mlx.core as mx
import pytest
from typer.testing import CliRunner

from kernelwright.service.commands import app

MODELS = Path(__file__).parent / "models"
_SAMPLE = frozenset({"moe_combine", "cross_entropy", "image_step", "attention_tree"})


def _names() -> Sequence[object]:
    found: list[object] = []
    for file in sorted(MODELS.glob("*.py")):
        for name in _searched(file):
            marks = () if name in _SAMPLE else (pytest.mark.slow,)
            found.append(pytest.param(f"{file}:{name}", id=name, marks=marks))
    return found


def _searched(file: Path) -> list[str]:
    """List the functions of a file that have inputs: by decorator, or in `example_inputs`."""
    tree = ast.parse(file.read_text())
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    decorated = [
        n.name for n in functions if any("example" in ast.unparse(d) for d in n.decorator_list)
    ]
    returned = [
        statement.value
        for n in functions
        if n.name == "example_inputs"
        for statement in n.body
        if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Dict)
    ]
    listed = [
        key.value
        for dictionary in returned
        for key in dictionary.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    ]
    return [*decorated, *listed]


def _way(check: str) -> str:
    return check.partition(", ")[2].partition(" (")[0]


def _run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"exported_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("target", _names())
@pytest.mark.sampled(3)
def test_a_function_is_exported_whole_and_equal(target: str, tmp_path: Path) -> None:
    store, folder = str(tmp_path / "kernels.db"), tmp_path / "vendored"
    _run("search", target, "--store", store, "--quiet", "--candidates", "1", "--repairs", "0")
    # These shapes are small, where a launch is all that counts: MLX is often as fast.
    told = _run("export", target, "-o", str(folder), "--store", store, "--force", "--json")
    exported = json.loads(told[told.index("{") :])
    assert exported["is_verified"], (folder / "VERIFICATION.md").read_text()
    verification = (folder / "VERIFICATION.md").read_text()
    assert "differs" not in verification
    assert "- [x] as searched, called" in verification
    assert "- [x] kernels on the " in verification
    checks = [line for line in verification.splitlines() if line.startswith("- [")]
    for case in ("as searched", "at another shape", "on another dtype"):
        of_case = [c for c in checks if re.match(rf"- \[.\] {case}, ", c)]
        # A case is there whenever it can be: with all ways to call, or not at all.
        assert not of_case or {"called", "mx.compile", "mx.vmap"} <= {_way(c) for c in of_case}
        # What an export does not do, the original does not do, either.
        assert all(c.startswith("- [x]") or "not supported" in c for c in of_case)
    module = _imported(folder / f"{exported['name']}.py")
    assert module._VARIANTS
    assert not mx.metal.is_available() or module._runs_metal()
