"""Carries a function's own source, and all that it names, into a module of its own."""

import ast
import inspect
import re
import sys
import textwrap
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MethodType, ModuleType, SimpleNamespace

import mlx.core as mx

from kernelwright.ir.trace.transformation import transformation_of
from kernelwright.runtime.code_names import _has
from kernelwright.runtime.export.function.carried_names import (
    ALLOWED,
    NUMPY,
    OF_EVERY_MODULE,
    absolute_module,
    attributes_read,
    classes_in,
    has_source,
    holders_of,
    implementations_of,
    import_line,
    is_an_object,
    is_class_method,
    is_defined_as,
    is_library,
    is_python,
    library_home,
    loaded_names,
    main_names,
    named_as_at_home,
    namespace_of,
)
from kernelwright.runtime.export.function.carried_source import CarriedSource
from kernelwright.runtime.export.function.carried_text import dispatch_names
from kernelwright.runtime.export.function.definition_text import definition_text, renamed_text
from kernelwright.runtime.export.function.inner_import import without_imports
from kernelwright.runtime.export.function.instrumentation import (
    without_decorators,
    without_registrations,
)
from kernelwright.runtime.export.function.literal import is_literal, literal
from kernelwright.runtime.export.function.object_code import (
    MADE,
    NotPrintableError,
    ObjectPrinter,
)
from kernelwright.runtime.export.function.portability import (
    NotPortableError,
    Origin,
    check_stands_alone,
    in_file,
    modules_imported,
    naming,
)
from kernelwright.runtime.export.function.statement import (
    Statement,
    find_statement,
    lambda_text,
    parts_imported,
)


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


_REGISTERING = (".register", ".vjp", ".jvp", ".vmap")
"""Decorators that give a function something and leave it a name of its own."""


class _Carrier:
    def __init__(self, name: str, *, by_state: bool, read: frozenset[str] | None) -> None:
        self._found = CarriedSource(name, ())
        self._read = read
        self._by_state = by_state
        self._being_stated: list[ObjectPrinter] = []
        # What every export carries has its names already.
        self._values = ChainMap(self._found.names, dict(dispatch_names()))

    def carry(self, function: Callable[..., object], arguments: Sequence[object]) -> CarriedSource:
        name = self._found.name
        if is_class_method(function):
            self._class_method(name, function)
        elif isinstance(function, MethodType):
            owner = function.__self__
            self._found.attributes = (function.__func__.__name__,)
            self._object(name, owner, namespace_of(type(owner)))
        elif inspect.isclass(function):
            raise NotPortableError(f"{name} is a class; name an object of it")
        elif is_python(function) or not is_an_object(function):
            self._function(name, function, namespace_of(function))
        else:
            self._found.attributes = ("__call__",)
            self._object(name, function, namespace_of(type(function)))
        for kind in classes_in(arguments):
            with suppress(NotPortableError):
                self._name(kind.__name__, kind, namespace_of(kind))
        return self._found

    def _class_method(self, name: str, value: MethodType) -> None:
        """Carry a method with the class that it is bound to, as a function of the module."""
        owner = value.__self__
        assert isinstance(owner, type)
        called = self._called(owner.__name__, owner, namespace_of(owner))
        self._claim(name, value)
        self._found.blocks.append(f"{name} = {called}.{value.__name__}")

    def _object(self, name: str, value: object, namespace: Mapping[str, object]) -> None:
        """Carry the statement that made an object; it stands where its class or its name does."""
        for space in (namespace, main_names(), *holders_of(value)):
            found = next((key for key, v in space.items() if v is value), None)
            if found is None or self._by_state:
                continue
            statement = find_statement(space, found)
            if statement is not None and statement.expression is not None:
                self._claim(name, value)
                self._assigned(name, value, statement, space)
                return
        if not self._by_state:
            raise NotPortableError(
                f"no statement at the top of its file makes {name}; assign it there"
            )
        self._stated(name, value)

    def _stated(self, name: str, value: object) -> None:
        """Write an object out as it is now."""
        count = sum(block.startswith("_shared_") for block in self._found.blocks)
        printer = ObjectPrinter(
            self._refer, f"shared_{count}", self._read, data=dict(self._found.data)
        )
        self._being_stated.append(printer)
        try:
            text = printer.expression(value, name)
        except NotPrintableError as e:
            raise NotPortableError(str(e)) from e
        finally:
            self._being_stated.pop()
        self._claim(name, value)
        made = MADE.rstrip()
        if "_made(" in "".join([text, *printer.before]) and made not in self._found.blocks:
            self._found.blocks.insert(0, made)
        self._found.blocks += [*printer.before, f"{name} = {text}"]
        self._found.data = printer.data
        self._found.needs_numpy |= printer.uses_numpy
        self._found.objects[name] = value
        self._found.stated.add(name)

    def _refer(self, name: str, value: object) -> str:
        """Carry what an object's state names; return what it is called in the module."""
        space = namespace_of(value) if callable(value) else {}
        return self._called(name, value, {**main_names(), **space})

    def _function(self, name: str, value: object, space: Mapping[str, object]) -> None:
        """Carry a function by its definition, or by the expression that made it."""
        own = getattr(value, "__name__", name)
        if own != name and self._decorated(name, value):
            return
        is_made = transformation_of(value) is not None
        if own != "<lambda>" and not is_made and is_python(value) and has_source(value):
            self._definition(own, value)
            if own != name and self._claim(name, value):
                self._found.blocks.append(f"{name} = {own}")
            return
        for known in (space, main_names(), *holders_of(value)):
            found = next((key for key, v in known.items() if v is value), None)
            if found is not None and self._by_statement(found, value, known):
                if found != name and self._claim(name, value):
                    self._found.blocks.append(f"{name} = {found}")
                return
        if is_made:
            self._transformed(name, value)
        elif is_python(value) and (text := lambda_text(value)):
            self._claim(name, value)
            code = value.__code__
            origin = Origin(code.co_filename, code.co_firstlineno)
            names = self._names_in(ast.parse(text), namespace_of(value), at=origin)
            self._found.blocks.append(f"{name} = {renamed_text(text, names)}")
        else:
            self._stated(name, value)

    def _decorated(self, name: str, value: object) -> bool:
        """Carry what a decorator made of a definition at the top, if it is called otherwise."""
        for space in holders_of(value):
            found = next(key for key, v in space.items() if v is value)
            statement = find_statement(space, found)
            if statement is None or not isinstance(statement.node, ast.FunctionDef):
                continue
            if self._by_statement(found, value, space):
                if found != name and self._claim(name, value):
                    self._found.blocks.append(f"{name} = {found}")
                return True
        return False

    def _transformed(self, name: str, value: object) -> None:
        """Carry what MLX made of a function, where it shows with which arguments."""
        made = transformation_of(value)
        assert made is not None
        inner = getattr(made.inner, "__name__", "inner")
        if made.name not in ("compile", "vmap") or made.arguments is None:
            raise NotPortableError(
                f"no statement at the top of its file makes it by {made.name}; write one there, "
                f"such as step = {made.name}({inner}), and take step"
            )
        self._refer("mx", mx)
        inner = f"{name}_inner" if inner in (name, "<lambda>") else inner
        inner = self._called(inner, made.inner, namespace_of(made.inner))
        arguments = "".join(f", {literal(a)}" for a in made.arguments if a is not None)
        self._claim(name, value)
        self._found.blocks.append(f"{name} = mx.{made.name}({inner}{arguments})")

    def _parsed(
        self, name: str, value: object
    ) -> tuple[ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef, str, dict[str, object]]:
        """Return the definition of a function or class, its text, and what names mean to it."""
        space = namespace_of(value)
        try:
            text = textwrap.dedent(inspect.getsource(value))  # type: ignore[arg-type]
            check_stands_alone(name, text, Origin.of(value))
            text = without_decorators(text, space)
            holders = [held for printer in self._being_stated for held in printer.containers]
            text = without_registrations(text, value, space, holders)
            text, imported = without_imports(text, space)
            space |= imported
            node = ast.parse(text).body[0]
        except (OSError, TypeError) as e:
            raise NotPortableError(
                f"{name} has no source that can be read; define it in a file"
            ) from e
        except SyntaxError as e:
            raise NotPortableError(
                f"the lines of {name} are no definition by themselves; write it as a def of its own"
            ) from e
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            raise NotPortableError(f"{name} is no definition of its own, such as a lambda")
        return node, text, space

    def _definition(self, name: str, value: object) -> None:
        """Carry a function or class by its source."""
        node, text, space = self._parsed(name, value)
        self._claim(name, value)
        names = self._names_in(node, space, own=node.name, at=Origin.of(value))
        self._found.blocks.append(definition_text(node, text, name, names))
        if isinstance(node, ast.ClassDef) and node.name != name:
            # Objects are told apart by the name of their class, which is the user's.
            self._found.blocks.append(f"{name}.__name__ = {name}.__qualname__ = {node.name!r}")
        self._implementations(name, value)

    def _implementations(self, generic: str, value: object) -> None:
        """Carry what decorators gave a function; they do so again."""
        for label, implementation in implementations_of(value).items():
            name = f"{generic}_{label}"
            node, text, space = self._parsed(name, implementation)
            written = [ast.unparse(each) for each in node.decorator_list]
            if not any(part in each for each in written for part in _REGISTERING):
                raise NotPortableError(
                    f"{implementation.__name__} is given to {generic} by a call; write a "
                    f"decorator, such as @{generic}.register or @{generic}.vjp, above its "
                    "definition"
                )
            names = self._names_in(node, space, own=node.name, at=Origin.of(implementation))
            self._claim(name, implementation)
            self._found.blocks.append(definition_text(node, text, name, names))

    def _names_in(
        self,
        node: ast.AST,
        space: Mapping[str, object],
        own: str = "",
        at: Origin | None = None,
    ) -> dict[str, str]:
        """Carry what code names; return the names that mean something else in the module."""
        changed: dict[str, str] = {}
        for name in modules_imported(node):
            with naming(name, node, at):
                self._allow(name)
        for name in loaded_names(node):
            if name == own or name not in space or name in OF_EVERY_MODULE:
                continue
            value = space[name]
            with naming(name, node, at):
                if isinstance(value, ModuleType) and not is_library(value.__name__):
                    self._attributes_of(name, value, node)
                elif (called := self._called(name, value, space)) != name:
                    changed[name] = called
        return changed

    def _attributes_of(self, path: str, module: ModuleType, node: ast.AST) -> None:
        """Carry what code reads of a module, `util.scale`, and let it stand under that path."""
        read, uses = attributes_read(path, node)
        if uses:
            raise NotPortableError(
                f"it needs {module.__name__} as a whole, which is not part of MLX; read the names "
                "of the module that it needs, one by one"
            )
        if self._claim(path, module):
            if self._claim("SimpleNamespace", SimpleNamespace):
                self._found.imports.append("from types import SimpleNamespace")
            self._found.blocks.append(f"{path} = SimpleNamespace()")
        for name in read:
            whole = f"{path}.{name}"
            try:
                value = getattr(module, name)
            except (AttributeError, ImportError) as e:
                raise NotPortableError(f"{module.__name__} has no {name}") from e
            if isinstance(value, ModuleType) and not is_library(value.__name__):
                self._attributes_of(whole, value, node)
            elif self._claim(whole, value):
                self._name(name, value, vars(module))
                self._found.blocks.append(f"{whole} = {name}")

    def _allow(self, module: str) -> None:
        root = module.partition(".")[0]
        if root == NUMPY:
            self._found.needs_numpy = True
        elif root not in ALLOWED:
            raise NotPortableError(
                f"it needs {'its package' if module == '.' else module}, which is not part of MLX; "
                "compute that outside of the function and pass the result as an argument"
            )

    def _claim(self, name: str, value: object) -> bool:
        """Take a name of the module; say whether it is new."""
        if self._values.get(name, value) is not value:
            if name in self._found.names:
                raise NotPortableError(f"two different things are called {name}; rename one")
            raise NotPortableError(
                f"it uses the name {name}, which exported modules use, too; rename it"
            )
        if name in self._found.names:
            return False
        self._values[name] = value
        return True

    def _called(self, name: str, value: object, space: Mapping[str, object]) -> str:
        """Carry what a name means; return the name that it has in the module.

        It is another one where two files, or two calls of one function, use a name for two things.
        """
        if name not in self._values or self._values[name] is value:
            self._name(name, value, space)
            return name
        other = re.compile(rf"{name}_\d+")
        for known, held in self._values.items():
            if held is value and other.fullmatch(known):
                return known
        number = 2
        while f"{name}_{number}" in {**self._values, **space}:
            number += 1
        called = f"{name}_{number}"
        is_plain = isinstance(value, type) or (is_python(value) and not transformation_of(value))
        if is_plain and has_source(value) and getattr(value, "__name__", "") != "<lambda>":
            self._definition(called, value)
        elif (
            isinstance(value, mx.array | ModuleType)
            or is_literal(value)
            or library_home(value) is not None
        ):
            self._name(called, value, space)
        else:
            self._claim(name, value)
        return called

    def _name(self, name: str, value: object, space: Mapping[str, object]) -> None:
        if name in self._found.names:
            self._claim(name, value)
        elif isinstance(value, mx.array):
            self._claim(name, value)
            self._found.arrays[name] = value
        elif isinstance(value, ModuleType):
            self._allow(value.__name__)
            self._claim(name, value)
            self._found.imports.append(import_line(value.__name__, name))
            if name == value.__name__:
                self._found.imports += [f"import {part}" for part in parts_imported(name, space)]
        elif (home := library_home(value)) is not None:
            self._allow(home[0])
            self._claim(name, value)
            alias = "" if home[1] == name else f" as {name}"
            self._found.imports.append(f"from {home[0]} import {home[1]}{alias}")
        elif is_literal(value):
            self._claim(name, value)
            self._found.literals[name] = value
            self._found.blocks.append(f"{name} = {literal(value)}")
        elif (isinstance(value, type) or is_python(value)) and is_defined_as(value, name):
            self._definition(name, value)
        else:
            self._made(name, value, space)

    def _made(self, name: str, value: object, space: Mapping[str, object]) -> None:
        """Carry what a statement at the top of a file made, or a definition with decorators."""
        if self._by_state and is_an_object(value):
            with suppress(NotPortableError):
                self._stated(name, value)
                return
        if self._by_statement(name, value, space):
            return
        if isinstance(value, type):
            self._definition(value.__name__, value)
            if self._claim(name, value):
                self._found.blocks.append(f"{name} = {value.__name__}")
        elif callable(value) and not is_an_object(value):
            self._function(name, value, space)
        else:
            self._stated(name, value)

    def _by_statement(self, name: str, value: object, space: Mapping[str, object]) -> bool:
        """Carry the statement that gives a name its value; say whether there is one."""
        home = sys.modules.get(str(space.get("__name__")))
        if home is not None and vars(home).get(name) is not value:
            # The name of an enclosing function's variable, or of what the value was made of.
            return False
        statement = find_statement(space, name)
        node = None if statement is None else statement.node
        if statement is not None and statement.expression is not None:
            self._claim(name, value)
            self._assigned(name, value, statement, space)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            assert statement is not None
            self._claim(name, value)
            names = self._names_in(node, space, own=name, at=in_file(space))
            self._found.blocks.append(definition_text(node, statement.text, name, names))
            self._implementations(name, value)
        elif isinstance(node, ast.ImportFrom):
            self._imported_from(name, value, node, space)
        else:
            return False
        return True

    def _imported_from(
        self, name: str, value: object, statement: ast.ImportFrom, space: Mapping[str, object]
    ) -> None:
        source = sys.modules.get(absolute_module(statement, space))
        alias = next(a for a in statement.names if (a.asname or a.name) == name)
        if source is None or getattr(source, alias.name, None) is not value:
            raise NotPortableError(
                f"{name} comes from a package that cannot be found again; import it by its name"
            )
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
        names = self._names_in(statement.expression, space, at=in_file(space))
        text = named_as_at_home(statement.expression, statement.expression_text, space)
        self._found.blocks.append(f"{name} = {renamed_text(text, names)}")
        if not callable(value) or not _has(value, "__qualname__"):
            self._found.objects[name] = value
