"""What names mean in a user's code, and where the things that they mean come from."""

import ast
import inspect
import symtable
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TypeGuard

import mlx.core as mx

from kernelwright.runtime.code_names import _functions_within, _has
from kernelwright.runtime.export.function.literal import is_literal

ALLOWED = frozenset({"mlx", *sys.stdlib_module_names}) - {"__main__"}


NUMPY = "numpy"
OF_EVERY_MODULE = frozenset({"__name__", "__file__", "__package__", "__spec__", "__loader__"})
"""What a module is told of itself, which an exported module is told anew."""
SUBJECT = "kernelwright_subject_"
"""How the name begins under which a user's file is imported."""


def absolute_module(statement: ast.ImportFrom, space: Mapping[str, object]) -> str:
    """Return the whole name of the module that a statement imports from."""
    if not statement.level:
        return statement.module or ""
    package = str(space.get("__package__") or "").split(".")
    base = package[: len(package) - statement.level + 1]
    return ".".join([*base, *([statement.module] if statement.module else [])])


def namespace_of(value: object) -> dict[str, object]:
    """Return what names mean to a function or class: globals, and what it closes over."""
    inner = inspect.unwrap(value) if callable(value) else value
    if isinstance(inner, FunctionType):
        space = dict(inner.__globals__)
        space.update(closure_of(inner))
        return space
    module_name = getattr(value, "__module__", "")
    module = sys.modules.get(module_name)
    space = dict(vars(module)) if module else {}
    for method in vars(value).values() if isinstance(value, type) else ():
        # A base class such as enum.Enum, or a decorator, may put methods of its own file there.
        if isinstance(method, FunctionType) and method.__globals__.get("__name__") == module_name:
            space = {**method.__globals__, **space, **closure_of(method)}
    return space


def implementations_of(value: object) -> dict[str, FunctionType]:
    """Return what decorators gave a function: each under a name, and none for most functions.

    That is what `functools.singledispatch` does for a class, or an `mx.custom_function` instead of
    MLX's own derivative.
    """
    if isinstance(value, mx.custom_function):
        _, *given = [f for f in _functions_within(value) if isinstance(f, FunctionType)]
        return {f"rule_{i}": f for i, f in enumerate(given, 1)}
    registry = getattr(value, "registry", None)
    if not isinstance(value, FunctionType) or not isinstance(registry, Mapping):
        return {}
    first = registry.get(object)
    return {kind.__name__: f for kind, f in registry.items() if f is not first}


def closure_of(function: FunctionType) -> dict[str, object]:
    """Return what the variables of enclosing functions hold."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            if name != "__class__":
                found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def loaded_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that code takes from outside itself."""

    def visit(table: symtable.SymbolTable) -> Iterator[str]:
        at_top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if symbol.is_global() or (at_top and symbol.is_referenced()):
                yield symbol.get_name()
        for child in table.get_children():
            yield from visit(child)

    yield from dict.fromkeys(visit(symtable.symtable(ast.unparse(node), "<carried>", "exec")))


def is_library(module: str) -> bool:
    """Say whether a module is Python's, MLX's or NumPy's."""
    root = module.partition(".")[0]
    return root in ALLOWED or root == NUMPY


def attributes_read(path: str, node: ast.AST) -> tuple[list[str], bool]:
    """Return the attributes that code reads of a dotted path, and whether it uses it otherwise."""
    read: dict[str, None] = {}
    inner: set[int] = set()
    found: list[ast.expr] = []
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute | ast.Name) and ast.unparse(part) == path:
            found.append(part)
        if isinstance(part, ast.Attribute) and ast.unparse(part.value) == path:
            inner.add(id(part.value))
            if isinstance(part.ctx, ast.Load):
                read[part.attr] = None
            else:
                inner.discard(id(part.value))
    return list(read), any(id(part) not in inner for part in found)


def main_names() -> dict[str, object]:
    """Return the names of the program that runs, a notebook's or a shell's among them."""
    return dict(vars(sys.modules.get("__main__", ModuleType("none"))))


def holders_of(value: object) -> list[dict[str, object]]:
    """List the namespaces of the user's modules in which a variable holds a value."""
    modules = [m for m in list(sys.modules.values()) if isinstance(m, ModuleType)]
    users = [m for m in modules if not is_library(m.__name__) and not _is_ours(m.__name__)]
    return [vars(m) for m in users if any(v is value for v in list(vars(m).values()))]


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "kernelwright"


def named_as_at_home(expression: ast.expr, text: str, space: Mapping[str, object]) -> str:
    """Write the name of the user's module where an expression says `__name__`, as for a log."""
    name = str(space.get("__name__", "")).removeprefix(SUBJECT)
    told = [n for n in ast.walk(expression) if isinstance(n, ast.Name) and n.id == "__name__"]
    for node in told if name else ():
        node.id = repr(name)
    return ast.unparse(expression) if told and name else text


def has_source(value: object) -> bool:
    """Say whether Python finds the text of a function or class."""
    try:
        inspect.getsource(value)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return False
    return True


def is_python(value: object) -> TypeGuard[FunctionType]:
    """Say whether a value is a function; what mx.vmap returns says of itself that it is one."""
    return issubclass(type(value), FunctionType)


def is_defined_as(value: FunctionType | type, name: str) -> bool:
    """Say whether a definition gives a function or class this name; a namedtuple has none."""
    is_one = not _has(value, "__wrapped__") if is_python(value) else has_source(value)
    return value.__name__ == name and is_one


def is_class_method(value: object) -> TypeGuard[MethodType]:
    """Say whether a method is bound to a class and not to an object."""
    return isinstance(value, MethodType) and isinstance(value.__self__, type)


def is_an_object(value: object) -> bool:
    """Say whether a value keeps a state, and is no function in one form or another."""
    if isinstance(value, ModuleType | type | partial) or _has(value, "__wrapped__"):
        return False
    # What mx.compile and its like return.
    if type(value).__module__.startswith(("mlx.core", "nanobind")):
        return False
    return not (callable(value) and _has(value, "__qualname__"))


def classes_in(value: object) -> list[type]:
    """List the user's classes of the objects in a nest."""
    if isinstance(value, Mapping):
        return [kind for item in value.values() for kind in classes_in(item)]
    found = [kind for item in value for kind in classes_in(item)] if is_nest(value) else []
    is_users = not is_library(type(value).__module__) and not is_literal(value)
    return [*found, type(value)] if is_users else found


def is_nest(value: object) -> TypeGuard[Sequence[object]]:
    """Say whether a value is a list or tuple."""
    return isinstance(value, list | tuple)


def library_home(value: object) -> tuple[str, str] | None:
    """Return the module and name of what Python's library, MLX or NumPy define."""
    if not isinstance(value, FunctionType | BuiltinFunctionType | type) and not callable(value):
        return None
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or not name.isidentifier():
        return None
    if not is_library(module):
        return None
    found = getattr(sys.modules.get(module), name, None)
    return (module, name) if found is value else None


def import_line(module: str, name: str) -> str:
    """Return the statement that imports a module under a name."""
    return f"import {module}" if module == name else f"import {module} as {name}"
