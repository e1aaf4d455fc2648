"""Takes imports of a user's own modules out of functions: what they name is carried instead."""

import ast
import importlib
from collections.abc import Iterator, Mapping
from types import ModuleType

from kernelwright.runtime.export.function.carried_names import (
    absolute_module,
    is_library,
    loaded_names,
)

_PACKAGES = ("site-packages", "dist-packages")


def without_imports(text: str, space: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """Return a definition without its imports of the user's files, and what these named.

    An import of a package that was installed stays.

    Args:
        text: the definition.
        space: what names mean in its file.
    """
    lines, named = text.splitlines(), dict[str, object]()
    for statement in ast.walk(ast.parse(text)):
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        last = statement.end_lineno or statement.lineno
        before = lines[statement.lineno - 1][: statement.col_offset]
        after = lines[last - 1][statement.end_col_offset :].partition("#")[0]
        found = dict(_named(statement, space))
        if len(found) == len(statement.names) and not before.strip() and not after.strip():
            lines[statement.lineno - 1 : last] = [
                f"{before}pass",
                *[""] * (last - statement.lineno),
            ]
            named |= found
    made = "\n".join(lines)
    # A name that the function gives another value, too, is a variable of its own.
    are_global = named.keys() <= set(loaded_names(ast.parse(made)))
    return (made, named) if are_global else (text, {})


def _named(
    statement: ast.Import | ast.ImportFrom, space: Mapping[str, object]
) -> Iterator[tuple[str, object]]:
    """Yield what an import names in the user's own files."""
    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            module = _own_module(absolute_module(statement, space))
            if module is None:
                continue
            value = getattr(module, alias.name, None) or _own_module(
                f"{module.__name__}.{alias.name}"
            )
            if value is not None:
                yield alias.asname or alias.name, value
        elif alias.asname or "." not in alias.name:
            module = _own_module(alias.name)
            if module is not None:
                yield alias.asname or alias.name, module


def _own_module(name: str) -> ModuleType | None:
    """Import a module of the user's; nothing for one that is installed, or cannot be found."""
    if not name or is_library(name):
        return None
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    file = getattr(module, "__file__", None) or ""
    return None if any(part in file for part in _PACKAGES) else module
