"""Takes what Kernelwright adds to a user's code out of it: decorators, and calls of `optimize`."""

import ast
from collections.abc import Mapping
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
