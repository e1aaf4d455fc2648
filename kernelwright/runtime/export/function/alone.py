"""A function in a module of its own: its calls as seen there, what they read, their traces."""

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MethodType, ModuleType

import mlx.core as mx

from kernelwright.errors import KernelwrightError, UnsupportedError
from kernelwright.ir.trace.capture import capture_call
from kernelwright.runtime.change_line import line_of_change
from kernelwright.runtime.effect import ImpureError
from kernelwright.runtime.enumeration import _member_exchange
from kernelwright.runtime.export.function.arguments_code import arguments_with
from kernelwright.runtime.export.function.carried_source import CarriedSource
from kernelwright.runtime.export.function.dispatch import _binding
from kernelwright.runtime.export.function.passed_call import _Call
from kernelwright.runtime.export.function.passed_nest import _DICTS, _fields_of, _is_passed_record
from kernelwright.runtime.export.function.result_nest import ResultError
from kernelwright.runtime.export.function.return_line import line_of_return
from kernelwright.runtime.export.function.traced_call import (
    EffectError,
    Traced,
    names_read,
    names_run,
    nest_of,
    objects_in,
    trace,
)
from kernelwright.runtime.reads import _Reads
from kernelwright.runtime.state import state_of


@dataclass(frozen=True)
class ExampleCall:
    """Arguments of which the shapes, the dtypes and all that is no array count."""

    args: tuple[object, ...]
    kwargs: Mapping[str, object]


class OtherStateError(UnsupportedError):
    """An object is not as the statements of its file leave it."""


@dataclass(frozen=True)
class FunctionAlone:
    """A function in a module of its own, beside the user's."""

    function: Callable[..., object]
    source: CarriedSource
    module: ModuleType
    names: tuple[str, ...]
    """What it captures."""

    @property
    def captured(self) -> list[tuple[dict[str, object], str]]:
        """Return where it finds what it captures."""
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

    def check_is_seen(self, read: frozenset[str] | None, name: str) -> None:
        """Refuse what kernels would go on with after it changed.

        Raises:
            UnsupportedError: what the function reads besides its arguments shows no state.
        """
        reference, own = _reference(self.module, self.source)
        unseen = _Reads(reference, read, own, fixes_variables=True).too_large
        if unseen:
            raise UnsupportedError(
                f"{name} reads {unseen[0]}, and nothing tells when that changes; keep numbers, "
                "arrays and objects of your own classes instead, or make it an argument."
            )

    def traced(self, given: _Call, read: frozenset[str] | None) -> tuple[Traced, ...]:
        """Trace a call as the module sees it."""
        reference, _ = _reference(self.module, self.source)
        return trace(reference, given, names_of(reference, given), self.loaded(read))

    def _check_fails_at_home(self, call: ExampleCall, error: KernelwrightError) -> None:
        """Tell what fails in the module alone from what fails in the user's file, too."""
        if isinstance(error, EffectError | ResultError | ImpureError):
            return
        theirs, args, kwargs, captured = _theirs(self.function, self.source, call)
        try:
            names_run(theirs, seen(theirs, args, kwargs, captured))
        except KernelwrightError:
            return
        cause = error.__cause__
        said = f"{type(cause).__name__}: {cause}" if cause is not None else str(error)
        raise UnsupportedError(
            f"the function works in its file and not in a module of its own ({said}); what a "
            "statement changes in an object or class, such as a registry, is not carried: let its "
            "definition hold it."
        ) from error

    def obstacle_at_home(self, call: ExampleCall) -> str:
        """Say why the user's function cannot be traced, with its line; nothing where it can."""
        try:
            capture_call(self.function, *call.args, **call.kwargs)
        except KernelwrightError as e:
            return str(e)
        return ""

    def names_in(self, calls: Sequence[ExampleCall], name: str) -> "NamesOfCalls":
        """Find what the calls read; those that cannot be traced are left out, with a reason."""
        reference, _ = _reference(self.module, self.source)
        found = NamesOfCalls()
        for call in calls:
            with found.noting(self, call):
                given, theirs = self.seen(call, None), self.theirs(call, None)
                try:
                    names = names_read(reference, given)
                except KernelwrightError as e:
                    # In another state the statements of the file may not be right.
                    check_same_state(given, theirs, name)
                    self._check_fails_at_home(call, e)
                    raise
                found.read = both_names(found.read, names)
                found.calls.append(call)
        return found


@dataclass
class NamesOfCalls:
    """What calls read, and why others cannot be traced."""

    read: frozenset[str] | None = frozenset()
    calls: list[ExampleCall] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @contextmanager
    def noting(self, alone: FunctionAlone, call: ExampleCall) -> Iterator[None]:
        """Note why a call cannot be traced, with the line of the user's file."""
        try:
            yield
        except OtherStateError:
            raise
        except EffectError as e:
            line = _effect_line(*_theirs(alone.function, alone.source, call))
            head, _, advice = str(e).rstrip(".").partition("; ")
            self.reasons.append(f"{head}{line}{'; ' if advice else ''}{advice}.")
        except ResultError as e:
            theirs, args, kwargs, _ = _theirs(alone.function, alone.source, call)
            line = line_of_return(theirs, lambda: theirs(*args, **kwargs))
            head, _, advice = str(e).partition("; ")
            self.reasons.append(f"{head}{line}; {advice}")
        except KernelwrightError as e:
            self.reasons.append(alone.obstacle_at_home(call) or str(e))


def both_names(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """Return the names of both; None where those of one are not known."""
    return None if one is None or other is None else one | other


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
    state = state_of(partial(function, *objects_in(call)))
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
    given = _member_exchange(function)(args, dict(kwargs))
    return _Call(_binding(function)(*given), captured, names)


def names_of(function: Callable[..., object], call: _Call) -> tuple[str, ...]:
    """Name the arrays of a call's arguments after the function's parameters."""
    args, kwargs = arguments_with(call, call.arrays)
    bound = inspect.signature(function).bind(*args, **kwargs)
    return tuple(n for name, value in bound.arguments.items() for n in _paths(value, name))


def _paths(value: object, path: str) -> list[str]:
    if isinstance(value, mx.array):
        return [path]
    parts: Iterable[tuple[object, object]] = ()
    if isinstance(value, dict) and type(value) in _DICTS:
        parts = value.items()
    elif isinstance(value, tuple) or type(value) is list:
        parts = zip(getattr(value, "_fields", itertools.count()), value, strict=False)
    elif _is_passed_record(value):
        parts = _fields_of(value).items()
    return [p for key, item in parts for p in _paths(item, f"{path}.{key}")]


def _place_of_difference(one: _Call, other: _Call) -> str:
    """Say where two keys first differ, as ` (STATE)`; nothing where no name leads there."""
    place = ""
    for word, another in zip(one._words, other._words, strict=False):
        if word.startswith("; ") or word.endswith(": "):
            place = word.strip("; =:")
        if word != another:
            break
    return f" ({place})" if place else ""


def check_same_state(given: _Call, theirs: _Call, name: str) -> None:
    """Compare what a call reads in the module with what it reads in the user's program.

    Raises:
        OtherStateError: something differs; it is named.
    """
    pairs = zip(given._words, theirs._words, strict=False)
    if any(one != other and one.startswith("array ") for one, other in pairs):
        raise OtherStateError(
            f"{name} reads an array where no other can be put"
            f"{_place_of_difference(given, theirs)}, such as a positional argument of a "
            "functools.partial; give it by its name there, or let the function name it."
        )
    if given.key != theirs.key:
        raise OtherStateError(
            f"{name} is in another state than the statements of its file leave it in"
            f"{_place_of_difference(given, theirs)}; make the change in the file, at the top."
        )
