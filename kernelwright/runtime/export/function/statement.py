"""Finds the statement that gives a name its value, in a file or in the cells of a notebook."""

import ast
import linecache
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType

from kernelwright.runtime.export.function.instrumentation import (
    without_decorators,
    without_optimize,
)


@dataclass(frozen=True)
class Statement:
    """A statement at the top of a file or cell."""

    node: ast.stmt
    text: str
    """Of the whole file or cell."""

    @property
    def expression(self) -> ast.expr | None:
        """What an assignment assigns to one name, and nothing else."""
        return self.node.value if isinstance(self.node, ast.Assign | ast.AnnAssign) else None

    @property
    def expression_text(self) -> str:
        """The expression as it is written; in parentheses where it needs several lines."""
        assert self.expression is not None
        text = ast.get_source_segment(self.text, self.expression) or ""
        return f"({text})" if "\n" in text else text


def find_statement(space: Mapping[str, object], name: str) -> Statement | None:
    """Find the last statement at the top of a namespace's text that gives a name its value."""
    for tree, text in _parsed_texts(space):
        found = next((s for s in reversed(tree.body) if name in _bound(s)), None)
        if found is not None:
            if isinstance(found, ast.Assign | ast.AnnAssign) and found.value is not None:
                expression = without_optimize(found.value, space)
                found = copy(found)
                found.value = expression
            return Statement(found, text)
    return None


def parts_imported(package: str, space: Mapping[str, object]) -> list[str]:
    """List the modules of a package that a file imports beside it: `import mlx.nn` names `mlx`."""
    nodes = (node for tree, _ in _parsed_texts(space) for node in ast.walk(tree))
    aliases = (alias for node in nodes if isinstance(node, ast.Import) for alias in node.names)
    parts = (a.name for a in aliases if a.asname is None and a.name.startswith(f"{package}."))
    return list(dict.fromkeys(parts))


def _parsed_texts(space: Mapping[str, object]) -> Iterator[tuple[ast.Module, str]]:
    """Yield a namespace's texts without our own decorators, the latest first, and their trees."""
    for text in _texts(space):
        # A cell may hold what is no Python, such as %timeit.
        with suppress(SyntaxError):
            text = without_decorators(text, space)
            yield _parsed(text), text


@lru_cache(maxsize=32)
def _parsed(text: str) -> ast.Module:
    """Parse a text once for all the names that are looked up in it."""
    return ast.parse(text)


def is_in_a_loop(space: Mapping[str, object], name: str) -> bool:
    """Say whether a name is only a loop's variable, which holds another thing in every round."""
    return find_statement(space, name) is None and any(name in _looped(t) for t in _texts(space))


def _looped(text: str) -> set[str]:
    """Return the variables of the loops at the top of a text, and in blocks there."""
    try:
        rest: list[ast.AST] = [ast.parse(text)]
    except SyntaxError:
        return set()
    found: set[str] = set()
    while rest:
        node = rest.pop()
        if isinstance(node, ast.For):
            found |= {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            rest += [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)]
    return found


def lambda_text(function: FunctionType) -> str | None:
    """Return the expression of a lambda; None where its text is not known."""
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    places = [(p[0], p[2]) for p in code.co_positions() if p[0] and p[2] and p[2] != p[3]]
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda)
        and node.lineno == code.co_firstlineno
        and all((node.lineno, node.col_offset) <= place for place in places)
        and all(place <= (node.end_lineno, node.end_col_offset) for place in places)
    ]
    if not found:
        return None
    # Of lambdas within each other the innermost holds all of its own instructions, too.
    inner = max(found, key=lambda node: node.col_offset)
    return f"({ast.get_source_segment(text, inner)})"


def _texts(space: Mapping[str, object]) -> Iterator[str]:
    """Yield a namespace's texts, the latest first."""
    file = space.get("__file__")
    if isinstance(file, str) and (text := "".join(linecache.getlines(file))):
        yield text
    # IPython keeps the cells that were run under this name.
    cells = space.get("In")
    if isinstance(cells, list):
        yield from (cell for cell in reversed(cells) if isinstance(cell, str))


def _bound(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Assign):
        return [t.id for t in statement.targets if isinstance(t, ast.Name)]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id] if statement.value is not None else []
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [a.asname or a.name.partition(".")[0] for a in statement.names]
    return []
