"""The text of functions, statement by statement: what names stand for, and what changes."""

import ast
import contextlib
import sys
from collections.abc import Callable
from types import FunctionType

from mlx.nn.layers.base import Module

from kernelwright.runtime.models.purity.call import Calls
from kernelwright.runtime.models.purity.library import is_library
from kernelwright.runtime.models.purity.value import (
    UNKNOWN,
    Above,
    Fresh,
    Inner,
    Row,
    Values,
    attribute,
    class_of,
    elements,
    entry,
    joined,
    kept,
    raw_field,
)


class Text(Calls):
    """Examines statements and expressions."""

    def body(self, statements: list[ast.stmt]) -> None:
        """Examine statements in order."""
        for statement in statements:
            handler: Callable[[ast.AST], None] | None
            handler = getattr(self, f"_do_{type(statement).__name__.lower()}", None)
            if handler is not None:
                handler(statement)
            else:
                self._nested(statement)

    def _do_if(self, node: ast.If) -> None:
        truth = self._truth(node.test)
        if truth is None:
            self._nested(node)
        else:
            self.body(node.body if truth else node.orelse)

    def _truth(self, test: ast.expr) -> bool | None:
        """Return how a test ends that a plain attribute or global decides: a change is noticed."""
        if isinstance(test, ast.BoolOp):
            ends = [self._truth(part) for part in test.values]
            deciding = isinstance(test.op, ast.Or)
            if deciding in ends:
                return deciding
            return None if None in ends else not deciding
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            end = self._truth(test.operand)
            return None if end is None else not end
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and _is_none(test.comparators[0]):
            value = self._plain(test.left)
            is_none = None if value is UNKNOWN else value is None
            if is_none is not None and isinstance(test.ops[0], ast.Is | ast.IsNot):
                return is_none is isinstance(test.ops[0], ast.Is)
            return None
        value = self._plain(test)
        is_plain = isinstance(value, bool | int | float | str | None)
        return bool(value) if is_plain else None

    def _plain(self, node: ast.expr) -> object:
        """Return the value of a name or an attribute, where it is one that nobody here sets."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            frame = self.frame
            is_global = node.id not in frame.local and node.id not in frame.cells
            return frame.globals.get(node.id, UNKNOWN) if is_global else UNKNOWN
        if not isinstance(node, ast.Attribute):
            return UNKNOWN
        holders = self.value(node.value)
        return raw_field(holders[0], node.attr) if len(holders) == 1 else UNKNOWN

    def _nested(self, statement: ast.AST) -> None:
        """Examine a statement whose parts run in order, or do not run."""
        self.depth += 1
        for name, value in ast.iter_fields(statement):
            parts = value if isinstance(value, list) else [value]
            if parts and isinstance(parts[0], ast.stmt):
                self.body(parts)
                continue
            for part in parts:
                if isinstance(part, ast.expr):
                    made = self.value(part)
                    if name == "test":
                        self.operate(made, part)
                elif isinstance(part, ast.AST):
                    self._nested(part)
        self.depth -= 1

    def _do_return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.frame.made += self.value(node.value)

    def _do_assign(self, node: ast.Assign) -> None:
        made = self.value(node.value)
        for target in node.targets:
            self._put(target, made)

    def _do_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._put(node.target, self.value(node.value))

    def _do_augassign(self, node: ast.AugAssign) -> None:
        self.value(node.value)
        before = self.value(node.target)
        self.operate(before, node)
        self.changes(before, "", node)
        self._put(node.target, before if isinstance(node.target, ast.Name) else ())

    def _do_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._put(target, ())

    def _do_global(self, node: ast.Global) -> None:
        self.tell(f"changes the global {node.names[0]}", node)

    def _do_nonlocal(self, node: ast.Nonlocal) -> None:
        outer = [name for name in node.names if name in self.frame.cells]
        if outer:
            self.tell(f"changes {outer[0]}, a variable of an enclosing function", node)

    def _do_for(self, node: ast.For) -> None:
        given = self.value(node.iter)
        self.operate(given, node)
        self.depth += 1
        for _ in range(2):
            self._put(node.target, joined(*map(elements, given)))
            self.body(node.body)
        self.body(node.orelse)
        self.depth -= 1

    def _do_while(self, node: ast.While) -> None:
        self._nested(node)
        self._nested(node)

    def _do_with(self, node: ast.With) -> None:
        for item in node.items:
            made = self.value(item.context_expr)
            self.operate(made, node)
            if item.optional_vars is not None:
                self._put(item.optional_vars, made)
        self.body(node.body)

    def _do_functiondef(self, node: ast.FunctionDef) -> None:
        found: Values = (Inner(node, self.frame),)
        self.called(found[0], (), {}, node)
        for decorator in node.decorator_list:
            for wrapper in self.value(decorator):
                found = joined(found, self.called(wrapper, (found,), {}, decorator))
        self._store(node.name, found, node)

    def _do_import(self, node: ast.Import) -> None:
        for name in node.names:
            self._import(name.name, node)
            root = name.name if name.asname else name.name.partition(".")[0]
            self._store(name.asname or root, kept(iter([sys.modules.get(root)])), node)

    def _do_importfrom(self, node: ast.ImportFrom) -> None:
        package = str(self.frame.globals.get("__package__") or "").split(".")
        base = package[: len(package) - node.level + 1] if node.level else []
        whole = ".".join([*base, *([node.module] if node.module else [])])
        module = self._import(whole, node)
        for name in node.names:
            inside = sys.modules.get(f"{whole}.{name.name}")
            found = joined(attribute(module, name.name), kept(iter([inside])))
            self._store(name.asname or name.name, found, node)

    def _import(self, name: str, node: ast.AST) -> object:
        module = sys.modules.get(name)
        if module is None:
            self.tell(f"imports {name} for the first time", node)
        return module

    def value(self, node: ast.expr) -> Values:
        """Examine an expression; return what it may stand for."""
        handler: Callable[[ast.AST], Values] | None
        handler = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        if handler is not None:
            made: Values = handler(node)
            return made
        parts = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        found = [self.value(part) for part in parts]
        if isinstance(node, ast.Starred):
            self.operate(found[0], node)
        if isinstance(node, ast.BoolOp | ast.IfExp | ast.NamedExpr | ast.Starred | ast.Await):
            return joined(*found)
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            return (Row(tuple(found)),)
        for values in found:
            self.operate(values, node)
        # Lists that are joined or repeated hold what they held.
        held = joined(*(elements(v) for v in joined(*found))) if _is_joining(node) else ()
        return (Row((held,)),) if held else ()

    def _of_constant(self, node: ast.Constant) -> Values:
        del node
        return ()

    def _of_name(self, node: ast.Name) -> Values:
        return self._name(node.id)

    def _of_namedexpr(self, node: ast.NamedExpr) -> Values:
        found = self.value(node.value)
        self._put(node.target, found)
        return found

    def _of_attribute(self, node: ast.Attribute) -> Values:
        return self.attribute(self.value(node.value), node.attr, node)

    def _of_subscript(self, node: ast.Subscript) -> Values:
        held = self.value(node.value)
        self.value(node.slice)
        self.operate(held, node)
        inside = joined(*map(elements, held))
        return joined(inside, (Row((inside,)),)) if isinstance(node.slice, ast.Slice) else inside

    def _of_lambda(self, node: ast.Lambda) -> Values:
        made = Inner(node, self.frame)
        self.called(made, (), {}, node)
        return (made,)

    def _of_listcomp(self, node: ast.ListComp) -> Values:
        for loop in node.generators:
            given = self.value(loop.iter)
            self.operate(given, node)
            self.depth += 1
            self._put(loop.target, joined(*map(elements, given)))
            self.depth -= 1
            for test in loop.ifs:
                self.operate(self.value(test), test)
        if isinstance(node, ast.DictComp):
            self.value(node.key)
            return (Row((self.value(node.value),)),)
        return (Row((self.value(node.elt),)),)

    _of_setcomp = _of_generatorexp = _of_dictcomp = _of_listcomp

    def _of_call(self, node: ast.Call) -> Values:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            return self._above()
        called = self.value(node.func)
        args = tuple(self.value(arg) for arg in node.args)
        named = {word.arg or "**": self.value(word.value) for word in node.keywords}
        return joined(*(self.called(found, args, named, node) for found in called))

    def _above(self) -> Values:
        cell = self.frame.cells.get("__class__")
        owners = next(iter(self.frame.names.values()), ())
        if cell is None:
            return ()
        return tuple(Above(cell.cell_contents, owner) for owner in owners)

    def _name(self, name: str) -> Values:
        frame = self.frame
        if name in frame.names:
            return frame.names[name]
        if name in frame.cells:
            with contextlib.suppress(ValueError):
                return kept(iter([frame.cells[name].cell_contents]))
            return ()
        if name in frame.local:
            return ()
        if name in frame.globals:
            return kept(iter([frame.globals[name]]))
        builtin = sys.modules["builtins"]
        return kept(iter([vars(builtin)[name]])) if name in vars(builtin) else ()

    def _store(self, name: str, values: Values, node: ast.AST) -> None:
        del node
        known = self.frame.names.get(name, ()) if self.depth else ()
        self.frame.names[name] = joined(known, values)

    def _put(self, target: ast.expr, values: Values) -> None:
        """Examine an assignment."""
        if isinstance(target, ast.Name):
            self._store(target.id, values, target)
        elif isinstance(target, ast.Starred):
            self._put(target.value, (Row((values,)),))
        elif isinstance(target, ast.Tuple | ast.List):
            self.operate(values, target)
            for place, part in enumerate(target.elts):
                self._put(part, joined(*(_part(v, place, len(target.elts)) for v in values)))
        elif isinstance(target, ast.Attribute):
            holders = self.value(target.value)
            for holder in holders:
                if isinstance(holder, Fresh):
                    known = holder.fields.get(target.attr, ())
                    holder.fields[target.attr] = joined(known, values)
                elif isinstance(holder, Module):
                    kept_at = (id(holder), target.attr)
                    self.put[kept_at] = joined(self.put.get(kept_at, ()), values)
                said = _setter(class_of(holder), target.attr)
                if said is not None:
                    is_setter = _is_property(holder, target.attr)
                    given = (values,) if is_setter else ((), values)
                    self.called(said, ((holder,), *given), {}, target)
            self.changes(holders, f"{target.attr} of ", target)
        elif isinstance(target, ast.Subscript):
            holders = self.value(target.value)
            self.value(target.slice)
            self.operate(holders, target)
            for holder in holders:
                if isinstance(holder, Row):
                    holder.added.append(values)
            self.changes(holders, "", target)


def _is_joining(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult | ast.BitOr)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_property(holder: object, name: str) -> bool:
    return any(isinstance(vars(k).get(name), property) for k in class_of(holder).__mro__)


def _setter(kind: type, name: str) -> object:
    said = entry(kind.__mro__, name)
    if isinstance(said, property):
        return said.fset
    own = entry(kind.__mro__, "__setattr__")
    return own if isinstance(own, FunctionType) and not is_library(own.__module__) else None


def _part(value: object, place: int, count: int) -> Values:
    if isinstance(value, Row) and len(value.parts) == count:
        return value.parts[place]
    return elements(value)
