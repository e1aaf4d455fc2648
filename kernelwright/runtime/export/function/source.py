"""Carries a function's own source, and all that it names, into a module of its own."""

import ast
import inspect
import symtable
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import TypeGuard

import mlx.core as mx

from kernelwright.runtime.export.function.literal import is_literal, literal
from kernelwright.runtime.export.function.object_code import (
    MADE,
    NotPrintableError,
    ObjectPrinter,
)
from kernelwright.runtime.export.function.statement import (
    Statement,
    find_statement,
    lambda_text,
)

_ALLOWED = frozenset({"mlx", *sys.stdlib_module_names}) - {"__main__"}
_NUMPY = "numpy"


class NotPortableError(Exception):
    """Something that the function names cannot stand in a module of its own; the text says what."""


@dataclass
class CarriedSource:
    """The lines of a module in which the function works as it does where it was written."""

    name: str
    """Of the function, or of the object that is called."""
    attributes: tuple[str, ...]
    """The method, where the function is one of an object: `("forward",)`."""
    public: str = ""
    """A name of the method itself, where the user calls it by one: `step = model.step`."""
    imports: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)
    """Definitions in an order in which they can be run."""
    arrays: dict[str, mx.array] = field(default_factory=dict)
    """Arrays that the function names, which become data."""
    objects: dict[str, object] = field(default_factory=dict)
    """Objects that were made by a statement, and may hold arrays."""
    literals: dict[str, object] = field(default_factory=dict)
    """Numbers, texts and the like that the function names; users may set others."""
    needs_numpy: bool = False
    stated: set[str] = field(default_factory=set)
    """Objects that are written out in their state, with their arrays in `data`."""
    data: dict[str, mx.array] = field(default_factory=dict)
    names: dict[str, object] = field(default_factory=dict)
    """Everything that the module's names mean."""

    @property
    def captured(self) -> tuple[str, ...]:
        """Names of what the function reads besides its arguments, and may hold arrays."""
        return (*self.arrays, *self.objects, *self.literals)


def carry(
    function: Callable[..., object],
    name: str,
    *,
    by_state: bool = False,
    arguments: Sequence[object] = (),
    names: frozenset[str] | None = None,
) -> CarriedSource:
    """Collect a function's source and what it needs.

    A method of an object is carried with its class and the statement that made the object.

    Args:
        function: the user's.
        name: of it, or of the object that it is a method of, in the module.
        by_state: write objects out as they are now, whatever made them.
        arguments: of calls; the user's classes in them are carried, too.
        names: attributes that the function reads; of others, what has no text is left out.

    Raises:
        NotPortableError: it needs something that has no source, or another package than MLX.
    """
    return _Carrier(name, by_state=by_state, read=names).carry(function, arguments)


class _Carrier:
    def __init__(self, name: str, *, by_state: bool, read: frozenset[str] | None) -> None:
        self._found = CarriedSource(name, ())
        self._read = read
        self._by_state = by_state
        self._values = self._found.names

    def carry(self, function: Callable[..., object], arguments: Sequence[object]) -> CarriedSource:
        name = self._found.name
        if isinstance(function, MethodType):
            owner = function.__self__
            if inspect.isclass(owner):
                raise NotPortableError("it is a class method; make it a static method")
            self._found.attributes = (function.__func__.__name__,)
            self._object(name, owner, _namespace_of(type(owner)))
        elif inspect.isclass(function):
            raise NotPortableError(f"{name} is a class; name an object of it")
        elif _is_python(function) or not _is_an_object(function):
            self._function(name, function, _namespace_of(function))
        else:
            self._found.attributes = ("__call__",)
            self._object(name, function, _namespace_of(type(function)))
        for kind in _classes_in(arguments):
            with suppress(NotPortableError):
                self._name(kind.__name__, kind, _namespace_of(kind))
        return self._found

    def _object(self, name: str, value: object, namespace: Mapping[str, object]) -> None:
        """Carry the statement that made an object; it stands where its class or its name does."""
        for space in (namespace, _main()):
            found = next((key for key, v in space.items() if v is value), None)
            if found is None or self._by_state:
                continue
            statement = find_statement(space, found)
            if statement is not None and statement.expression is not None:
                self._claim(name, value)
                self._assigned(name, value, statement, space)
                return
        if not self._by_state:
            raise NotPortableError(f"no statement at the top of its file makes {name}")
        self._stated(name, value)

    def _stated(self, name: str, value: object) -> None:
        """Write an object out as it is now."""
        count = sum(block.startswith("_shared_") for block in self._found.blocks)
        printer = ObjectPrinter(
            self._refer, f"shared_{count}", self._read, data=dict(self._found.data)
        )
        try:
            text = printer.expression(value, name)
        except NotPrintableError as e:
            raise NotPortableError(str(e)) from e
        self._claim(name, value)
        if "_made(" in "".join([text, *printer.before]) and MADE not in self._found.blocks:
            self._found.blocks.insert(0, MADE.rstrip())
        self._found.blocks += [*printer.before, f"{name} = {text}"]
        self._found.data = printer.data
        self._found.needs_numpy |= printer.uses_numpy
        self._found.objects[name] = value
        self._found.stated.add(name)

    def _refer(self, name: str, value: object) -> str:
        """Carry what an object's state names; return what it is called in the module."""
        space = _namespace_of(value) if callable(value) else {}
        self._name(name, value, {**_main(), **space})
        return name

    def _function(self, name: str, value: object, space: Mapping[str, object]) -> None:
        """Carry a function by its definition, or by the expression that made it."""
        own = getattr(value, "__name__", name)
        if own != "<lambda>" and _is_python(value) and _has_source(value):
            self._definition(own, value)
            if own != name and self._claim(name, value):
                self._found.blocks.append(f"{name} = {own}")
            return
        for known in (space, _main()):
            found = next((key for key, v in known.items() if v is value), None)
            if found is not None and self._by_statement(found, value, known):
                if found != name and self._claim(name, value):
                    self._found.blocks.append(f"{name} = {found}")
                return
        if _is_python(value) and (text := lambda_text(value)):
            self._claim(name, value)
            self._names_in(ast.parse(text), _namespace_of(value))
            self._found.blocks.append(f"{name} = {text}")
        else:
            self._stated(name, value)

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
            self._found.literals[name] = value
            self._found.blocks.append(f"{name} = {literal(value)}")
        elif (isinstance(value, type) or _is_python(value)) and _is_defined_as(value, name):
            self._definition(name, value)
        else:
            self._made(name, value, space)

    def _made(self, name: str, value: object, space: Mapping[str, object]) -> None:
        """Carry what a statement at the top of a file made, or a definition with decorators."""
        if self._by_state and _is_an_object(value):
            with suppress(NotPortableError):
                self._stated(name, value)
                return
        if self._by_statement(name, value, space):
            return
        if isinstance(value, type):
            self._definition(value.__name__, value)
            if self._claim(name, value):
                self._found.blocks.append(f"{name} = {value.__name__}")
        elif callable(value) and not _is_an_object(value):
            self._function(name, value, space)
        else:
            self._stated(name, value)

    def _by_statement(self, name: str, value: object, space: Mapping[str, object]) -> bool:
        """Carry the statement that gives a name its value; say whether there is one."""
        statement = find_statement(space, name)
        node = None if statement is None else statement.node
        if statement is not None and statement.expression is not None:
            self._claim(name, value)
            self._assigned(name, value, statement, space)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            assert statement is not None
            self._claim(name, value)
            node.decorator_list = [d for d in node.decorator_list if not _is_ours(d, space)]
            self._names_in(node, space, own=name)
            self._found.blocks.append(_source_of(node, statement.text, name))
        elif isinstance(node, ast.ImportFrom):
            self._imported_from(name, value, node, space)
        else:
            return False
        return True

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
        statement: Statement,
        space: Mapping[str, object],
    ) -> None:
        assert statement.expression is not None
        self._names_in(statement.expression, space)
        self._found.blocks.append(f"{name} = {statement.expression_text}")
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


def _main() -> dict[str, object]:
    """Return the names of the program that runs, a notebook's or a shell's among them."""
    return dict(vars(sys.modules.get("__main__", ModuleType("none"))))


def _has_source(value: object) -> bool:
    try:
        inspect.getsource(value)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return False
    return True


def _is_python(value: object) -> TypeGuard[FunctionType]:
    """Say whether a value is a function; what mx.vmap returns says of itself that it is one."""
    return issubclass(type(value), FunctionType)


def _is_defined_as(value: FunctionType | type, name: str) -> bool:
    """Say whether a definition gives a function or class this name; a namedtuple has none."""
    return value.__name__ == name and (_is_python(value) or _has_source(value))


def _is_an_object(value: object) -> bool:
    """Say whether a value keeps a state, and is no function in one form or another."""
    if isinstance(value, ModuleType | type | partial) or hasattr(value, "__wrapped__"):
        return False
    # What mx.compile and its like return.
    if type(value).__module__.startswith(("mlx.core", "nanobind")):
        return False
    return not (callable(value) and hasattr(value, "__qualname__"))


def _classes_in(value: object) -> list[type]:
    """List the user's classes of the objects in a nest."""
    if isinstance(value, Mapping):
        return [kind for item in value.values() for kind in _classes_in(item)]
    found = [kind for item in value for kind in _classes_in(item)] if _is_nest(value) else []
    is_users = not _is_library(type(value).__module__) and not is_literal(value)
    return [*found, type(value)] if is_users else found


def _is_nest(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)


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
