"""The walk over all that a function's code can reach; part of every export."""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

import abc
import collections
import contextvars
import functools
import gc
import sys
import types
import weakref
from collections.abc import Callable, Iterable

import mlx.core as mx

from kernelwright.runtime.code_names import (
    _MISSING,
    _PLAIN,
    _attribute,
    _compute_cached,
    _functions_within,
    _globals_in,
    _has,
    _is_from_the_users,
    _is_module,
    _is_special,
    _is_the_users,
    _modules_in,
    _names_in,
    _slot_names,
)
from kernelwright.runtime.value import _Value
from kernelwright.runtime.watched_place import (
    _bytes_of,
    _is_plain,
    _keys_of,
    _original_of,
    _shape_of,
)

_BY_COMPUTED_NAMES = frozenset(
    {"getattr", "hasattr", "vars", "dir", "locals", "globals", "eval", "exec", "__dict__"}
    | {"attrgetter", "methodcaller"}
)


_UNSEEN = frozenset({"__subclasses__", "_getframe", "getrefcount", "get_referrers"})


_CONSTRUCTORS = frozenset({"__init__", "__new__", "__post_init__"})


_INERT_KINDS = frozenset(
    {"object", "range", "slice", "ellipsis", "NotImplementedType", "code", "module"}
    | {"wrapper_descriptor", "method_descriptor", "classmethod_descriptor"}
    | {"getset_descriptor", "member_descriptor", "method-wrapper", "super"}
    | {"ufunc", "_ArrayFunctionDispatcher", "finfo", "iinfo", "_tuplegetter", "itemgetter"}
)


_INERT_MODULES = frozenset(
    {"typing", "types", "abc", "_abc", "re", "enum", "dataclasses", "inspect"}
    | {"fractions", "_decimal", "decimal", "datetime", "pathlib", "uuid", "annotationlib"}
    | {"mlx", "kernelwright"}
)


_MOST_BYTES = 1 << 16


_MOST_WATCHES = 20_000


def _variables_of(function: types.FunctionType) -> list[tuple[str, types.CellType]]:
    """List the variables of enclosing functions, but for what `functools` finds again."""
    pairs = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    if function.__globals__ is not vars(functools):
        return list(pairs)
    # What functools.singledispatch keeps besides its registry is made of that.
    return [(n, cell) for n, cell in pairs if n not in ("cache_token", "dispatch_cache")]


class _Walk:
    """One walk; what it finds is a list of places to look at, and what they hold."""

    def __init__(
        self,
        names: frozenset[str],
        is_given: bool,
        takes_all: bool,
        fixes_variables: bool,
        noticed: frozenset[int] = frozenset(),
    ) -> None:
        self.names, self.takes_all, self._is_given = names, takes_all, is_given
        self._noticed = noticed
        self._variable = self._fixed if fixes_variables else self._held
        # Elsewhere a function that has a fixed array among its constants is served by no kernel.
        self._watches_values = fixes_variables
        self.named, self.needs_all = names, takes_all
        self.watches: list[tuple] = []
        self.tokens: list[object] = []
        # Where arrays stand that may be others at the next call.
        self.places: list[tuple] = []
        self.codes: dict[int, object] = {}
        self.kinds: dict[int, object] = {}
        self.seen: dict[int, object] = {}
        # Arrays where no other array could be put, and values that cannot be compared: too large,
        # or of kinds whose state nothing shows.
        self.fixed_arrays: list[tuple[str, mx.array]] = []
        self.too_large: list[str] = []
        self.objects: list[tuple[object, object]] = []
        self._is_passed = False

    def over(
        self, function: Callable, passed: Iterable[object], kept: Iterable[object] = ()
    ) -> None:
        self._is_passed = True
        for value in passed:
            self._visit(value, "an argument")
        self._is_passed = False
        for value in kept:
            self._visit(value, "the object")
        self._visit(function, "the function")

    def _token(self, *tokens: object) -> None:
        if not self._is_passed:
            self.tokens.extend(tokens)

    def _watch(self, what: str, holder: object, key: object, expected: object) -> None:
        if id(holder) in self._noticed:
            return
        if len(self.watches) < _MOST_WATCHES:
            self.watches.append((what, holder, key, expected))
        elif not self.too_large:
            self.too_large.append("more than can be compared at each call")

    def _reads(self, name: object) -> bool:
        return self.takes_all or name in self.names

    def _held(self, what: str, holder: object, key: object, value: object, name: str = "") -> None:
        """Note what a place holds; an array there may be another one later."""
        if not self._is_passed:
            if isinstance(value, mx.array):
                self._watch(f"{what} type", holder, key, mx.array)
            else:
                kind = f"{what} value" if _is_plain(value) else what
                self._watch(kind, holder, key, value)
        self._token(key)
        if isinstance(value, mx.array):
            self._token("array")
            self.places.append((holder, key))
        else:
            self._visit_in(holder, value, name or str(key))

    def _visit_in(self, holder: object, value: object, name: str) -> None:
        if not isinstance(value, _PLAIN):
            self.objects.append((holder, value))
        self._visit(value, name)

    def _fixed(self, what: str, holder: object, key: object, value: object, name: str = "") -> None:
        """Note what a place holds where an array would be a constant of kernels."""
        self._watch(what, holder, key, value)
        self._token(key)
        self._visit_in(holder, value, name or str(key))

    def _visit(self, value: object, name: str) -> None:
        value = _original_of(value)
        if isinstance(value, _PLAIN):
            self._token((type(value).__name__, repr(value)))
            return
        if id(value) in self.seen:
            self._token(id(value))
            return
        self.seen[id(value)] = value
        if isinstance(value, mx.array):
            self._token(id(value))
            self.fixed_arrays.append((name, value))
            if self._watches_values:
                kept = _Value(value)
                self._watch("result", kept.holds, "", True)
                self._token(kept)
        elif isinstance(value, types.FunctionType) and type(value) is types.FunctionType:
            self._token(id(value))
            self._function(value)
        elif isinstance(value, types.MethodType):
            self._visit(value.__func__, name)
            self._visit_in(value, value.__self__, name)
        elif isinstance(value, (staticmethod, classmethod)):
            self._visit(value.__func__, name)
        elif isinstance(value, property):
            self._token(id(value))
            for part in (value.fget, value.fset):
                if part is not None:
                    self._visit(part, name)
        elif isinstance(value, functools.cached_property):
            self._visit(value.func, name)
        elif isinstance(value, (functools.partial, functools.partialmethod)):
            for part in (value.func, value.args, value.keywords):
                self._visit(part, name)
        elif isinstance(value, weakref.ref):
            referent = value()
            if not self._is_passed:
                self._watch("result", lambda: value() is referent, "", True)
            self._visit_in(value, referent, name)
        elif isinstance(value, type):
            self._token(id(value))
            self._class(value)
            self._constructors(value)
        elif isinstance(value, types.ModuleType):
            self._token(id(value))
            self._module(value)
        elif isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType)):
            # A method of a list or a dict reads it; a function of a library reads nothing.
            self._token(value.__name__)
            if not isinstance(value.__self__, (types.ModuleType, type(None))):
                self._visit(value.__self__, name)
        elif isinstance(value, types.MappingProxyType):
            for part in gc.get_referents(value):
                self._visit(part, name)
        elif _has(value, "__wrapped__") and callable(value):
            # What functools.lru_cache and its like return.
            self._token(id(value))
            self._visit(value.__wrapped__, name)
        elif type(value).__module__ == "mlx.core":
            # What mx.compile, mx.grad and mx.vmap return.
            self._token(id(value))
            for part in _functions_within(value):
                self._visit(part, name)
        else:
            self._data(value, name)

    def _data(self, value: object, name: str) -> None:
        watch = self._watch if not self._is_passed else _nothing
        if isinstance(value, tuple) and type(value).__module__ != "types":
            self._token((type(value).__qualname__, len(value)))
            for item in value:
                self._visit(item, name)
        elif isinstance(value, (list, collections.deque)):
            watch("len", value, "", len(value))
            self._token((type(value).__qualname__, len(value)))
            for key, item in enumerate(value):
                self._held("item", value, key, item)
        elif isinstance(value, (set, frozenset)):
            watch("equal", value, "", frozenset(value))
            self._token(frozenset(value))
        elif isinstance(value, (bytearray, memoryview)) or _has(value, "tobytes"):
            size = getattr(value, "nbytes", None) or len(value)
            if size > _MOST_BYTES:
                self.too_large.append(name)
            else:
                data = _bytes_of(value)
                watch("bytes", value, "", data)
                self._token(data)
        elif isinstance(value, contextvars.ContextVar):
            current = value.get(None)
            watch("context", value, "", current)
            self._visit(current, name)
        else:
            self._object(value, name)

    def _object(self, value: object, name: str) -> None:
        kind = type(value)
        if isinstance(value, dict):
            self._items(value, _is_module(value))
        elif not (_is_the_users(kind) or kind.__name__ in ("SimpleNamespace", "Namespace")):
            self._token(id(value))
            if not _is_inert(value):
                # An iterator, a generator of random numbers, a queue, a lock, a weak reference.
                self._unseen(name, kind)
            return
        if foreign := [base for base in kind.__mro__ if not _is_familiar(base)]:
            self._unseen(name, foreign[0])
        self._token(id(kind))
        if not self._is_passed:
            # Not its type: a layer with kernels says that it is of its own class.
            self._watch("attr", value, "__class__", value.__class__)
        self._class(kind)
        if self._is_given:
            _compute_cached(value, self.names)
        fields = getattr(value, "__dict__", None)
        if isinstance(fields, dict):
            self._items(fields, True)
        for key in _slot_names(kind):
            if self._reads(key) and hasattr(value, key):
                item = getattr(value, key)
                if self._is_passed:
                    self._held("attr", value, key, item)
                else:
                    self._fixed("attr", value, key, item)

    def _unseen(self, name: str, kind: type) -> None:
        if not self._is_passed:
            self.too_large.append(f"{name} ({kind.__name__})")

    def _items(self, holder: dict, is_object: bool) -> None:
        keys = [k for k in _keys_of(holder) if k != "__kernelwright_methods__"]
        if not self._is_passed:
            # A name that is read and not there yet makes an object longer.
            shape = ("len", len(holder)) if is_object else ("keys", _keys_of(holder))
            self._watch(shape[0], holder, "", shape[1])
        read = [key for key in keys if not is_object or self._reads(key)]
        self._token(len(read))
        for key in read:
            self._held("item", holder, key, dict.__getitem__(holder, key))

    def _module(self, module: types.ModuleType) -> None:
        """Note what code reads of a module: all of the user's, and which functions MLX has."""
        space = vars(module)
        read = self.names.intersection(space)
        if module is sys and "modules" in read:
            self.too_large.append("sys.modules")
        if _is_from_the_users(module.__name__):
            self._space(space, read)
        elif module.__name__.partition(".")[0] == "mlx":
            for key in sorted(read):
                if callable(space[key]) and not isinstance(space[key], type):
                    self._watch("item", space, key, space[key])
                    self._token(key, id(space[key]))

    def _class(self, kind: type) -> None:
        """Note what a class says, and all that it inherits: a change of either changes a call."""
        was_passed, self._is_passed = self._is_passed, False
        if _is_the_users(kind):
            self._watch("attr", kind, "__mro__", kind.__mro__)
            if isinstance(kind, abc.ABCMeta):
                # It changes whenever a class is registered somewhere.
                self._watch("result", abc.get_cache_token, "", abc.get_cache_token())
                self._token(abc.get_cache_token())
        if _is_the_users(type(kind)):
            self._class(type(kind))
        for base in kind.__mro__:
            if id(base) in self.kinds or base is object:
                continue
            self.kinds[id(base)] = base
            space, is_the_users = vars(base), _is_the_users(base)
            self._token(id(base))
            if is_the_users:
                # Python adds the entry when it is first asked for, which changes no call.
                getattr(base, "__annotations__", None)
                self._watch("len", space, "", len(space))
            for key in list(space):
                value = space[key]
                if not is_the_users:
                    # Layers of MLX: their lines name the attributes that count.
                    is_method = type(value) is types.FunctionType
                    if is_method and (key == "__call__" or key in self.names):
                        self._watch("item", space, key, value)
                        self._visit(value, key)
                elif self._reads(key) or (
                    _is_special(key) and callable(value) and key not in _CONSTRUCTORS
                ):
                    self._fixed("item", space, key, value)
        self._is_passed = was_passed

    def _constructors(self, kind: type) -> None:
        """Note what makes an object of a class: code that names the class may do so."""
        for base in kind.__mro__ if _is_the_users(kind) else ():
            space = vars(base)
            for key in sorted(_CONSTRUCTORS.intersection(space)) if _is_the_users(base) else ():
                if not self._reads(key):
                    self._fixed("item", space, key, space[key])

    def _space(self, space: dict, names: Iterable[str]) -> None:
        for name in sorted(names):
            if name in space:
                if isinstance(space[name], mx.array):
                    # Code may ask for no more than its shape, which is a constant of kernels.
                    self._watch("shape", space, name, _shape_of(space[name]))
                    self._token(_shape_of(space[name]))
                self._held("item", space, name, space[name])
            else:
                self._watch("missing", space, name, _MISSING)
                self._token(name, "missing")

    def _function(self, value: types.FunctionType) -> None:
        code = value.__code__
        self.codes[id(code)] = code
        if not self._is_given:
            self.named |= _names_in(code)
        if not _is_the_users(value):
            # What a library wraps around a program's functions, such as functools.singledispatch.
            for name, cell in _variables_of(value):
                self._visit(_attribute(cell, "cell_contents"), name)
            return
        if unseen := _UNSEEN & _names_in(code):
            self.too_large.append(min(unseen))
        self.needs_all |= bool(_BY_COMPUTED_NAMES & _names_in(code))
        was_passed, self._is_passed = self._is_passed, False
        self._watch("attr", value, "__code__", code)
        self._watch("attr", value, "__defaults__", value.__defaults__)
        self._watch("attr", value, "__kwdefaults__", value.__kwdefaults__)
        self._token(id(code))
        self._visit(value.__defaults__ or (), "a default")
        for name in value.__kwdefaults__ or ():
            self._variable("item", value.__kwdefaults__, name, value.__kwdefaults__[name])
        for name, cell in _variables_of(value):
            content = _attribute(cell, "cell_contents")
            if content is _MISSING:
                self._watch("attr", cell, "cell_contents", _MISSING)
            elif name != "__class__":
                self._variable("attr", cell, "cell_contents", content, name)
        for name in sorted(vars(value)):
            if self._reads(name) and not name.startswith("__"):
                self._variable("item", vars(value), name, vars(value)[name])
        self._space(value.__globals__, _globals_in(code))
        for name in _modules_in(code, value.__globals__):
            if name in sys.modules and _is_from_the_users(name):
                self._held("item", sys.modules, name, sys.modules[name])
        self._is_passed = was_passed


def _nothing(*_: object) -> None:
    """Note nothing of what a call passes."""


def _is_inert(value: object) -> bool:
    """Say whether a library's object is what it is for good."""
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    if library == "numpy" and "dtype" in kind.__name__.lower():
        return True
    return kind.__name__ in _INERT_KINDS or library in _INERT_MODULES


def _is_familiar(base: type) -> bool:
    """Say whether an object of a class that inherits from this one shows its state."""
    library = base.__module__.partition(".")[0]
    known = ("builtins", "collections", "contextlib", *_INERT_MODULES)
    return _is_the_users(base) or library in known
