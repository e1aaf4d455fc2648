"""Packages that offer many names and import each one's module when it is first used.

A package lists its names as imports under `if TYPE_CHECKING:`, where type checkers, editors and
import-linter read them, and gives itself to `offer_lazily` in the `else` branch.
"""

import ast
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType


def offer_lazily(package: str) -> None:
    """Let a package import what its `if TYPE_CHECKING:` block names at the first use of a name."""
    module = sys.modules[package]
    if module.__file__ is None:
        raise ImportError(f"{package} has no file to read its names from")
    module.__dict__["_lazy_names"] = _names_in(Path(module.__file__))
    module.__class__ = LazyPackage


class LazyPackage(ModuleType):
    """A package that imports a name's module at the name's first use."""

    _lazy_names: Mapping[str, tuple[str, str | None]] = MappingProxyType({})

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or name not in self._lazy_names:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        source, attribute = self._lazy_names[name]
        try:
            module = import_module(source)
        except ImportError as e:
            from kernelwright.extra import missing_extra

            if (missing := missing_extra(e)) is not None:
                raise missing from e
            raise
        value: object = module if attribute is None else getattr(module, attribute)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # Importing `ir.verify` binds the module to its package, where `verify` is the function.
        is_function_of_that_name = self._lazy_names.get(name, ("", None))[1] is not None
        if not (is_function_of_that_name and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._lazy_names})


def _names_in(file: Path) -> dict[str, tuple[str, str | None]]:
    """Return each name's module and attribute; a submodule has no attribute."""
    found = {}
    for block in ast.parse(file.read_text(encoding="utf-8")).body:
        if not (isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"):
            continue
        for statement in block.body:
            if isinstance(statement, ast.ImportFrom) and statement.module:
                for alias in statement.names:
                    found[alias.asname or alias.name] = _origin(statement.module, alias.name)
    return found


def _origin(module: str, name: str) -> tuple[str, str | None]:
    file = sys.modules[module].__file__ if module in sys.modules else None
    if file is not None and Path(file).stem == "__init__":
        folder = Path(file).parent
        if (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists():
            return f"{module}.{name}", None
    return module, name
