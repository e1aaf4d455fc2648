"""The module of a target: a user's file, or a module by its name, imported as a script does it."""

import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kernelwright.campaign.spec.input_nest import SUBJECT
from kernelwright.errors import InputError, KernelwrightError
from kernelwright.validation import shown

CATALOG = "catalog:"
"""Begins a target that is one of the ready tasks."""
_MODULE = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?::(?P<function>[\w.]+))?")
_ITEM = re.compile(r"""\[(?:(\d+)|'([\w ]+)'|"([\w ]+)")\]""")


def open_target(
    target: str, folder: Path, loaded: Sequence[ModuleType] = ()
) -> tuple[ModuleType, Path, str | None]:
    """Import what a target names; return also how to call its place, and its function's name.

    Items may be written as in Python: `pairs[0]` and `table['warm']` are `pairs.0` and
    `table.warm`. A file of which one of the modules `loaded` was made is not read again.
    """
    target = _ITEM.sub(r".\1\2\3", target)
    if (named := _module_in(target, folder)) is not None:
        place = Path(named["module"])
        return _import_module(named["module"], place, folder), place, named["function"]
    path, name = _split(target, folder)
    for module in loaded:
        if Path(module.__file__ or "").resolve() == path.resolve():
            return module, path, name
    try:
        return _import_file(path), path, name
    except _NeedsPackageError as e:
        place = Path(e.package.module)
        return _import_module(e.package.module, place, e.package.folder), place, name


def check_file(target: str) -> None:
    """Refuse a target whose file is not there, before all is imported that would read it.

    Raises:
        InputError: the target names a file, and there is none, or it is no Python.
    """
    target = _ITEM.sub(r".\1\2\3", target)
    if not target.startswith(CATALOG) and _module_in(target, Path()) is None:
        _split(target, Path())


def _module_in(target: str, folder: Path) -> re.Match[str] | None:
    """Return the parts of a module's name; None where a target names a file."""
    named = _MODULE.fullmatch(target)
    if named is None or named["module"].endswith(".py") or (folder / target).exists():
        return None
    return named


def _split(target: str, folder: Path) -> tuple[Path, str | None]:
    text, separator, name = target.rpartition(":")
    if not separator or not text.endswith(".py"):
        text, name = target, ""
    path = folder / text
    if not path.is_file():
        raise InputError(f"expected a Python file, found nothing at {str(path)!r}; check the path.")
    if path.suffix != ".py":
        raise InputError(f"expected a Python file that ends in .py, found {text!r}.")
    return path, name or None


def _import_module(name: str, place: Path, folder: Path) -> ModuleType:
    with _importing(place, folder, missing=name):
        return importlib.import_module(name)


def _import_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{SUBJECT}{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with _importing(path, path.parent):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _importing(place: Path, folder: Path, *, missing: str = "") -> Iterator[None]:
    """Let a module find its neighbours, as a script does, and say in a sentence what fails."""
    search = str(folder.resolve())
    sys.path.insert(0, search)
    try:
        yield
    except KernelwrightError:
        raise
    except SystemExit as e:
        raise InputError(
            f"{place} ends Python while it is imported: sys.exit({e.code!r}){_line(e, place)}; put "
            'what a script does under: if __name__ == "__main__":'
        ) from e
    except ModuleNotFoundError as e:
        if e.name and f"{missing}.".startswith(f"{e.name}."):
            raise InputError(
                f"expected a Python file or module, found no {shown(e.name)} from {search}; "
                "check the name, or write a path that ends in .py."
            ) from e
        package = package_of(place)
        if package and e.name and package.module.partition(".")[0] == e.name.partition(".")[0]:
            raise _NeedsPackageError(place, package) from e
        raise InputError(
            f"{place} needs the package {shown(e.name)}, which is not installed; "
            "install it and run the command again."
        ) from e
    except Exception as e:
        package = package_of(place)
        if package and isinstance(e, ImportError) and "relative import" in str(e):
            raise _NeedsPackageError(place, package) from e
        raise InputError(
            f"{place} cannot be imported: {type(e).__name__}: {e}; run it with Python to see where."
        ) from e
    finally:
        sys.path.remove(search)


def _line(error: BaseException, place: Path) -> str:
    """Return the line of the user's file that an error came through, or nothing."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if Path(f.filename).name == place.name]
    return f" in line {lines[-1]}" if lines else ""


@dataclass(frozen=True)
class InPackage:
    """How a file is called as a module, and the folder from which it is found."""

    module: str
    folder: Path


def package_of(place: Path) -> InPackage | None:
    """Return a file's place in its package; None where it is in none."""
    path = place.resolve()
    if path.suffix != ".py":
        return None
    top = path.parent
    while (top / "__init__.py").is_file():
        top = top.parent
    if top == path.parent:
        # A package may do without __init__.py; then it is the folder one stands in that counts.
        top = path.parents[-1] if place.is_absolute() else Path.cwd()
    parts = path.relative_to(top).with_suffix("").parts if path.is_relative_to(top) else ()
    if len(parts) < 2 or not all(map(str.isidentifier, parts)) or top == path.parents[-1]:
        return None
    return InPackage(".".join(parts), top)


class _NeedsPackageError(InputError):
    """A file is a part of a package, and imports nothing without it."""

    def __init__(self, place: Path, package: InPackage) -> None:
        super().__init__(f"{place} is a part of the package {package.module}.")
        self.package = package
