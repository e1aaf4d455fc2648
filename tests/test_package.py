"""Importing the package costs next to nothing and offers the public names."""

import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

import kernelwright


def test_import_loads_neither_mlx_nor_a_database_nor_a_model_client() -> None:
    heavy = ("mlx.core", "sqlalchemy", "anthropic", "openai", "pydantic")
    code = f"import sys, kernelwright; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_dispatch_is_imported_when_it_is_used() -> None:
    assert callable(kernelwright.optimize)
    assert callable(kernelwright.explain)


def test_the_version_is_that_of_the_installed_package() -> None:
    assert kernelwright.__version__ == version("kernelwright")
    assert "__version__" in dir(kernelwright)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        getattr(kernelwright, "optimise")  # noqa: B009


def test_the_search_room_is_called_and_offers_its_names() -> None:
    code = (
        "import kernelwright.search.spec, kernelwright as kw\n"
        "from kernelwright.search import Search\n"
        "print([n for n in kw.__all__ if getattr(kw, n) is None], callable(kw.search), Search)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[] True <class 'kernelwright.search.search.Search'>")


def test_the_source_distribution_holds_every_room_of_the_package(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(build, cwd=root, capture_output=True, check=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}
    package = (root / "kernelwright").rglob("*.py")
    assert {str(path.relative_to(root)) for path in package} - held == set()
    assert {"README.md", "LICENSE", "docs/index.md", "scripts/setup", "requirements.lock"} <= held
