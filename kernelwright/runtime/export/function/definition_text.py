"""The text of a definition as it stands in a module of its own."""

import ast
import textwrap
from collections.abc import Mapping

from kernelwright.runtime.export.function.portability import NotPortableError
from kernelwright.runtime.export.function.renaming import NotRenamableError, renamed


def definition_text(
    node: ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef,
    text: str,
    name: str,
    names: Mapping[str, str],
) -> str:
    """Return a definition with the decorators that are left, under its name in the module."""
    lines = text.splitlines()
    kept = [f"@{ast.get_source_segment(text, d)}" for d in node.decorator_list]
    body = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
    own = {} if node.name == name else {node.name: name}
    return renamed_text("\n".join([*kept, body]), {**names, **own})


def renamed_text(text: str, names: Mapping[str, str]) -> str:
    """Return a text with other names for some.

    Raises:
        NotPortableError: one of them means another thing within the text.
    """
    try:
        return renamed(text, names)
    except NotRenamableError as e:
        raise NotPortableError(f"two different things are called {e}; rename one") from e
