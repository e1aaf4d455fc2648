"""Runs kernels in the place of a function; the text of this file is part of every export.

It imports MLX alone. The exporter uses the same code, so it sees a call as the export will.
"""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

import collections
import contextvars
import dataclasses
import functools
import hashlib
import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from kernelwright.runtime.enumeration import _member_exchange, _of_own_members
from kernelwright.runtime.unchanged import _Unchanged
from kernelwright.runtime.value import _Value


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


_DICTS = (dict, collections.OrderedDict, collections.defaultdict)
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


def _is_record(value: object) -> bool:
    """Say whether a value is an object of a dataclass."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _is_passed_record(value: object) -> bool:
    """Say whether an argument is an object of a dataclass that only holds values."""
    return _is_record(value) and not callable(value)


def _fields_of(record: object) -> dict[str, object]:
    """Return the fields of an object of a dataclass, those that have a value."""
    names = (field.name for field in dataclasses.fields(record))
    return {name: getattr(record, name) for name in names if _has(record, name)}


def _state_of(record: object) -> dict[str, object]:
    """Return all that an object of a dataclass holds, its fields first."""
    return {**_fields_of(record), **getattr(record, "__dict__", {})}


def _record(kind: type, fields: dict[str, object]) -> object:
    """Return an object of a dataclass with these attributes, as its `__init__` left them."""
    made = kind.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def _rebuilt(like: object, arrays: Iterator[mx.array]) -> object:
    """Return arguments with their arrays replaced, in order."""
    if isinstance(like, mx.array):
        return next(arrays)
    if type(like) in _DICTS:
        made = like.copy()
        made.update({name: _rebuilt(item, arrays) for name, item in like.items()})
        return made
    if type(like) in (tuple, list) or _has(like, "_make"):
        items = [_rebuilt(item, arrays) for item in like]
        return type(like)._make(items) if _has(like, "_make") else type(like)(items)
    if _is_passed_record(like):
        fields = {name: _rebuilt(item, arrays) for name, item in _fields_of(like).items()}
        return _record(type(like), {**_state_of(like), **fields})
    return like


def _holds_arrays(value: object) -> bool:
    """Say whether a part of the arguments is or holds an array that `_rebuilt` replaces."""
    if isinstance(value, mx.array):
        return True
    if type(value) in _DICTS:
        return any(map(_holds_arrays, value.values()))
    if type(value) in (tuple, list) or _has(value, "_make"):
        return any(map(_holds_arrays, value))
    return _is_passed_record(value) and any(map(_holds_arrays, _fields_of(value).values()))


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


def _original(
    function: Callable,
    call: _Call,
    slots: Sequence[tuple[dict, object]],
    shown: Sequence[int] = (),
) -> Callable:
    """Return `function` as one of arrays alone: those of the arguments, then of the slots.

    Its results are followed by the arrays that are `shown`, as the function leaves them.
    """
    count = len(call.arrays)

    def flat(*arrays: mx.array) -> list[mx.array]:
        before = [holder[key] for holder, key in slots]
        for (holder, key), array in zip(slots, arrays[count:], strict=True):
            holder[key] = array
        try:
            args, kwargs = _rebuilt(call.arguments, iter(arrays[:count]))
            made = _leaves(function(*args, **kwargs))
            return [*made, *(arrays[place] for place in shown)]
        finally:
            for (holder, key), array in zip(slots, before, strict=True):
                holder[key] = array

    return flat


def _listed(value: object) -> list:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _is_inexact(array: mx.array) -> bool:
    return mx.issubdtype(array.dtype, mx.inexact)


def _of_some(original: Callable, primals: Sequence[mx.array], places: Sequence[int]) -> Callable:
    """Return the function of the arrays at some places, with the others as they are."""

    def of_some(*given: mx.array) -> list[mx.array]:
        arrays = list(primals)
        for place, array in zip(places, given, strict=True):
            arrays[place] = array
        return original(*arrays)

    return of_some


def _differentiable(run: Callable, original: Callable) -> Callable:
    """Give kernels, which have no derivatives of their own, those of the original."""

    @mx.custom_function
    def served(*arrays: mx.array) -> list[mx.array]:
        return run(*arrays)

    @served.vjp
    def _(primals: object, cotangents: object, outputs: object) -> list[mx.array]:
        primals, cotangents = _listed(primals), _listed(cotangents)
        places = [i for i, array in enumerate(primals) if _is_inexact(array)]
        inner = _of_some(original, primals, places)
        wanted = [c for c, r in zip(cotangents, _listed(outputs), strict=True) if _is_inexact(r)]

        def apart(*given: mx.array) -> list[mx.array]:
            # Of an array that is returned twice, mx.vjp takes one cotangent (MLX 0.32.4).
            return [mx.contiguous(r) for r in inner(*given) if _is_inexact(r)]

        made = iter(mx.vjp(apart, [primals[i] for i in places], wanted)[1])
        return [next(made) if i in places else mx.zeros_like(p) for i, p in enumerate(primals)]

    @served.jvp
    def _(primals: object, tangents: object) -> list[mx.array]:
        primals, tangents = _listed(primals), _listed(tangents)
        # The others' tangent is None; zeros would not do: MLX derives nothing along indices.
        places = [i for i, tangent in enumerate(tangents) if tangent is not None]
        inner = _of_some(original, primals, places)
        return mx.jvp(inner, [primals[i] for i in places], [tangents[i] for i in places])[1]

    @served.vmap
    def _(inputs: object, axes: object) -> tuple[list[mx.array], list[int]]:
        along = tuple(None if axis is None or axis < 0 else axis for axis in _listed(axes))
        mapped = mx.vmap(lambda *arrays: tuple(original(*arrays)), in_axes=along)
        made = list(mapped(*_listed(inputs)))
        return made, [0] * len(made)

    return served


def _runs_metal() -> bool:
    return mx.metal.is_available() and mx.default_device() == mx.gpu


@functools.cache
def _chip() -> str:
    return mx.device_info(mx.gpu).get("device_name", "")


class _Variant:
    """Kernels that serve the calls of one key: these shapes, dtypes and other values."""

    def __init__(
        self,
        run: Callable,
        nest: Callable,
        *,
        chip: str,
        slots: Sequence[int] = (),
        fixed: Sequence[tuple[int, mx.array]] = (),
        changed: Sequence[tuple[int, int, bool]] = (),
        shown: Sequence[int] = (),
    ) -> None:
        self.run, self.nest, self.chip, self.slots = run, nest, chip, slots
        self.fixed = [(place, _Value(array)) for place, array in fixed]
        # Arrays that the function changes in place: their place, the result that they become,
        # and whether that result is the array itself. Some are results for this alone.
        self.changed, self.shown = changed, shown

    def suits(self, call: _Call) -> bool:
        """Say whether the arrays whose values the kernels hold are still those of the export."""
        return all(value.is_that_of(call.array_at(place)) for place, value in self.fixed) and not (
            self.changed and self._is_shared(call)
        )

    def arrays(self, call: _Call) -> list[mx.array]:
        """Return what the kernels read: the arrays of the arguments, then of the slots."""
        return [*call.arrays, *map(call.array_at, self.slots)]

    def _is_shared(self, call: _Call) -> bool:
        """Say whether an array that is changed was passed, or is held, twice."""
        every = [*call.arrays, *map(call.array_at, range(len(call.slots)))]
        given = self.arrays(call)
        return any(sum(a is given[place] for a in every) > 1 for place, _, _ in self.changed)

    def result(self, arrays: Sequence[mx.array], made: Sequence[mx.array]) -> object:
        """Write back what is changed in place, and return what the function returns."""
        made = list(made)
        for place, output, is_returned in self.changed:
            arrays[place][...] = made[output]
            if is_returned:
                made[output] = arrays[place]
        return self.nest(*made)


def _binding(function: Callable) -> Callable[[tuple, dict], tuple[tuple, dict]]:
    """Return what puts arguments in the order of the parameters, and adds the defaults."""
    if type(function).__module__ == "mlx.core":
        # What mx.grad, mx.vmap and their like return tells arguments by how they are passed.
        return lambda args, kwargs: (args, kwargs)
    signature = inspect.signature(function)

    def bound(args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        return given.args, given.kwargs

    return bound


def _with_kernels(
    function: Callable,
    variants: Mapping[str, Sequence[_Variant]],
    captured: Sequence[tuple[dict, str]] = (),
    names: frozenset[str] | None = None,
    passed: Sequence[object] = (),
) -> Callable:
    """Return `function` with kernels where they serve a call; it runs itself everywhere else.

    Args:
        function: also gives the derivatives.
        variants: what serves the calls of a key.
        captured: (namespace, name) of what the function reads besides its arguments.
        names: attributes and variables that its lines read; what others hold plays no part.
        passed: the object whose method it is, and classes of arguments.
    """
    is_unchanged = _Unchanged(function, names, passed)
    with_own_members, bound = _member_exchange(function), _binding(function)
    as_written = _of_own_members(function)

    def serving(call: _Call) -> _Variant | None:
        found = [v for v in variants.get(call.key, ()) if v.suits(call)]
        if not found or not is_unchanged() or not is_unchanged.knows(call.definitions):
            return None
        if len(found) > 1:
            # Kernels that were judged on this chip come before all others.
            found.sort(key=lambda v: v.chip != _chip())
        return found[0] if found else None

    @functools.wraps(function)
    def dispatching(*args: object, **kwargs: object) -> object:
        args, kwargs = with_own_members(args, kwargs)
        if not _runs_metal():
            return as_written(*args, **kwargs)
        try:
            given = bound(args, kwargs)
        except TypeError:
            # Python's own message names the function.
            return function(*args, **kwargs)
        call = _Call(given, captured, names)
        variant = serving(call)
        if variant is None:
            return as_written(*args, **kwargs)
        slots = [call.slots[place] for place in variant.slots]
        arrays = variant.arrays(call)
        original = _original(as_written, call, slots, variant.shown)
        return variant.result(arrays, _listed(_differentiable(variant.run, original)(*arrays)))

    def serves(*args: object, **kwargs: object) -> bool:
        """Say whether kernels serve such a call where there is a GPU that runs Metal."""
        given = bound(*with_own_members(args, kwargs))
        return serving(_Call(given, captured, names)) is not None

    dispatching.reference, dispatching.serves = function, serves
    return dispatching


def _restore(call: _Call, data: Mapping[str, mx.array]) -> None:
    """Put the arrays of an export where they stood."""
    for (holder, key), path in zip(call.slots, call.paths, strict=True):
        holder[key] = data[path]
