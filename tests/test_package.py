"""Importing the package costs next to nothing and offers the public names."""

import subprocess
import sys
from importlib.metadata import version

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
