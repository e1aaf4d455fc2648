"""Carries a function's own source, and all that it names, into a module of its own."""

import ast
import inspect
import linecache
import math
import symtable
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, SimpleNamespace

import mlx.core as mx

_ALLOWED = frozenset({"mlx", *sys.stdlib_module_names}) - {"__main__"}
_NUMPY = "numpy"
_LITERALS = (bool, int, float, complex, str, bytes, type(None))


class NotPortableError(Exception):
    """Something that the function names cannot stand in a module of its own; the text says what."""


@dataclass
class CarriedSource:
    """The lines of a module in which the function works as it does where it was written."""

    name: str
    """Of the function, or of the object that is called."""
    attributes: tuple[str, ...]
    """The method, where the function is one of an object: `("forward",)`."""
    imports: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)
    """Definitions in an order in which they can be run."""
    arrays: dict[str, mx.array] = field(default_factory=dict)
    """Arrays that the function names, which become data."""
    objects: dict[str, object] = field(default_factory=dict)
    """Objects that were made by a statement, and may hold arrays."""
    needs_numpy: bool = False

    @property
    def captured(self) -> tuple[str, ...]:
        """Names of what the function reads besides its arguments, and may hold arrays."""
        return (*self.arrays, *self.objects)


def carry(function: Callable[..., object], name: str) -> CarriedSource:
    """Collect a function's source and what it needs.

    A method of an object is carried with its class and the statement that made the object.

    Raises:
        NotPortableError: it needs something that has no source, or another package than MLX.
    """
    return _Carrier(name).carry(function)


class _Carrier:
    def __init__(self, name: str) -> None:
        self._found = CarriedSource(name, ())
        self._values: dict[str, object] = {}
        self._imported: dict[str, str] = {}

    def carry(self, function: Callable[..., object]) -> CarriedSource:
        name = self._found.name
        if isinstance(function, MethodType):
            owner = function.__self__
            if inspect.isclass(owner):
                raise NotPortableError("it is a class method")
            self._found.attributes = (function.__func__.__name__,)
            self._object(name, owner, _namespace_of(type(owner)))
        elif isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
            self._definition(name, function)
        elif callable(function) and not inspect.isclass(function):
            self._found.attributes = ("__call__",)
            self._object(name, function, _namespace_of(type(function)))
        else:
            raise NotPortableError(f"{name} is a {type(function).__name__}")
        return self._found

    def _object(self, name: str, value: object, namespace: Mapping[str, object]) -> None:
        """Carry the statement that made an object; it stands where its class or its name does."""
        for space in (namespace, vars(sys.modules.get("__main__", ModuleType("none")))):
            found = next((key for key, v in space.items() if v is value), None)
            if found is None:
                continue
            statement = _statement(space, found)
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                self._claim(name, value)
                self._assigned(name, value, statement, space)
                return
        raise NotPortableError(f"no statement at the top of its file makes {name}")

    def _definition(self, name: str, value: object) -> None:
        """Carry a function or class by its source."""
        try:
            text = textwrap.dedent(inspect.getsource(value))  # type: ignore[arg-type]
            node = ast.parse(text).body[0]
        except (OSError, TypeError, SyntaxError) as e:
            raise NotPortableError(f"{name} has no source that can be read") from e
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            raise NotPortableError(f"{name} is no definition of its own, such as a lambda")
        self._claim(name, value)
        space = _namespace_of(value)
        node.decorator_list = [d for d in node.decorator_list if not _is_ours(d, space)]
        self._names_in(node, space, own=node.name)
        self._found.blocks.append(_source_of(node, text, name))

    def _names_in(self, node: ast.AST, space: Mapping[str, object], own: str = "") -> None:
        self._check_imports(node)
        for name in _loaded(node):
            if name == own or name not in space:
                continue
            value = space[name]
            if isinstance(value, ModuleType) and not _is_library(value.__name__):
                self._attributes_of(name, value, node)
            else:
                self._name(name, value, space)

    def _attributes_of(self, path: str, module: ModuleType, node: ast.AST) -> None:
        """Carry what code reads of a module, `util.scale`, and let it stand under that path."""
        read, uses = _read_of(path, node)
        if uses:
            raise NotPortableError(
                f"it needs {module.__name__} as a whole, which is not part of MLX"
            )
        if self._claim(path, module):
            if self._claim("SimpleNamespace", SimpleNamespace):
                self._found.imports.append("from types import SimpleNamespace")
            self._found.blocks.append(f"{path} = SimpleNamespace()")
        for name in read:
            whole = f"{path}.{name}"
            if not hasattr(module, name):
                raise NotPortableError(f"{module.__name__} has no {name}")
            value = getattr(module, name)
            if isinstance(value, ModuleType) and not _is_library(value.__name__):
                self._attributes_of(whole, value, node)
            elif self._claim(whole, value):
                self._name(name, value, vars(module))
                self._found.blocks.append(f"{whole} = {name}")

    def _check_imports(self, node: ast.AST) -> None:
        for inner in ast.walk(node):
            names = [a.name for a in inner.names] if isinstance(inner, ast.Import) else []
            if isinstance(inner, ast.ImportFrom):
                names = ["." if inner.level else inner.module or ""]
            for name in names:
                self._allow(name)

    def _allow(self, module: str) -> None:
        root = module.partition(".")[0]
        if root == _NUMPY:
            self._found.needs_numpy = True
        elif root not in _ALLOWED:
            raise NotPortableError(f"it needs {module or 'its package'}, which is not part of MLX")

    def _claim(self, name: str, value: object) -> bool:
        """Take a name of the module; say whether it is new."""
        if name in self._values:
            if self._values[name] is not value:
                raise NotPortableError(f"two different things are called {name}")
            return False
        self._values[name] = value
        return True

    def _name(self, name: str, value: object, space: Mapping[str, object]) -> None:
        if name in self._values:
            self._claim(name, value)
        elif isinstance(value, mx.array):
            self._claim(name, value)
            self._found.arrays[name] = value
        elif isinstance(value, ModuleType):
            self._allow(value.__name__)
            self._claim(name, value)
            self._found.imports.append(_import(value.__name__, name))
        elif (home := _library_home(value)) is not None:
            self._allow(home[0])
            self._claim(name, value)
            alias = "" if home[1] == name else f" as {name}"
            self._found.imports.append(f"from {home[0]} import {home[1]}{alias}")
        elif is_literal(value):
            self._claim(name, value)
            self._found.blocks.append(f"{name} = {literal(value)}")
        elif isinstance(value, FunctionType | type) and value.__name__ == name:
            self._definition(name, value)
        else:
            self._made(name, value, space)

    def _made(self, name: str, value: object, space: Mapping[str, object]) -> None:
        """Carry what a statement at the top of a file made, or a definition with decorators."""
        statement = _statement(space, name)
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            self._claim(name, value)
            self._assigned(name, value, statement, space)
        elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
            self._claim(name, value)
            text = _file_text(space)
            statement.decorator_list = [
                d for d in statement.decorator_list if not _is_ours(d, space)
            ]
            self._names_in(statement, space, own=name)
            self._found.blocks.append(_source_of(statement, text, name))
        elif isinstance(statement, ast.ImportFrom):
            self._imported_from(name, value, statement, space)
        elif isinstance(value, FunctionType | type):
            self._definition(value.__name__, value)
            self._claim(name, value)
            self._found.blocks.append(f"{name} = {value.__name__}")
        else:
            raise NotPortableError(f"no statement at the top of a file makes {name}")

    def _imported_from(
        self, name: str, value: object, statement: ast.ImportFrom, space: Mapping[str, object]
    ) -> None:
        source = sys.modules.get(_absolute(statement, space))
        alias = next(a for a in statement.names if (a.asname or a.name) == name)
        if source is None or getattr(source, alias.name, None) is not value:
            raise NotPortableError(f"{name} comes from a package that cannot be found again")
        self._name(alias.name, value, vars(source))
        if alias.name != name and self._claim(name, value):
            self._found.blocks.append(f"{name} = {alias.name}")

    def _assigned(
        self,
        name: str,
        value: object,
        statement: ast.Assign | ast.AnnAssign,
        space: Mapping[str, object],
    ) -> None:
        assert statement.value is not None
        self._names_in(statement.value, space)
        text = ast.get_source_segment(_file_text(space), statement.value)
        self._found.blocks.append(f"{name} = {text}")
        if not callable(value) or not hasattr(value, "__qualname__"):
            self._found.objects[name] = value


def _absolute(statement: ast.ImportFrom, space: Mapping[str, object]) -> str:
    """Return the whole name of the module that a statement imports from."""
    if not statement.level:
        return statement.module or ""
    package = str(space.get("__package__") or "").split(".")
    base = package[: len(package) - statement.level + 1]
    return ".".join([*base, *([statement.module] if statement.module else [])])


def _namespace_of(value: object) -> dict[str, object]:
    """Return what names mean to a function or class: globals, and what it closes over."""
    inner = inspect.unwrap(value) if callable(value) else value
    if isinstance(inner, FunctionType):
        space = dict(inner.__globals__)
        space.update(_closure(inner))
        return space
    module = sys.modules.get(getattr(value, "__module__", ""))
    space = dict(vars(module)) if module else {}
    for method in vars(value).values() if isinstance(value, type) else ():
        if isinstance(method, FunctionType):
            space = {**method.__globals__, **space, **_closure(method)}
    return space


def _closure(function: FunctionType) -> dict[str, object]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            if name != "__class__":
                found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def _loaded(node: ast.AST) -> Iterator[str]:
    """Yield the names that code takes from outside itself."""

    def visit(table: symtable.SymbolTable) -> Iterator[str]:
        at_top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if symbol.is_global() or (at_top and symbol.is_referenced()):
                yield symbol.get_name()
        for child in table.get_children():
            yield from visit(child)

    yield from dict.fromkeys(visit(symtable.symtable(ast.unparse(node), "<carried>", "exec")))


def _is_library(module: str) -> bool:
    """Say whether a module is Python's, MLX's or NumPy's."""
    root = module.partition(".")[0]
    return root in _ALLOWED or root == _NUMPY


def _read_of(path: str, node: ast.AST) -> tuple[list[str], bool]:
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


def _is_ours(decorator: ast.expr, space: Mapping[str, object]) -> bool:
    """Say whether a decorator is Kernelwright's."""
    inner = decorator.func if isinstance(decorator, ast.Call) else decorator
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    if not isinstance(inner, ast.Name):
        return False
    value = space.get(inner.id)
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    return str(module).partition(".")[0] == "kernelwright"


def _source_of(
    node: ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef, text: str, name: str
) -> str:
    """Return a definition with the decorators that are left, under its name in the module."""
    lines = text.splitlines()
    kept = [f"@{ast.get_source_segment(text, d)}" for d in node.decorator_list]
    body = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
    if node.name != name:
        raise NotPortableError(f"it is called {node.name} in its file")
    return "\n".join([*kept, body])


def _statement(space: Mapping[str, object], name: str) -> ast.stmt | None:
    """Find the last statement at the top of a file that gives a name its value."""
    try:
        body = ast.parse(_file_text(space)).body
    except SyntaxError:
        return None
    return next((s for s in reversed(body) if name in _bound(s)), None)


def _bound(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Assign):
        return [t.id for t in statement.targets if isinstance(t, ast.Name)]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [a.asname or a.name.partition(".")[0] for a in statement.names]
    return []


def _file_text(space: Mapping[str, object]) -> str:
    file = space.get("__file__")
    return "".join(linecache.getlines(file)) if isinstance(file, str) else ""


def _library_home(value: object) -> tuple[str, str] | None:
    """Return the module and name of what Python's library, MLX or NumPy define."""
    if not isinstance(value, FunctionType | BuiltinFunctionType | type) and not callable(value):
        return None
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or not name.isidentifier():
        return None
    if not _is_library(module):
        return None
    found = getattr(sys.modules.get(module), name, None)
    return (module, name) if found is value else None


def _import(module: str, name: str) -> str:
    return f"import {module}" if module == name else f"import {module} as {name}"


def is_literal(value: object) -> bool:
    """Say whether Python's text of a value is the value."""
    if isinstance(value, mx.Dtype):
        return True
    if type(value) in (list, tuple):
        return all(map(is_literal, value))  # type: ignore[call-overload]
    if type(value) is dict:
        return all(is_literal(k) and is_literal(v) for k, v in value.items())
    return type(value) in _LITERALS


def literal(value: object) -> str:
    """Return Python's text of a literal."""
    if isinstance(value, mx.Dtype):
        return f"mx.{str(value).rpartition('.')[2].replace('bool', 'bool_')}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if type(value) is list:
        return f"[{', '.join(map(literal, value))}]"
    if type(value) is tuple:
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    if type(value) is dict:
        return f"{{{', '.join(f'{literal(k)}: {literal(v)}' for k, v in value.items())}}}"
    return repr(value)


def array_literal(array: mx.array) -> str:
    """Return MLX code of a small array."""
    wide = array.astype(mx.float32) if mx.issubdtype(array.dtype, mx.floating) else array
    values = wide.tolist()
    return f"mx.array({literal(values)}, {literal(array.dtype)})"
