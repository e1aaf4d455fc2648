"""The code that every exported function carries: what sees a call, and what it compares."""

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType

from kernelwright.runtime import (
    code_names,
    definition,
    enumeration,
    read_walk,
    reads,
    unchanged,
    value,
    watched_place,
)
from kernelwright.runtime.export.function import (
    differentiable,
    dispatch,
    passed_call,
    passed_nest,
)

_MODULES = (
    *(code_names, definition, value, watched_place, read_walk, reads, unchanged, enumeration),
    *(passed_nest, passed_call, differentiable, dispatch),
)
_OWN = "kernelwright"
_INSTALLED = ("_CAPTURED", "_DATA", "_NAMES", "_PASSED", "_VARIANTS", "_kept")
"""Names that the lines about a function's own kernels give."""
_NUMBERED = ("_KERNEL", "_constant", "_kernel", "_variant")
_MOST_NUMBERS = 200


@cache
def dispatch_imports() -> tuple[str, ...]:
    """List the imports of the code that dispatches."""
    whole: dict[str, None] = {}
    names: dict[str, set[str]] = {}
    for module in _MODULES:
        for node in _imports(module):
            if isinstance(node, ast.Import):
                whole[ast.unparse(node)] = None
            elif not str(node.module).startswith(_OWN):
                names.setdefault(str(node.module), set()).update(a.name for a in node.names)
    lines = [f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)]
    last = [line for line in whole if "mlx" in line]
    return (*sorted(line for line in whole if line not in last), *lines, "", *last)


@cache
def dispatch_text() -> str:
    """Return the code that dispatches, without its imports."""
    parts = []
    for module in _MODULES:
        lines = _text(module).splitlines()
        last = max(node.end_lineno or 0 for node in _imports(module))
        parts.append("\n".join(lines[last:]).strip())
    return "\n\n\n".join(parts) + "\n"


@cache
def derivative_text() -> str:
    """Return the code that gives kernels the derivatives of what they replace."""
    functions = (
        differentiable._listed,
        differentiable._is_inexact,
        differentiable._of_some,
        differentiable._differentiable,
    )
    return "\n\n".join(inspect.getsource(function) for function in functions)


@cache
def dispatch_names() -> Mapping[str, object]:
    """Return the names that an export has at its top: imports with what they mean, and its own."""
    numbered = [f"{name}_{i}" for name in _NUMBERED for i in range(_MOST_NUMBERS)]
    found: dict[str, object] = {name: object() for name in (*_INSTALLED, *numbered)}
    exec("\n".join(dispatch_imports()), found)
    del found["__builtins__"]
    for node in ast.parse(dispatch_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found |= {t.id: node for t in node.targets if isinstance(t, ast.Name)}
    return found


def _imports(module: ModuleType) -> list[ast.Import | ast.ImportFrom]:
    body = ast.parse(_text(module)).body
    return [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]


def _text(module: ModuleType) -> str:
    return Path(str(module.__file__)).read_text(encoding="utf-8")
