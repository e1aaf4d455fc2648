"""Exports a function: carries its source, finds the kernels of its calls, prints the module."""

import inspect
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MethodType

import mlx.core as mx

from kernelwright.errors import InputError, KernelwrightError, UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.trace.refusal import check_returns_results
from kernelwright.runtime.export.format import ExportedFile
from kernelwright.runtime.export.function.alone import (
    ExampleCall,
    FunctionAlone,
    OtherStateError,
    both_names,
    check_same_state,
    seen,
)
from kernelwright.runtime.export.function.carried_names import ALLOWED, NUMPY, is_class_method
from kernelwright.runtime.export.function.carried_source import CarriedSource
from kernelwright.runtime.export.function.module_code import FunctionModule
from kernelwright.runtime.export.function.module_file import files_of, imported
from kernelwright.runtime.export.function.portability import NotPortableError
from kernelwright.runtime.export.function.pure_call import check_pure
from kernelwright.runtime.export.function.signature_text import signature_text
from kernelwright.runtime.export.function.source import carry
from kernelwright.runtime.export.function.traced_call import Traced, names_run
from kernelwright.runtime.export.function.variant import Lookup, Variant, choose
from kernelwright.runtime.export.selection import is_verified
from kernelwright.store import CandidateDetail

Tried = Callable[[Sequence[Graph]], str]
"""Says in a sentence what became of the candidates of tasks; nothing where there were none."""


@dataclass(frozen=True)
class ServedCall:
    """A call that kernels serve."""

    example: ExampleCall
    graph: Graph
    """What it computes; its first inputs are the arrays among the arguments."""


@dataclass(frozen=True)
class FunctionFiles:
    """A function's module and its data."""

    module: FunctionModule
    files: tuple[ExportedFile, ...]
    calls: tuple[ServedCall, ...]


def export_function(
    function: Callable[..., object],
    name: str,
    calls: Sequence[ExampleCall],
    lookup: Lookup,
    *,
    admits: Callable[[CandidateDetail], bool],
    tried: Tried = lambda tasks: "",
    owner: str = "",
    called: str = "",
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
        called: how people call the function, such as `Ops.mish`; by its name if empty.

    Raises:
        InputError: no call has a kernel, or an import would find another module by the name.
        UnsupportedError: the function cannot be carried into a module of its own.
    """
    if name in ALLOWED or name == NUMPY:
        raise InputError(
            f"{name} is the name of a module that Python, MLX or NumPy has, and an import would "
            f"find one for the other; write exported_{name} = {name} in its file, and take that."
        )
    calls, impure = _pure(function, calls)
    if not calls and impure:
        raise UnsupportedError(f"{name} cannot be exported with kernels: {impure[0]}")
    prepared = _prepared(function, _named(function, name, owner or name), calls)
    bare, traced, reasons = prepared.module, prepared.traced, [*impure, *prepared.reasons]
    variants: list[Variant] = []
    served: list[ServedCall] = []
    for call, ways in traced:
        found = [choose(way, lookup, admits=admits) for way in ways]
        best = max(found, key=lambda vs: sum(len(v.kernels) for v in vs))
        known = {v.traced.key for v in variants}
        fresh = [v for v in best if v.traced.key not in known]
        variants += fresh
        served += [ServedCall(call, v.traced.graph) for v in fresh[:1]]
    if not variants:
        tasks = [task for _, ways in traced for way in ways for task in way.tasks]
        found_kernels = [d for details in lookup(tasks).values() for d in details]
        raise InputError(_nothing(name, reasons, tried(tasks), found_kernels))
    whole = replace(bare, variants=variants, called=called, data={})
    return FunctionFiles(whole, files_of(whole), tuple(served))


def export_obstacle(
    function: Callable[..., object], name: str, calls: Sequence[ExampleCall], *, owner: str = ""
) -> str:
    """Say why no export could take kernels of a function; nothing where one could.

    It asks before there are kernels, so that nobody searches for what cannot be taken along.
    """
    pure, impure = _pure(function, calls)
    if not pure:
        return impure[0] if impure else ""
    try:
        prepared = _prepared(function, _named(function, name, owner or name), pure)
    except KernelwrightError as e:
        return str(e)
    return "" if prepared.traced else next(iter(prepared.reasons), "")


def _pure(
    function: Callable[..., object], calls: Sequence[ExampleCall]
) -> tuple[list[ExampleCall], list[str]]:
    """Return the calls that compute from their arguments alone, and what the others do."""
    pure: list[ExampleCall] = []
    reasons: list[str] = []
    for call in calls:
        try:
            check_returns_results(function, "it")
            check_pure(function, call.args, call.kwargs)
            pure.append(call)
        except UnsupportedError as e:
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
    if not isinstance(function, MethodType) or is_class_method(function) or own != name:
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
        except OtherStateError:
            raise first from None


def _read_at_home(
    function: Callable[..., object], calls: Sequence[ExampleCall]
) -> frozenset[str] | None:
    """Return the names that calls read where the user wrote the function; None if not known."""
    found: frozenset[str] | None = frozenset()
    for call in calls:
        given = seen(function, call.args, call.kwargs, ())
        with suppress(KernelwrightError):
            found = both_names(found, names_run(function, given))
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
        signature_text(function),
        future_annotations=_has_future(function),
        file=name if name != named.own else "",
    )
    traced: list[tuple[ExampleCall, tuple[Traced, ...]]] = []
    with imported(files_of(bare), name) as module:
        alone = FunctionAlone(function, source, module, bare.captured)
        if not by_state and alone.holds_tuples:
            raise OtherStateError(f"{name} keeps an array in a tuple; keep it in a list.")
        names = alone.names_in(calls, name)
        for call in names.calls:
            with names.noting(alone, call):
                given = alone.seen(call, names.read)
                check_same_state(given, alone.theirs(call, names.read), name)
                alone.check_is_seen(names.read, name)
                traced.append((call, alone.traced(given, names.read)))
    reasons = names.reasons
    return _Prepared(bare, traced, reasons)


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


def _has_future(function: Callable[..., object]) -> bool:
    inner = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return bool(code and code.co_flags & 0x1000000)
