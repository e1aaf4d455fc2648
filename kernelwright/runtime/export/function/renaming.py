"""Gives names in a user's code to other things: two of their files may use one name for two."""

import ast
import re
from collections.abc import Iterator, Mapping


class NotRenamableError(Exception):
    """Code uses a name for a variable of its own, too; the text is the name."""


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return code in which what it takes from outside, or defines itself, has other names.

    Raises:
        NotRenamableError: it also gives one of these names to a variable, or formats it.
    """
    if not names:
        return text
    tree = ast.parse(text)
    for name in names:
        if name in _bound(tree):
            raise NotRenamableError(name)
    # Columns count bytes.
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    for node in sorted(_uses(tree, names), key=lambda n: (n.lineno, n.col_offset), reverse=True):
        line, end = lines[node.lineno - 1], node.col_offset + len(node.id.encode())
        lines[node.lineno - 1] = line[: node.col_offset] + names[node.id].encode() + line[end:]
    whole = b"".join(lines).decode()
    for name, new in names.items():
        head = rf"^((?:async )?def|class)(\s+){name}\b"
        whole = re.sub(head, rf"\1\2{new}", whole, flags=re.MULTILINE)
    return whole


def _uses(tree: ast.AST, names: Mapping[str, str]) -> Iterator[ast.Name]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            yield node
        inner = ast.walk(node) if isinstance(node, ast.JoinedStr) else ()
        for part in inner:
            # Python 3.11 does not know where in a formatted text a name stands.
            if isinstance(part, ast.Name) and part.id in names:
                raise NotRenamableError(part.id)


def _bound(tree: ast.AST) -> set[str]:
    """Return the names that code gives to variables, parameters, imports and inner definitions."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler):
            found.add(node.name or "")
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node.col_offset:
            found.add(node.name)
    return found
