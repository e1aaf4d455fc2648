"""Takes what Kernelwright adds to a user's code out of it: decorators, and calls of `optimize`."""

import ast
from collections.abc import Mapping, Sequence
from types import ModuleType


def without_decorators(text: str, space: Mapping[str, object]) -> str:
    """Return code with empty lines in place of Kernelwright's decorators, those in classes too."""
    if not any(map(_comes_from_us, space.values())):
        return text
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                if _is_ours(decorator, space):
                    last = decorator.end_lineno or decorator.lineno
                    lines[decorator.lineno - 1 : last] = [""] * (last - decorator.lineno + 1)
    return "\n".join(lines)


def without_registrations(
    text: str, value: object, space: Mapping[str, object], holders: Sequence[object]
) -> str:
    """Return a definition with empty lines in place of decorators that put it into an object.

    Where the object is written out as it is, it holds the definition already, and stands after it.

    Args:
        text: the definition, with its decorators.
        value: the function or class itself; what a decorator replaced keeps its decorators.
        space: what names mean in its file.
        holders: the objects that are written out.
    """
    node = ast.parse(text).body[0]
    if not holders or not isinstance(node, ast.FunctionDef | ast.ClassDef):
        return text
    made = value if isinstance(value, type) else getattr(value, "__code__", None)
    if node.name not in (getattr(made, "co_qualname", ""), getattr(made, "__qualname__", "")):
        return text
    lines = text.splitlines()
    for decorator in node.decorator_list:
        root: ast.expr = decorator
        while isinstance(root, ast.Call | ast.Attribute):
            root = root.func if isinstance(root, ast.Call) else root.value
        if isinstance(root, ast.Name) and any(space.get(root.id) is held for held in holders):
            last = decorator.end_lineno or decorator.lineno
            lines[decorator.lineno - 1 : last] = [""] * (last - decorator.lineno + 1)
    return "\n".join(lines)


def without_optimize(expression: ast.expr, space: Mapping[str, object]) -> ast.expr:
    """Return what `optimize` is given, in an expression that calls it; another as it is."""
    while (
        isinstance(expression, ast.Call)
        and _named(expression.func) == "optimize"
        and _is_ours(expression.func, space)
        and expression.args
    ):
        expression = expression.args[0]
    return expression


def _named(function: ast.expr) -> str:
    """Return the last name of `kw.optimize` and of `kw.optimize(store=…)`."""
    inner = function.func if isinstance(function, ast.Call) else function
    return inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", "")


def _is_ours(decorator: ast.expr, space: Mapping[str, object]) -> bool:
    inner = decorator.func if isinstance(decorator, ast.Call) else decorator
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    return isinstance(inner, ast.Name) and _comes_from_us(space.get(inner.id))


def _comes_from_us(value: object) -> bool:
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    return str(module).partition(".")[0] == "kernelwright"
