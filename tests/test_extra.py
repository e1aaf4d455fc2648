"""A package that is missing is answered with the extra that brings it."""

import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.extra import MissingExtraError, missing_extra

_BLOCK = """
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

BLOCKED = set(sys.argv.pop(1).split(","))
sys.meta_path.insert(0, Missing())
"""
_SEARCH = "anthropic,openai,optuna,scipy,ziglang,httpx2,keyring"


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("scipy.special", "search"),
        ("ziglang", "search"),
        ("mlx_lm", "models"),
        ("fastapi", "serve"),
        ("mcp", "mcp"),
        ("procrastinate", "fleet"),
        ("matplotlib", "report"),
    ],
)
def test_the_sentence_names_the_extra(module: str, extra: str) -> None:
    found = missing_extra(ModuleNotFoundError(f"No module named {module!r}", name=module))
    assert isinstance(found, MissingExtraError)
    package = module.partition(".")[0]
    assert str(found) == (
        f"expected the package {package!r}, which is not installed; add it with: "
        f"pip install 'kernelwright[{extra}]'"
    )


@pytest.mark.parametrize("module", ["numpy", "nowhere", ""])
def test_other_modules_are_no_extra(module: str) -> None:
    assert missing_extra(ModuleNotFoundError("No module", name=module)) is None


def _without(packages: str, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _BLOCK + code, packages],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "KERNELWRIGHT_STORE": "kernels.db"},
    )


@pytest.mark.parametrize(
    ("packages", "command", "extra"),
    [
        (_SEARCH, "search catalog:softmax", "search"),
        ("scipy", "verify kernel.json --task catalog:softmax", "search"),
        ("mcp", "mcp", "mcp"),
        ("fastapi,uvicorn", "serve", "serve"),
    ],
)
def test_a_command_names_the_extra_that_it_needs(
    tmp_path: Path, packages: str, command: str, extra: str
) -> None:
    code = f"sys.argv = ['kernelwright', *{command.split()}]\nimport kernelwright.__main__"
    done = _without(packages, code, tmp_path)
    assert done.returncode == 1, done.stderr
    assert f"kernelwright[{extra}]" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_function_of_the_package_names_the_extra_that_it_needs(tmp_path: Path) -> None:
    code = "import kernelwright as kw\ntry: kw.verify\nexcept ImportError as e: print(e)"
    done = _without(_SEARCH, code, tmp_path)
    assert "kernelwright[search]" in done.stdout, done.stderr


def test_asking_the_store_needs_no_extra(tmp_path: Path) -> None:
    code = """
from kernelwright.service.commands import app
from kernelwright.store import KernelStore
KernelStore("kernels.db").__enter__()
import kernelwright as kw
for line in ("--help", "best", "history", "store stats", "campaign status", "devices", "doctor"):
    try: app(line.split())
    except SystemExit as e: assert e.code in (0, 1), (line, e.code)
kw.optimize, kw.export
"""
    done = _without(
        f"{_SEARCH},mlx_lm,fastapi,uvicorn,mcp,procrastinate,matplotlib", code, tmp_path
    )
    assert done.returncode == 0, done.stderr
