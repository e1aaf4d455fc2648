"""What is called, and what that does besides computing; its text is examined by a subclass."""

import ast
import functools
from collections import Counter, deque
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from mlx.nn.layers.base import Module

from kernelwright.runtime.code_names import _functions_within
from kernelwright.runtime.effect import Effect
from kernelwright.runtime.models.purity.class_text import effect_of_descriptor
from kernelwright.runtime.models.purity.library import (
    effect_of,
    effect_of_arguments,
    effect_of_operator,
    is_library,
    views,
)
from kernelwright.runtime.models.purity.source import definition
from kernelwright.runtime.models.purity.value import (
    Above,
    Bound,
    Computed,
    Frame,
    Fresh,
    Inner,
    Row,
    RowMethod,
    Values,
    attribute,
    bind,
    class_of,
    elements,
    entry,
    is_own_kind,
    is_own_object,
    joined,
    kept,
    own_fields,
    positional,
)
from kernelwright.runtime.models.tree import all_modules
from kernelwright.runtime.watched_place import _original_of

_MOST_FUNCTIONS = 5000
_MOST_NESTED = 3
"""Calls of a function by itself, each with more of what it makes."""
_FUNCTIONS = (Inner, Bound, FunctionType, MethodType, BuiltinFunctionType)
_CONSTRUCTORS = ("__new__", "__init__", "__post_init__")
_NO_OPERATORS = frozenset(
    {*_CONSTRUCTORS, "__call__", "__del__", "__reduce__", "__reduce_ex__", "__getstate__"}
    | {"__setstate__", "__copy__", "__deepcopy__", "__init_subclass__", "__class_getitem__"}
    | {"__getattr__", "__setattr__", "__delattr__", "__getattribute__", "__repr__", "__hash__"}
)
_PASSING = frozenset(
    {"list", "tuple", "set", "frozenset", "dict", "reversed", "sorted", "iter", "filter", "map"}
    | {"deque", "defaultdict", "OrderedDict", "Counter", "deepcopy", "chain", "islice", "cycle"}
)
"""What these make holds what they are given holds."""


class FoundError(Exception):
    """Ends an examination: something was found."""

    def __init__(self, effect: Effect) -> None:
        self.effect = effect


class Calls:
    """Follows calls through functions of the program's own, to those of libraries."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._known: dict[tuple[object, ...], Values] = {}
        self.put: dict[tuple[int, str], Values] = {}
        """What the call sets in attributes of modules."""
        self._active: Counter[int] = Counter()
        self._alive: list[object] = []
        """What keys of known calls name by its address."""
        self._owned = {id(found) for _, found in all_modules(module)}
        self.frame = Frame({}, {}, frozenset(), "")
        self.depth = 0
        """How many branches and loops are around a statement."""

    def value(self, node: ast.expr) -> Values:
        """Examine an expression; return what it may stand for."""
        raise NotImplementedError

    def body(self, statements: list[ast.stmt]) -> None:
        """Examine statements."""
        raise NotImplementedError

    def tell(self, what: str, node: ast.AST | None) -> None:
        """End the examination with what code does, at a line of the function at hand."""
        line = getattr(node, "lineno", None)
        raise FoundError(Effect(what, f" ({self.frame.file}:{line})" if line else ""))

    def called(
        self,
        called: object,
        args: tuple[Values, ...],
        named: Mapping[str, Values],
        node: ast.AST | None,
    ) -> Values:
        """Examine a call of something."""
        called = _original_of(called) if callable(called) else called
        if isinstance(called, Module | Row | Above | Fresh) and not _own_call(called):
            return ()
        if isinstance(called, Bound) and not is_library(called.function.__module__):
            return self._function(called.function, ((called.owner,), *args), named, node)
        if isinstance(called, RowMethod):
            called.row.added.extend((*args, *named.values()))
            called.row.added.append(joined(*(elements(v) for given in args for v in given)))
            return elements(called.row)
        if isinstance(called, Bound):
            if isinstance(called.owner, Fresh | Row | type):
                return ()
            called = MethodType(called.function, called.owner)
        if isinstance(called, Inner):
            return self._inner(called, args, named)
        if isinstance(called, MethodType) and isinstance(called.__func__, FunctionType):
            if not is_library(called.__func__.__module__):
                return self._function(called.__func__, ((called.__self__,), *args), named, node)
        elif isinstance(called, FunctionType):
            return self._function(called, args, named, node)
        elif isinstance(called, functools.partial):
            before = tuple(kept(iter([a])) for a in called.args)
            return self.called(called.func, (*before, *args), named, node)
        elif isinstance(called, type) and not is_library(called.__module__):
            return self._made(called, args, named, node)
        elif is_own_object(called):
            own = _own_call(called)
            return self._function(own, ((called,), *args), named, node) if own is not None else ()
        elif hasattr(called, "__wrapped__") and callable(called):
            return self.called(called.__wrapped__, args, named, node)
        elif type(called).__module__ == "mlx.core" and (inside := _functions_within(called)):
            # What mx.compile, mx.grad and mx.vmap return.
            return joined(*(self.called(f, args, named, node) for f in inside))
        return self._library(called, args, named, node)

    def _library(
        self,
        called: object,
        args: tuple[Values, ...],
        named: Mapping[str, Values],
        node: ast.AST | None,
    ) -> Values:
        name = str(getattr(called, "__name__", ""))
        if not callable(called):
            return ()
        if name in ("getattr", "hasattr", "setattr", "delattr", "next", "super", "type") and (
            getattr(called, "__module__", "") == "builtins"
        ):
            return self._by_name(name, args, node)
        if said := effect_of(called, has_key="key" in named):
            self.tell(said, node)
        if said := effect_of_arguments(called, args, named):
            self.tell(said, node)
        if name in ("isinstance", "issubclass"):
            return ()
        if name == "partial" and args:
            return joined(*(self.called(f, args[1:], named, node) for f in args[0]))
        for value in joined(*args, *named.values()):
            if is_own_object(value):
                self.operate((value,), node)
            if isinstance(value, _FUNCTIONS):
                # MLX's and Python's own functions may call what they are given.
                others = tuple(v for v in joined(*args) if v is not value)
                reached = joined(others, *map(elements, others)) if name == "reduce" else ()
                self.called(value, (reached, reached), {}, node)
        held = joined(*(elements(v) for given in args for v in given))
        if name == "zip":
            return (Row(((Row(tuple(_all_elements(a) for a in args)),),)),)
        if name == "enumerate":
            return (Row(((Row(((), _all_elements(args[0]) if args else ())),),)),)
        if name in _PASSING:
            return (Row((held, *named.values())),)
        owner = getattr(called, "__self__", None)
        if isinstance(owner, dict) and name in ("items", "values", "get"):
            inside = elements(owner)
            return {"get": inside, "values": (Row((inside,)),)}.get(
                name, (Row(((Row(((), inside)),),)),)
            )
        if isinstance(owner, Module) and name in ("__getattr__", "__getattribute__"):
            return self._anything(owner)
        if isinstance(owner, list | dict | set | deque) and not isinstance(owner, Module):
            inside = elements(owner)
            return joined(inside, (Row((inside,)),))
        if name in ("min", "max", "cast", "reduce", "copy"):
            return joined(held, *args)
        return views(called, joined(*args))

    def _by_name(self, name: str, args: tuple[Values, ...], node: ast.AST | None) -> Values:
        """Examine a call of a function of Python's that names an attribute."""
        holders = args[0] if args else ()
        if name == "type":
            return tuple(class_of(v) for v in holders if not isinstance(v, Row | Bound | Inner))
        if name == "super":
            kinds = [k for k in holders if isinstance(k, type)]
            return tuple(Above(k, owner) for k in kinds for owner in joined(*args[1:2]))
        if name == "next":
            for value in holders:
                if not isinstance(value, Row):
                    self.tell("takes from an iterator that outlives the call", node)
            return joined(*map(elements, holders))
        if name in ("setattr", "delattr"):
            self.changes(holders, "an attribute of ", node)
            return ()
        call = node if isinstance(node, ast.Call) else None
        word = call.args[1] if call is not None and len(call.args) > 1 else None
        is_plain = isinstance(word, ast.Constant) and isinstance(word.value, str)
        for value in holders:
            if isinstance(value, ModuleType) and (name == "hasattr" or not is_plain):
                self.tell(f"looks up a name of the module {value.__name__} ({name})", node)
            if isinstance(value, type) and not is_plain:
                self.tell(f"looks up a name of the class {value.__name__} ({name})", node)
        if name == "hasattr":
            return ()
        rest = joined(*args[2:])
        if isinstance(word, ast.Constant) and isinstance(word.value, str):
            return joined(self.attribute(holders, word.value, node), rest)
        return joined(rest, *(self._anything(value) for value in holders))

    def _anything(self, value: object) -> Values:
        """Return all that an attribute of a computed name may be."""
        names = {n for kind in class_of(value).__mro__ for n in vars(kind) if kind is not object}
        names = {n for n in names if not n.startswith("__")} if is_own_kind(value) else set()
        names |= {n for n in own_fields(value) if isinstance(n, str)}
        names |= {n for n in value if isinstance(n, str)} if isinstance(value, Module) else set()
        return joined(*(attribute(value, name) for name in sorted(names)))

    def _made(
        self,
        kind: type,
        args: tuple[Values, ...],
        named: Mapping[str, Values],
        node: ast.AST | None,
    ) -> Values:
        """Examine the making of an object of a class of the program's own."""
        made = Fresh(kind)
        self._alive.append(made)
        for base in type.mro(type(kind)):
            if "__call__" in vars(base) and not is_library(base.__module__):
                self.called(vars(base)["__call__"], ((kind,), *args), named, node)
        for name in _CONSTRUCTORS:
            for found in attribute(made, name):
                if isinstance(found, Bound) and not _is_generated(found.function):
                    self.called(found, args, named, node)
        return (made,)

    def _function(
        self,
        function: FunctionType,
        args: tuple[Values, ...],
        named: Mapping[str, Values],
        node: ast.AST | None,
    ) -> Values:
        """Examine a function's text, with what it is given."""
        inner = getattr(function, "__wrapped__", None)
        if is_library(function.__module__) or is_library(function.__globals__.get("__name__")):
            if inner is not None and not is_library(getattr(inner, "__module__", None)):
                return self.called(inner, args, named, node)
            return self._library(function, args, named, node)
        code = function.__code__
        key = (id(code), id(function), *(tuple(map(id, a)) for a in args))
        key = (*key, *((n, tuple(map(id, v))) for n, v in sorted(named.items())))
        if key in self._known:
            return self._known[key]
        self._known[key] = ()
        self._alive += [function, args, named]
        if len(self._known) > _MOST_FUNCTIONS:
            self.tell("calls more functions than are examined", node)
        text = definition(code)
        if text is None:
            self.tell(f"calls {function.__qualname__}, whose text is not at hand", node)
            return ()
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        local = frozenset((*code.co_varnames, *code.co_cellvars))
        frame = Frame(function.__globals__, cells, local, code.co_filename)
        defaults = dict(zip(positional(text)[::-1], (function.__defaults__ or ())[::-1]))  # noqa: B905
        defaults |= function.__kwdefaults__ or {}
        bind(frame, text, args, named, {n: kept(iter([v])) for n, v in defaults.items()})
        self._known[key] = self._inside(frame, text)
        return self._known[key]

    def _inside(self, frame: Frame, text: ast.AST) -> Values:
        """Examine a body in a frame; return what it gives back."""
        if self._active[id(text)] > _MOST_NESTED:
            return ()
        self._active[id(text)] += 1
        outer, self.frame, depth = self.frame, frame, self.depth
        self.depth = 0
        if isinstance(text, ast.Lambda):
            frame.made += self.value(text.body)
        else:
            self.body(text.body)  # type: ignore[attr-defined]
        # An exception ends the examination, and nobody asks for the frame then.
        self.frame, self.depth = outer, depth
        self._active[id(text)] -= 1
        return joined(tuple(frame.made))

    def _inner(
        self, called: Inner, args: tuple[Values, ...], named: Mapping[str, Values]
    ) -> Values:
        key = (id(called.node), *(tuple(map(id, a)) for a in args))
        if key in self._known:
            return self._known[key]
        self._known[key] = ()
        self._alive += [called, args, named]
        outer = called.frame
        local = outer.local | {a.arg for a in ast.walk(called.node) if isinstance(a, ast.arg)}
        frame = Frame(outer.globals, outer.cells, local, outer.file, dict(outer.names))
        bind(frame, called.node, args, named, {})
        self._known[key] = self._inside(frame, called.node)
        return self._known[key]

    def attribute(self, values: Values, name: str, node: ast.AST | None) -> Values:
        """Examine the reading of an attribute; return what it may stand for."""
        found: list[Values] = []
        for value in values:
            if name in ("__dict__", "__globals__", "__closure__", "__code__"):
                self.tell(f"looks names up as it runs ({name})", node)
            is_answered = joined(attribute(value, name), self.put.get((id(value), name), ()))
            computed = [v for v in is_answered if isinstance(v, Computed)]
            found += [self.called(v.function, ((v.owner,),), {}, node) for v in computed]
            found.append(tuple(v for v in is_answered if not isinstance(v, Computed)))
            if computing := effect_of_descriptor(value, name):
                self.tell(computing, node)
            if is_own_object(value):
                kind = class_of(value)
                for asked in ("__getattribute__", "__getattr__"):
                    for said in attribute(kind, asked):
                        if isinstance(said, FunctionType):
                            self.called(said, ((value,),), {}, node)
        return joined(*found)

    def changes(self, holders: Values, what: str, node: ast.AST | None) -> None:
        """Refuse a change of what outlives the call, but for attributes of modules.

        A trace works on copies of these, and sees which are set. It does not see what
        changes in place: a list, a dict or an array of NumPy's that a module holds.
        """
        for holder in holders:
            if isinstance(holder, Row | Fresh | Inner | Bound) or id(holder) in self._owned:
                continue
            if isinstance(holder, type | FunctionType | ModuleType):
                named = f"{type(holder).__name__} {holder.__name__}"
            else:
                named = f"{type(holder).__name__} that outlives the call"
            self.tell(f"changes {what}the {named.replace('type ', 'class ')}", node)

    def operate(self, values: Values, node: ast.AST | None) -> None:
        """Examine operators of objects of the program's own classes."""
        for value in values:
            if not is_own_object(value):
                if said := effect_of_operator(value):
                    self.tell(said, node)
                continue
            for base in class_of(value).__mro__:
                if is_library(base.__module__):
                    continue
                for name, said in list(vars(base).items()):
                    is_operator = name.startswith("__") and name not in _NO_OPERATORS
                    if is_operator and isinstance(said, FunctionType) and not _is_generated(said):
                        self.called(said, ((value,),), {}, node)


def _own_call(value: object) -> FunctionType | None:
    if isinstance(value, Module | Row | Above):
        return None
    said = entry(class_of(value).__mro__, "__call__")
    return said if isinstance(said, FunctionType) else None


def _is_generated(function: FunctionType) -> bool:
    """Say whether dataclasses, or their like, wrote a function."""
    return function.__code__.co_filename.startswith("<")


def _all_elements(values: Values) -> Values:
    return joined(*map(elements, values))
