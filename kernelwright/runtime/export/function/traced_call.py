"""A call of a function as a graph: what it reads, what it changes, what it returns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import mlx.core as mx

from kernelwright import ir
from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.region import Region
from kernelwright.plan import partition
from kernelwright.runtime.code_names import _cached_properties
from kernelwright.runtime.effect import ImpureError, check_same_calls
from kernelwright.runtime.enumeration import _enumerations_of, _own_members_inside
from kernelwright.runtime.export.function.differentiable import _original
from kernelwright.runtime.export.function.passed_call import _Call, _leaves, _Slots
from kernelwright.runtime.export.function.passed_nest import _DICTS, _is_passed_record, _state_of
from kernelwright.runtime.export.function.read_names import NamesRead, reading, without
from kernelwright.runtime.export.function.result_nest import count_arrays, with_places
from kernelwright.runtime.state import state_of

_CHANGES_KEPT = (
    "the function changes what it keeps; compute that once, in __init__ or at the top of its file, "
    "or make it an argument and a result."
)


class EffectError(UnsupportedError):
    """A function changes something besides its arguments, which kernels do not."""


@dataclass(frozen=True)
class Traced:
    """A call of a function as a graph."""

    graph: Graph
    """Its inputs are the arrays of the arguments, then of `slots`."""
    slots: tuple[int, ...]
    """Which of the arrays that objects hold it reads, by their place in the call."""
    fixed: tuple[tuple[int, int], ...]
    """Slots whose values are part of the graph, each with its place when the module loads."""
    key: str
    result: object
    """What the function returned, its arrays replaced by their place among the results."""
    regions: tuple[Region, ...]
    changed: tuple[tuple[int, int, bool], ...] = ()
    """Inputs that are changed in place, the output of each, and whether it is returned itself."""
    shown: tuple[int, ...] = ()
    """Inputs whose last values are outputs for that reason alone."""
    names: frozenset[str] | None = None
    """Attributes and variables that the function reads; None where that is not known."""
    passed: int = 0
    """How many of `slots` objects among the arguments hold; they come first."""

    @property
    def tasks(self) -> tuple[Graph, ...]:
        """The regions as the references that kernels were searched for."""
        return tuple(region.extract() for region in self.regions)


def names_read(function: Callable[..., object], call: _Call) -> frozenset[str] | None:
    """Return the attributes and variables that a call reads; None where no code shows them.

    What an object holds under any other name plays no part: the trace is the same without it.

    Args:
        function: takes the call's arguments.
        call: of the function, read as a whole.

    Raises:
        KernelwrightError: the function cannot be traced.
    """
    whole, names = _read_whole(function, call)
    if names is None:
        return None
    less = _Call(call.arguments, call.captured, names)
    try:
        with without(less.unread):
            alone = _captured(function, less, _traced_alone(less), _numbered(call))
    except Exception:
        # Whatever goes wrong without an attribute, the attribute is read.
        return None
    same = whole.graph.to_json() == alone.graph.to_json()
    return names if same and whole.result == alone.result else None


def names_run(function: Callable[..., object], call: _Call) -> frozenset[str] | None:
    """Return the names in the code that a call runs; None where it reads others, too.

    Raises:
        KernelwrightError: the function cannot be traced.
    """
    return _read_whole(function, call)[1]


def _read_whole(
    function: Callable[..., object], call: _Call
) -> "tuple[_Shown, frozenset[str] | None]":
    found = NamesRead()
    mx.eval([call.array_at(i) for i in range(len(call.slots))])

    def watched(*args: object, **kwargs: object) -> object:
        with reading(found):
            return function(*args, **kwargs)

    live = _traced_alone(call)
    return _captured(watched, call, live, _numbered(call), of=function), found.names


def _traced_alone(call: _Call) -> list[int]:
    """Return the slots to trace where no argument is an array: a record may hold all of them."""
    every = enumerate(call.slots)
    return [] if call.arrays else [i for i, (holder, _) in every if not isinstance(holder, tuple)]


def _numbered(call: _Call) -> list[str]:
    return [f"x{i}" for i in range(len(call.arrays))]


def trace(
    function: Callable[..., object], call: _Call, names: Sequence[str], loaded: _Call
) -> tuple[Traced, ...]:
    """Trace a call: first with everything that it reads as inputs, then with fixed values.

    Kernels may hold the value of a captured array, such as a mask that is known to be causal.

    Args:
        function: takes the call's arguments.
        call: of the function, with arrays of which the shapes and dtypes count.
        names: of the arrays of the arguments.
        loaded: what the module holds when it is loaded.

    Raises:
        KernelwrightError: no kernel may take the function's place; a sentence says why.
    """
    mx.eval([call.array_at(i) for i in range(len(call.slots))])
    kept = {(_identity(holder), key) for holder, key in loaded.slots}
    places = [(_identity(holder), key) for holder, key in call.slots]
    # A search writes arrays of one element into its tasks; arguments are inputs to it.
    live = [
        i
        for i, (holder, _) in enumerate(call.slots)
        if not isinstance(holder, tuple) and (call.array_at(i).size > 1 or places[i] not in kept)
    ]
    given = [i for i in live if places[i] not in kept]
    first = _traced(function, call, names, live, loaded)
    if live == given or any(place >= len(call.arrays) for place, _, _ in first.changed):
        return (first,)
    return (first, _traced(function, call, names, given, loaded))


def _traced(
    function: Callable[..., object],
    call: _Call,
    names: Sequence[str],
    live: Sequence[int],
    loaded: _Call,
) -> Traced:
    first = _captured(function, call, live, names)
    graph, count = first.graph, len(call.arrays)
    read = {v for node in graph.nodes for v in node.inputs}.union(graph.outputs)
    read |= {graph.inputs[place] for place, _, _ in first.changed}
    used = [i for place, i in enumerate(live) if graph.inputs[count + place] in read]
    shown = _captured(function, call, used, names)
    graph = shown.graph
    try:
        check_same_calls((first.graph, first.result), (shown.graph, shown.result))
    except ImpureError:
        if any(node.op == "random_bits" for node in graph.nodes):
            raise ImpureError(
                "the function draws random numbers (mx.random) without a key; pass a key as an "
                "argument, or the array that is drawn."
            ) from None
        raise
    whole = ir.gather_attention(ir.canonicalize(graph))
    places = {(_identity(holder), key): i for i, (holder, key) in enumerate(loaded.slots)}
    fixed = [(i, (_identity(h), k)) for i, (h, k) in enumerate(call.slots) if i not in live]
    if any(place not in places for _, place in fixed):
        raise UnsupportedError(
            "an object among its arguments holds an array in a tuple; keep it in a list."
        )
    pairs = tuple((i, places[place]) for i, place in fixed)
    return Traced(
        whole,
        tuple(used),
        pairs,
        call.key,
        shown.result,
        tuple(partition(whole)),
        shown.changed,
        shown.shown,
        call.names,
        sum((_identity(call.slots[i][0]), call.slots[i][1]) not in places for i in used),
    )


def _identity(holder: object) -> int:
    """Return what identifies the holder of a slot in every reading of a call."""
    return id(holder.owner if isinstance(holder, _Slots) else holder)


@dataclass(frozen=True)
class _Shown:
    """What a call returned and changed while it was captured."""

    graph: Graph
    result: object
    changed: tuple[tuple[int, int, bool], ...]
    shown: tuple[int, ...]


def _captured(
    function: Callable[..., object],
    call: _Call,
    used: Sequence[int],
    names: Sequence[str],
    *,
    of: Callable[..., object] | None = None,
) -> _Shown:
    slots = [call.slots[i] for i in used]
    noted: list[tuple[object, list[int]]] = []
    every = range(len(call.slots))
    enumerations = _enumerations_of(of or function)

    def observed(*args: object, **kwargs: object) -> object:
        given = [call.array_at(i) for i in every]
        arrays = [*_Call((args, kwargs)).arrays, *(given[i] for i in used)]
        before = nest_of((args, kwargs))
        with _own_members_inside((args, kwargs), enumerations):
            made = function(*args, **kwargs)
        if any(call.array_at(i) is not array for i, array in zip(every, given, strict=True)):
            raise EffectError("the function replaces arrays that it keeps.")
        if nest_of((args, kwargs)) != before:
            raise EffectError("the function changes a list, dict or object that it was given.")
        # Which result is which array is all that is kept: no array of a trace outlives it.
        noted.append((with_places(made), [_index(a, _leaves(made)) for a in arrays]))
        return made

    flat = _original(observed, call, slots)
    kept = [call.array_at(i) for i in used]
    # Others may hold the same array, which is a constant to them.
    arrays = [mx.zeros(a.shape, a.dtype) for a in (*call.arrays, *kept)]
    # Theirs are the values of the graph's constants; all others are inputs of the first capture.
    small = [a for i in every if i not in used and (a := call.array_at(i)).size <= 1]
    before_it = [a.astype(a.dtype) for a in small]
    state = state_of(partial(of or function, *objects_in(call)))
    try:
        shown = ir.capture_call(flat, *arrays)
        if not all(mx.array_equal(a, b) for a, b in zip(small, before_it, strict=True)):
            raise EffectError(_CHANGES_KEPT)
        if not state.is_as_it_was:
            raise EffectError(_CHANGES_KEPT)
    finally:
        state.restore()
        for array, value in zip(small, before_it, strict=True):
            array[...] = value
    result, returned = noted[-1]
    graph = shown.graph
    for place, output in shown.changed:
        before, after = graph.types[graph.inputs[place]], graph.types[graph.outputs[output]]
        if before != after:
            raise EffectError(
                f"the function changes an array in place from {before} to {after}; "
                "keep its shape and dtype, or give the result another name."
            )
    count = count_arrays(result)
    changed = tuple((place, output, returned[place] == output) for place, output in shown.changed)
    extra = {output: place for place, output in reversed(shown.changed) if output >= count}
    paths = [call.paths[i] for i in used]
    named = replace(graph, names=(*names, *paths))
    return _Shown(named, result, changed, tuple(extra[output] for output in sorted(extra)))


def objects_in(call: _Call) -> list[object]:
    """List the arguments that keep a state of their own, as the object of a method does."""
    args, kwargs = cast("tuple[tuple[object, ...], dict[str, object]]", call.arguments)
    given = [v for v in (*args, *kwargs.values()) if not isinstance(v, mx.array | list | tuple)]
    return [v for v in given if type(v) not in _DICTS and not _is_passed_record(v)]


def nest_of(arguments: object) -> tuple[object, ...]:
    """Return what changes when something in a list, dict or record is replaced, comes or goes."""
    if isinstance(arguments, mx.array):
        return (id(arguments),)
    if type(arguments) in _DICTS:
        return tuple(
            (key, nest_of(item)) for key, item in cast("dict[object, object]", arguments).items()
        )
    if isinstance(arguments, list | tuple):
        return (type(arguments), *map(nest_of, arguments))
    if _is_passed_record(arguments):
        # Reading a cached property changes nothing but how long the next reading takes.
        kind: type = type(arguments)
        cached = _cached_properties(kind)
        state = {n: v for n, v in _state_of(arguments).items() if n not in cached}
        return (type(arguments), nest_of(state))
    is_plain = isinstance(arguments, bool | int | float | str)
    return (repr(arguments) if is_plain else id(arguments),)


def _index(array: mx.array, results: Sequence[mx.array]) -> int:
    """Return which of the results is this very array; -1 where none is."""
    return next((i for i, r in enumerate(results) if r is array), -1)
