"""The text of a function, as a tree."""

import ast
import linecache
from functools import cache
from types import CodeType

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@cache
def definition(code: CodeType) -> Definition | None:
    """Return the definition of which code was made; None where no text of it is at hand."""
    lines = linecache.getlines(code.co_filename)
    found = _definitions(code.co_filename, len(lines), hash("".join(lines)))
    fitting = (node for node in found.get((code.co_name, code.co_firstlineno), ()))
    return next((node for node in fitting if _says(node, code)), None)


@cache
def _definitions(file: str, count: int, digest: int) -> dict[tuple[str, int], list[Definition]]:
    del count, digest
    found: dict[tuple[str, int], list[Definition]] = {}
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            found.setdefault(("<lambda>", node.lineno), []).append(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            # Code begins where its first decorator stands.
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found.setdefault((node.name, first), []).append(node)
    return found


def _says(node: Definition, code: CodeType) -> bool:
    """Say whether a definition has every name of the code: its file may have been changed."""
    spoken = _names(node)
    given = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
    # Rewritten assertions have such names; those of classes' own attributes are longer in code.
    named = (n for n in code.co_names if not n.startswith("@py_") and "__" not in n)
    return list(code.co_varnames[: code.co_argcount]) == given and spoken.issuperset(named)


def _names(node: ast.AST) -> set[str]:
    names: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            names.add(inner.id)
        elif isinstance(inner, ast.Attribute):
            names.add(inner.attr)
        elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(inner.name)
        elif isinstance(inner, ast.alias):
            names |= {inner.name, *inner.name.split("."), inner.asname or ""}
        elif isinstance(inner, ast.ImportFrom):
            names |= {inner.module or "", *(inner.module or "").split(".")}
    return names
