"""Exports a function: carries its source, finds the kernels of its calls, prints the module."""

import importlib.util
import inspect
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MethodType, ModuleType

import mlx.core as mx

from kernelwright.errors import InputError, KernelwrightError, UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.runtime.change_line import line_of_change
from kernelwright.runtime.effect import ImpureError
from kernelwright.runtime.export.format import ExportedFile
from kernelwright.runtime.export.function.arguments_code import arguments_with
from kernelwright.runtime.export.function.dispatch import _Call
from kernelwright.runtime.export.function.module_code import FunctionModule
from kernelwright.runtime.export.function.pure_call import check_pure
from kernelwright.runtime.export.function.return_line import line_of_return
from kernelwright.runtime.export.function.source import (
    CarriedSource,
    NotPortableError,
    carry,
)
from kernelwright.runtime.export.function.variant import (
    EffectError,
    Lookup,
    ResultError,
    Traced,
    Variant,
    choose,
    names_read,
    names_run,
    nest_of,
    trace,
)
from kernelwright.runtime.export.selection import is_verified
from kernelwright.runtime.state import state_of
from kernelwright.store import CandidateDetail

Tried = Callable[[Sequence[Graph]], str]
"""Says in a sentence what became of the candidates of tasks; nothing where there were none."""


@dataclass(frozen=True)
class ExampleCall:
    """Arguments of which the shapes, the dtypes and all that is no array count."""

    args: tuple[object, ...]
    kwargs: Mapping[str, object]


@dataclass(frozen=True)
class FunctionFiles:
    """A function's module and its data."""

    module: FunctionModule
    files: tuple[ExportedFile, ...]
    calls: tuple[ExampleCall, ...]
    """Those that kernels serve."""


def export_function(
    function: Callable[..., object],
    name: str,
    calls: Sequence[ExampleCall],
    lookup: Lookup,
    *,
    admits: Callable[[CandidateDetail], bool],
    tried: Tried = lambda tasks: "",
    owner: str = "",
) -> FunctionFiles:
    """Print the module of a function whose calls have kernels.

    Args:
        function: the user's.
        name: of the module, and of the function in it.
        calls: those that may have kernels.
        lookup: finds kernels.
        admits: says which kernels may be taken.
        tried: says what became of candidates for tasks that have no champion.
        owner: the name of the object whose method it is; it keeps its name in the module.

    Raises:
        InputError: no call has a kernel.
        UnsupportedError: the function cannot be carried into a module of its own.
    """
    calls, impure = _pure(function, calls)
    if not calls and impure:
        raise UnsupportedError(f"{name} cannot be exported with kernels: {impure[0]}")
    prepared = _prepared(function, _named(function, name, owner or name), calls)
    bare, traced, reasons = prepared.module, prepared.traced, [*impure, *prepared.reasons]
    variants: list[Variant] = []
    served: list[ExampleCall] = []
    for call, ways in traced:
        found = [choose(way, lookup, admits=admits) for way in ways]
        best = max(found, key=lambda vs: sum(len(v.kernels) for v in vs))
        known = {v.traced.key for v in variants}
        fresh = [v for v in best if v.traced.key not in known]
        variants += fresh
        served += [call] if fresh else []
    if not variants:
        tasks = [task for _, ways in traced for way in ways for task in way.tasks]
        found_kernels = [d for details in lookup(tasks).values() for d in details]
        raise InputError(_nothing(name, reasons, tried(tasks), found_kernels))
    whole = FunctionModule(
        bare.source, bare.signature, variants, bare.future_annotations, bare.file
    )
    return FunctionFiles(whole, files_of(whole), tuple(served))


def _pure(
    function: Callable[..., object], calls: Sequence[ExampleCall]
) -> tuple[list[ExampleCall], list[str]]:
    """Return the calls that compute from their arguments alone, and what the others do."""
    pure: list[ExampleCall] = []
    reasons: list[str] = []
    for call in calls:
        try:
            check_pure(function, call.args, call.kwargs)
            pure.append(call)
        except ImpureError as e:
            reasons.append(str(e))
    return pure, reasons


@dataclass(frozen=True)
class _Name:
    """What a module is called, and the function or object in it."""

    module: str
    own: str
    public: str = ""
    """Of a method that the user calls by a name of its own."""


def _named(function: Callable[..., object], name: str, own: str) -> _Name:
    """Tell a method that has a name of its own from the object that it is a method of."""
    if not isinstance(function, MethodType) or own != name:
        return _Name(name, own)
    owner = function.__self__
    spaces = [sys.modules.get(kind) for kind in (type(owner).__module__, "__main__")]
    known = (key for space in spaces if space for key, v in vars(space).items() if v is owner)
    found = next(known, f"{name}_object")
    return _Name(name, found, name if found != name else "")


@dataclass(frozen=True)
class _Prepared:
    """A function in a module of its own, still without kernels, and its calls as seen there."""

    module: FunctionModule
    traced: list[tuple[ExampleCall, tuple[Traced, ...]]]
    reasons: list[str]


class _OtherStateError(UnsupportedError):
    """An object is not as the statements of its file leave it."""


def _prepared(
    function: Callable[..., object], name: _Name, calls: Sequence[ExampleCall]
) -> _Prepared:
    """Carry a function with the statements that make its objects, or else as these are now."""
    try:
        return _traced_alone(function, name, calls, by_state=False)
    except UnsupportedError as first:
        read = _read_at_home(function, calls)
        try:
            return _traced_alone(function, name, calls, by_state=True, read=read)
        except _OtherStateError:
            raise first from None


def _read_at_home(
    function: Callable[..., object], calls: Sequence[ExampleCall]
) -> frozenset[str] | None:
    """Return the names that calls read where the user wrote the function; None if not known."""
    found: frozenset[str] | None = frozenset()
    for call in calls:
        given = seen(function, call.args, call.kwargs, ())
        with suppress(KernelwrightError):
            found = _both(found, names_run(function, given))
    return found


def _traced_alone(
    function: Callable[..., object],
    named: _Name,
    calls: Sequence[ExampleCall],
    *,
    by_state: bool,
    read: frozenset[str] | None = None,
) -> _Prepared:
    name = named.module
    if isinstance(function, partial) and _holds_arrays(function):
        raise UnsupportedError(
            f"{name} is a functools.partial that holds an array; write a function that names it."
        )
    given_to = [value for call in calls for value in (*call.args, *call.kwargs.values())]
    source = _carried(function, named.own, given_to, by_state=by_state, read=read)
    source.public = named.public
    bare = FunctionModule(
        source,
        _signature(function),
        future_annotations=_has_future(function),
        file=name if name != named.own else "",
    )
    traced: list[tuple[ExampleCall, tuple[Traced, ...]]] = []
    with imported(files_of(bare), name) as module:
        alone = _Alone(function, source, module, bare.captured)
        if not by_state and alone.holds_tuples:
            raise _OtherStateError(f"{name} keeps an array in a tuple; keep it in a list.")
        names = alone.names_in(calls, name)
        for call in names.calls:
            with names.noting(alone, call):
                given = alone.seen(call, names.read)
                _check_same(given, alone.theirs(call, names.read), name)
                traced.append((call, alone.traced(given, names.read)))
    reasons = names.reasons
    return _Prepared(bare, traced, reasons)


@dataclass(frozen=True)
class _Alone:
    """A function in a module of its own, beside the user's."""

    function: Callable[..., object]
    source: CarriedSource
    module: ModuleType
    names: tuple[str, ...]
    """What it captures."""

    @property
    def captured(self) -> list[tuple[dict[str, object], str]]:
        return [(vars(self.module), n) for n in self.names]

    @property
    def holds_tuples(self) -> bool:
        """Say whether an array stands in a tuple, where no other can be put."""
        loaded = self.loaded(None)
        return any(isinstance(holder, tuple) for holder, _ in loaded.slots)

    def loaded(self, read: frozenset[str] | None) -> _Call:
        """Return what the module holds when it is loaded."""
        _, own = _reference(self.module, self.source)
        return _Call((own, {}) if own else (), self.captured, read)

    def seen(self, call: ExampleCall, read: frozenset[str] | None) -> _Call:
        """Return a call as the module sees it."""
        reference, own = _reference(self.module, self.source)
        return seen(reference, (*own, *call.args), call.kwargs, self.captured, read)

    def theirs(self, call: ExampleCall, read: frozenset[str] | None) -> _Call:
        """Return a call as the user's file has it."""
        return seen(*_theirs(self.function, self.source, call), read)

    def traced(self, given: _Call, read: frozenset[str] | None) -> tuple[Traced, ...]:
        reference, _ = _reference(self.module, self.source)
        return trace(reference, given, names_of(reference, given), self.loaded(read))

    def names_in(self, calls: Sequence[ExampleCall], name: str) -> "_Read":
        """Find what the calls read; those that cannot be traced are left out, with a reason."""
        reference, _ = _reference(self.module, self.source)
        found = _Read()
        for call in calls:
            with found.noting(self, call):
                given, theirs = self.seen(call, None), self.theirs(call, None)
                try:
                    names = names_read(reference, given)
                except KernelwrightError:
                    # In another state the statements of the file may not be right.
                    _check_same(given, theirs, name)
                    raise
                found.read = _both(found.read, names)
                found.calls.append(call)
        return found


@dataclass
class _Read:
    """What calls read, and why others cannot be traced."""

    read: frozenset[str] | None = frozenset()
    calls: list[ExampleCall] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @contextmanager
    def noting(self, alone: _Alone, call: ExampleCall) -> Iterator[None]:
        """Note why a call cannot be traced, with the line of the user's file."""
        try:
            yield
        except _OtherStateError:
            raise
        except EffectError as e:
            line = _effect_line(*_theirs(alone.function, alone.source, call))
            self.reasons.append(f"{str(e).rstrip('.')}{line}.")
        except ResultError as e:
            theirs, args, kwargs, _ = _theirs(alone.function, alone.source, call)
            line = line_of_return(theirs, lambda: theirs(*args, **kwargs))
            head, _, advice = str(e).partition("; ")
            self.reasons.append(f"{head}{line}; {advice}")
        except KernelwrightError as e:
            self.reasons.append(str(e))


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else one | other


def _holds_arrays(function: partial[object]) -> bool:
    values = (*function.args, *function.keywords.values())
    return any(isinstance(value, mx.array) for value in values)


def _nothing(
    name: str, reasons: Sequence[str], tried: str, found: Sequence[CandidateDetail]
) -> str:
    if found:
        unverified = [d for d in found if not is_verified(d)]
        ids = ", ".join(d.candidate.id[:8] for d in unverified[:3])
        why = (
            f"the kernels of {name} are not verified ({ids})" if ids else f"MLX is best for {name}"
        )
        return f"{why}; nothing is worth exporting. Add --force to export them all the same."
    if reasons:
        return f"{name} cannot be exported with kernels: {reasons[0]}"
    if tried:
        return f"{name} has no kernel to export: {tried}"
    return (
        f"expected a champion for {name} at these shapes and dtypes, found none in the store; "
        "run `kernelwright search` first, or name a candidate's id."
    )


def _carried(
    function: Callable[..., object],
    name: str,
    arguments: Sequence[object],
    *,
    by_state: bool,
    read: frozenset[str] | None,
) -> CarriedSource:
    try:
        return carry(function, name, by_state=by_state, arguments=arguments, names=read)
    except NotPortableError as e:
        raise UnsupportedError(f"{name} cannot stand in a module of its own: {e}.") from e


def _signature(function: Callable[..., object]) -> str:
    return " ".join(str(inspect.signature(function)).split())


def _has_future(function: Callable[..., object]) -> bool:
    inner = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return bool(code and code.co_flags & 0x1000000)


def _reference(
    module: ModuleType, source: CarriedSource
) -> tuple[Callable[..., object], tuple[object, ...]]:
    """Return the function in its module, and the object that it is a method of."""
    value = getattr(module, source.name)
    if not source.attributes:
        return value.reference, ()
    method = getattr(type(value), source.attributes[0])
    return method.reference, (value,)


def _theirs(
    function: Callable[..., object], source: CarriedSource, call: ExampleCall
) -> tuple[
    Callable[..., object],
    tuple[object, ...],
    Mapping[str, object],
    list[tuple[dict[str, object], str]],
]:
    """Return the user's function and what it captures, as `seen` takes them."""
    values: dict[str, object] = {**source.arrays, **source.objects, **source.literals}
    own: tuple[object, ...] = ()
    if source.attributes:
        holder = function.__self__ if isinstance(function, MethodType) else function
        own, function = (holder,), getattr(type(holder), source.attributes[0])
    names = [n for n in source.captured if n != source.name]
    return function, (*own, *call.args), call.kwargs, [(values, n) for n in names]


def _effect_line(
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    captured: Sequence[tuple[dict[str, object], str]],
) -> str:
    """Say which line of the user's file changes something; what it changed is put back."""
    call = _Call((args, dict(kwargs)), captured)
    given = [a.astype(a.dtype) for a in call.arrays]
    args, kwargs = arguments_with(call, given)
    state = state_of(function)
    kept = [call.array_at(i) for i in range(len(call.slots))]
    before = [a.astype(a.dtype) for a in kept]
    types = [(a.shape, a.dtype) for a in given]
    nest = nest_of((args, kwargs))

    def is_as_it_was() -> bool:
        return (
            state.is_as_it_was
            and types == [(a.shape, a.dtype) for a in given]
            and nest == nest_of((args, kwargs))
            and all(call.array_at(i) is a for i, a in enumerate(kept))
            and all(mx.array_equal(a, b) for a, b in zip(kept, before, strict=True))
        )

    try:
        return line_of_change(lambda: function(*args, **kwargs), is_as_it_was)
    finally:
        state.restore()
        for (holder, key), array, value in zip(call.slots, kept, before, strict=True):
            if isinstance(holder, dict | list):
                holder[key] = array
            array[...] = value


def seen(
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    captured: Sequence[tuple[dict[str, object], str]],
    names: frozenset[str] | None = None,
) -> _Call:
    """Return a call as the exported module sees it, which reads these names of objects."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return _Call((bound.args, bound.kwargs), captured, names)


def names_of(function: Callable[..., object], call: _Call) -> tuple[str, ...]:
    """Name the arrays of a call's arguments after the function's parameters."""
    args, kwargs = arguments_with(call, call.arrays)
    bound = inspect.signature(function).bind(*args, **kwargs)
    return tuple(n for name, value in bound.arguments.items() for n in _paths(value, name))


def _paths(value: object, path: str) -> list[str]:
    if isinstance(value, mx.array):
        return [path]
    if type(value) is dict:
        return [p for key, item in value.items() for p in _paths(item, f"{path}.{key}")]
    if isinstance(value, tuple) or type(value) is list:
        return [p for i, item in enumerate(value) for p in _paths(item, f"{path}.{i}")]
    return []


def _place_of_difference(one: _Call, other: _Call) -> str:
    """Say where two keys first differ, as ` (STATE)`; nothing where no name leads there."""
    place = ""
    for word, another in zip(one._words, other._words, strict=False):
        if word.startswith("; ") or word.endswith(": "):
            place = word.strip("; =:")
        if word != another:
            break
    return f" ({place})" if place else ""


def _check_same(given: _Call, theirs: _Call, name: str) -> None:
    if given.key != theirs.key:
        raise _OtherStateError(
            f"{name} is in another state than the statements of its file leave it in"
            f"{_place_of_difference(given, theirs)}; make the change in the file, at the top."
        )


def files_of(module: FunctionModule) -> tuple[ExportedFile, ...]:
    """Print a module and its data."""
    text = module.text()
    files = [ExportedFile(name=f"{module.name}.py", text=text)]
    if module.data:
        # The text comes first: printing it collects the data, and asks whether there is some.
        files = [ExportedFile(name=f"{module.name}.py", text=module.text())]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "data.safetensors"
            mx.save_safetensors(str(path), module.data)
            files.append(ExportedFile(name=f"{module.name}.safetensors", data=path.read_bytes()))
    return tuple(files)


@contextmanager
def imported(
    files: Sequence[ExportedFile], name: str, around: AbstractContextManager[None] | None = None
) -> Iterator[ModuleType]:
    """Import an exported module from a folder of its own, within `around`."""
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            path = Path(folder) / file.name
            if file.data is None:
                path.write_text(file.text, encoding="utf-8")
            else:
                path.write_bytes(file.data)
        spec = importlib.util.spec_from_file_location(
            f"kernelwright_export_{name}", Path(folder) / f"{name}.py"
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        try:
            with around or nullcontext():
                spec.loader.exec_module(module)
        except Exception as e:
            raise UnsupportedError(
                f"{name} does not work in a module of its own: {type(e).__name__}: {e}."
            ) from e
        yield module
