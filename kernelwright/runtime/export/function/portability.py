"""Why a piece of the user's code cannot stand in a module of its own, and where that piece is."""

import ast
import inspect
import re
import symtable
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass


class NotPortableError(Exception):
    """Something that the function names cannot stand in a module of its own; the text says what."""

    place = ""
    """The variable and the line of the user's file, as ` (scipy, model.py:12)`."""

    def __str__(self) -> str:
        """Return what it is, where, and what to do."""
        what, separator, advice = str(self.args[0]).partition("; ")
        return f"{what}{self.place}{separator}{advice}"


@dataclass(frozen=True)
class Origin:
    """Where a piece of the user's code stands."""

    file: str
    first_line: int
    """Of the piece, in the file."""

    @classmethod
    def of(cls, value: object) -> "Origin | None":
        """Find a function or class; None where its file is not known."""
        inner = inspect.unwrap(value) if callable(value) else value
        try:
            file = inspect.getsourcefile(inner)  # type: ignore[arg-type]
            return cls(file, inspect.getsourcelines(inner)[1]) if file else None  # type: ignore[arg-type]
        except (OSError, TypeError):
            return None

    def place_of(self, name: str, node: ast.AST) -> str:
        """Say where code names something first."""
        lines = [
            part.lineno
            for part in ast.walk(node)
            if (isinstance(part, ast.Name) and part.id == name)
            or (isinstance(part, ast.Import | ast.ImportFrom) and name in _imported(part))
        ]
        line = f":{self.first_line + min(lines) - 1}" if lines else ""
        return f" ({name}, {self.file}{line})"


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return ["." if node.level else node.module or ""]
    return [alias.name for alias in node.names]


@contextmanager
def naming(name: str, node: ast.AST, at: Origin | None) -> Iterator[None]:
    """Add the variable and its line to what cannot be carried; the innermost ones count."""
    try:
        yield
    except NotPortableError as e:
        if not e.place and at is not None:
            e.place = at.place_of(name, node)
        raise


def check_stands_alone(name: str, text: str, at: Origin | None) -> None:
    """Refuse a definition that says `nonlocal` of a variable of the function around it.

    Args:
        name: how the exported module calls it.
        text: the definition, without the indentation of its first line.
        at: where it stands.

    Raises:
        NotPortableError: the line of the statement, and what to do.
        SyntaxError: it is no Python for another reason.
    """
    try:
        symtable.symtable(text, "<carried>", "exec")
    except SyntaxError as e:
        statement = re.search(r"\bnonlocal\b[^;#]*", text.splitlines()[(e.lineno or 1) - 1])
        if statement is None:
            raise
        error = NotPortableError(
            f"{name} changes a variable of the function around it, by `{statement[0].strip()}`; "
            "make it an argument and a result"
        )
        if at is not None and e.lineno:
            error.place = f" ({at.file}:{at.first_line + e.lineno - 1})"
        raise error from e


def in_file(space: Mapping[str, object]) -> Origin | None:
    """Return the beginning of a namespace's file; None where it has none."""
    file = space.get("__file__")
    return Origin(file, 1) if isinstance(file, str) else None


def modules_imported(node: ast.AST) -> list[str]:
    """List the modules that code imports; a single dot stands for its own package."""
    statements = (n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom))
    return [name for statement in statements for name in _imported(statement)]
