"""A package that is missing is answered with the extra that brings it."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from kernelwright import extra
from kernelwright.evaluator.attacks.corpus import bases
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
_CHECKOUT = str(Path(__file__).parents[1])
_OLDER_STORE = Path(__file__).parent / "store" / "schemas" / "0004.sql"
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


@pytest.mark.parametrize("module", ["numpy", "tree_sitter_cpp", "pydantic_settings"])
def test_a_package_of_every_installation_comes_with_an_upgrade(module: str) -> None:
    found = missing_extra(ModuleNotFoundError("No module", name=module))
    assert str(found) == (
        f"expected the package {module!r}, which is not installed; add it with: "
        "pip install --upgrade kernelwright"
    )


@pytest.mark.parametrize("module", ["nowhere", ""])
def test_other_modules_are_no_extra(module: str) -> None:
    assert missing_extra(ModuleNotFoundError("No module", name=module)) is None


def _without(packages: str, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _BLOCK + code, packages],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "KERNELWRIGHT_STORE": "kernels.db",
            "PYTHONPATH": _CHECKOUT,
        },
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
@pytest.mark.sampled(2)
def test_a_command_names_the_extra_that_it_needs(
    tmp_path: Path, packages: str, command: str, extra: str
) -> None:
    (tmp_path / "kernel.json").write_text(bases()["softmax"].program.model_dump_json())
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
from kernelwright.errors import KernelwrightError
from kernelwright.extra import MissingExtraError
from kernelwright.store import KernelStore
KernelStore("kernels.db").__enter__()
import kernelwright as kw
for line in ("--help", "best", "history", "store stats", "store wanted", "report",
             "campaign init", "campaign status", "campaign stop", "catalog", "devices", "doctor"):
    try: app(line.split())
    except SystemExit as e: assert e.code in (0, 1), (line, e.code)
    except MissingExtraError: raise
    except KernelwrightError: pass
kw.optimize, kw.export, kw.best, kw.plan, kw.registry
"""
    done = _without(
        f"{_SEARCH},mlx_lm,fastapi,uvicorn,mcp,procrastinate,matplotlib", code, tmp_path
    )
    assert done.returncode == 0, done.stderr


def _lacking(module: str, line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys\nsys.modules[sys.argv.pop(1)] = None\nimport kernelwright.__main__"
    return subprocess.run(
        [sys.executable, "-c", code, module, *line.split()],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "KERNELWRIGHT_STORE": "kernels.db",
            "PYTHONPATH": _CHECKOUT,
        },
    )


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("tree_sitter_cpp", "search catalog:softmax"),
        ("rich", "best"),
        ("typer", "--help"),
        ("pydantic", "doctor"),
        ("mlx", "plan catalog:softmax"),
    ],
)
@pytest.mark.sampled(2)
def test_a_package_of_every_installation_that_is_missing_is_one_sentence(
    tmp_path: Path, module: str, line: str
) -> None:
    _check_names_package(_lacking(module, line, tmp_path), module)


def test_an_older_store_is_not_migrated_without_alembic(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "kernels.db")) as connection:
        connection.executescript(_OLDER_STORE.read_text())
    _check_names_package(_lacking("alembic", "best", tmp_path), "alembic")


def _check_names_package(done: subprocess.CompletedProcess[str], module: str) -> None:
    assert done.returncode == 1
    assert done.stderr == (
        f"error expected the package {module!r}, which is not installed; add it with: "
        "pip install --upgrade kernelwright\n"
    )


def test_doctor_lists_a_package_that_every_installation_has_and_this_one_lacks(
    tmp_path: Path,
) -> None:
    done = _lacking("tree_sitter_cpp", "doctor --json", tmp_path)
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 1
    assert rows["tree_sitter_cpp"]["is_needed"]
    assert rows["tree_sitter_cpp"]["remedy"] == "pip install --upgrade kernelwright"


def test_a_package_that_our_code_imports_and_the_metadata_does_not_list_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter_cpp", None)
    monkeypatch.setattr(extra, "_installs", dict)
    with pytest.raises(ModuleNotFoundError) as error:
        exec(compile("import tree_sitter_cpp", str(Path(extra.__file__).parent / "new.py"), "exec"))
    assert "pip install --upgrade kernelwright" in str(missing_extra(error.value))
    with pytest.raises(ModuleNotFoundError) as error:
        exec(compile("import tree_sitter_cpp", str(tmp_path / "own.py"), "exec"))
    assert missing_extra(error.value) is None
