"""What a call passes, and what tells it from other calls; part of every export."""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

import collections
import contextvars
import functools
import hashlib
import weakref
from collections.abc import Callable, Sequence
from types import CodeType, ModuleType

import mlx.core as mx

from kernelwright.runtime.code_names import (
    _MISSING,
    _attribute,
    _compute_cached,
    _functions_within,
    _has,
    _is_module,
    _slot_names,
)
from kernelwright.runtime.export.function.passed_nest import (
    _DICTS,
    _fields_of,
    _holds_arrays,
    _is_passed_record,
    _is_record,
    _state_of,
)


class _Call:
    """What a call passes: arrays in order, the places of those that objects hold, and the rest.

    Of objects and of `captured` names only what is in `names` counts, or everything for None.
    """

    def __init__(
        self,
        arguments: object,
        captured: Sequence[tuple[dict, str]] = (),
        names: frozenset[str] | None = None,
    ) -> None:
        self.arguments, self.captured, self.names = arguments, captured, names
        self.arrays: list[mx.array] = []
        self.slots: list[tuple[dict, object]] = []
        self.paths: list[str] = []
        # What an object holds and no line reads.
        self.unread: list[tuple[dict, object]] = []
        # Functions and classes, which have to be those of this module, or to say the same.
        self.definitions: list[object] = []
        self._words: list[str] = []
        self._seen: set[int] = set()
        self._read(arguments)
        for namespace, name in captured:
            if names is None or name in names:
                self._words.append(f"; {name}=")
                self._hold(namespace, name, name)

    @property
    def key(self) -> str:
        """A text that calls share when nothing but the values of arrays tells them apart."""
        return "".join(self._words)

    def array_at(self, place: int) -> mx.array:
        """Return the array that stands in a slot."""
        holder, key = self.slots[place]
        return holder[key]

    def _read(self, value: object) -> None:
        if isinstance(value, mx.array):
            self.arrays.append(value)
            self._words.append(_type_of(value))
        elif type(value) in (tuple, list) or _has(value, "_make"):
            self._words.append(f"{type(value).__name__}(")
            for item in value:
                self._read(item)
                self._words.append(", ")
            self._words.append(")")
        elif type(value) in _DICTS:
            factory = getattr(value, "default_factory", "")
            self._words.append("{" if type(value) is dict else f"{type(value).__name__}{factory}{{")
            for name, item in value.items():
                self._words.append(f"{name!r}: ")
                self._read(item)
                self._words.append(", ")
            self._words.append("}")
        elif _is_passed_record(value):
            self._read_record(value)
        else:
            self._describe(value, "")

    def _read_record(self, record: object) -> None:
        self.definitions.append(type(record))
        self._words.append(f"{type(record).__qualname__}(")
        _compute_cached(record, self.names or frozenset())
        fields, others = _fields_of(record), dict(getattr(record, "__dict__", {}))
        for name, item in fields.items():
            others.pop(name, None)
            if self._is_read(name) or _holds_arrays(item):
                self._words.append(f"{name}=")
                self._read(item)
                self._words.append(", ")
            else:
                self.unread.append((_Slots(record, (name,)), name))
        # What is no field stays where it is, as in any other object.
        for name in others:
            if self._is_read(name):
                self._words.append(f"{name}: ")
                self._hold(record.__dict__, name, name)
                self._words.append(", ")
        self._words.append(")")

    def _is_read(self, name: object) -> bool:
        return self.names is None or name in self.names

    def _hold(self, holder: dict, key: object, path: str) -> None:
        if isinstance(holder[key], mx.array):
            self.slots.append((holder, key))
            self.paths.append(path)
            self._words.append(_type_of(holder[key]))
        else:
            self._describe(holder[key], path)

    def _describe(self, value: object, path: str) -> None:
        """Describe what is no array; the arrays in it stay where they are."""
        if isinstance(value, (bool, int, float, complex, str, bytes, mx.Dtype, type(None))):
            self._words.append(repr(value))
        elif isinstance(value, (type, ModuleType)) or _is_of_the_system(value):
            if isinstance(value, type):
                self.definitions.append(value)
            # A module, a class, a log, a path or a lock says by its name alone what it is.
            self._words.append(getattr(value, "__qualname__", type(value).__qualname__))
        elif isinstance(value, functools.partial):
            self._words.append("partial")
            self._describe_all((value.func, *value.args), path)
            self._inside(value.keywords, path)
        elif isinstance(value, contextvars.ContextVar):
            self._words.append(value.name)
            self._describe_all((value.get(None),), path)
        elif isinstance(value, weakref.ref):
            self._words.append("weak ")
            self._describe_all((value(),), path)
        elif isinstance(value, _WEAK):
            self._words.append(type(value).__qualname__)
            self._describe_all(list(value.items() if hasattr(value, "items") else value), path)
        elif callable(value) and _has(value, "__qualname__"):
            self._describe_function(value, path)
        elif type(value).__module__ == "mlx.core" and callable(value):
            # What mx.vmap and its like return shows its address alone.
            self._words.append(type(value).__qualname__)
            self._describe_all(_functions_within(value), path)
        elif _has(value, "tobytes"):
            # NumPy's: the values are part of what was traced.
            digest = hashlib.sha1(value.tobytes()).hexdigest()
            self._words.append(f"{value.dtype}{list(value.shape)}{digest}")
        elif isinstance(value, (set, frozenset)):
            self._words.append(repr(sorted(map(repr, value))))
        elif id(value) not in self._seen:
            self._seen.add(id(value))
            self._words.append(type(value).__qualname__)
            self.definitions.append(type(value))
            is_container = isinstance(value, (list, tuple, dict, collections.deque))
            if is_container:
                self._inside(value, path, _is_module(value))
            self._of_the_class(type(value))
            _compute_cached(value, self.names or frozenset())
            slots = _slot_names(type(value))
            if slots:
                self._inside(_Slots(value, slots), path, True)
            if _has(value, "__dict__"):
                self._inside(value.__dict__, path, True)
            elif not is_container and not slots:
                # A range shows what it is; what shows its address is like no other.
                self._words.append(repr(value))

    def _describe_function(self, value: Callable, path: str) -> None:
        self._words.append(value.__qualname__)
        code = getattr(value, "__code__", None)
        if not isinstance(code, CodeType):
            return
        self.definitions.append(value)
        self._words.append(repr((code.co_names, code.co_varnames)))
        if "<" in value.__qualname__:
            self._words.append(_digest(code))
        kept = [_attribute(cell, "cell_contents") for cell in value.__closure__ or ()]
        kept = [content for content in kept if content is not _MISSING]
        given = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).items()]
        owner = [value.__self__] if _has(value, "__self__") else []
        self._describe_all((*kept, *given, *owner), path)

    def _of_the_class(self, kind: type) -> None:
        """Describe what the methods read of the class itself, such as a factor."""
        for name in sorted(self.names.intersection(vars(kind))) if self.names else ():
            value = vars(kind)[name]
            if isinstance(value, (bool, int, float, complex, str, tuple, type(None))):
                self._words.append(f"{name}={value!r} ")

    def _describe_all(self, values: Sequence[object], path: str) -> None:
        """Describe what stands where no other array could be put."""
        for value in values:
            if isinstance(value, mx.array):
                self._words.append(f"array {id(value)}")
            elif type(value) is tuple:
                self._describe_all(value, path)
            elif id(value) not in self._seen:
                self._describe(value, path)
            self._words.append(", ")

    def _inside(self, holder: dict, path: str, is_object: bool = False) -> None:
        if isinstance(holder, _Slots):
            keys = holder.keys
        else:
            keys = list(dict.keys(holder) if isinstance(holder, dict) else range(len(holder)))
        self._words.append("{")
        for key in keys:
            if key == "__kernelwright_methods__":
                continue
            if is_object and not self._is_read(key):
                self.unread.append((holder, key))
                continue
            self._words.append(f"{key}: ")
            self._hold(holder, key, f"{path}.{key}".removeprefix("."))
            self._words.append(", ")
        self._words.append("}")


class _Slots:
    """The attributes of an object whose class has `__slots__`, as a dict."""

    def __init__(self, owner: object, keys: Sequence[str]) -> None:
        self.owner, self.keys = owner, [key for key in keys if hasattr(owner, key)]

    def __getitem__(self, key: str) -> object:
        return getattr(self.owner, key)

    def __setitem__(self, key: str, value: object) -> None:
        object.__setattr__(self.owner, key, value)

    def pop(self, key: str) -> None:
        # Deleted, it would be read as the class has it.
        object.__setattr__(self.owner, key, _MISSING)


_WEAK = (weakref.WeakValueDictionary, weakref.WeakKeyDictionary, weakref.WeakSet)


_SYSTEM = ("_io", "_thread", "io", "logging", "pathlib", "threading")


def _is_of_the_system(value: object) -> bool:
    return any(kind.__module__ in _SYSTEM for kind in type(value).__mro__)


@functools.cache
def _digest(code: CodeType) -> str:
    inner = [_digest(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return hashlib.sha1(code.co_code + repr(inner).encode()).hexdigest()


def _type_of(array: mx.array) -> str:
    return f"{str(array.dtype).rpartition('.')[2]}{list(array.shape)}"


def _leaves(result: object) -> list[mx.array]:
    """List the arrays of a result in order."""
    if isinstance(result, mx.array):
        return [result]
    if type(result) in (tuple, list) or _has(result, "_make"):
        return [array for item in result for array in _leaves(item)]
    if type(result) in _DICTS:
        return [array for item in result.values() for array in _leaves(item)]
    if _is_record(result):
        return _leaves(_state_of(result))
    call = _Call(result)
    return [*call.arrays, *map(call.array_at, range(len(call.slots)))]
