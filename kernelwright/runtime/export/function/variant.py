"""One way of calling a function: its graph, the kernels of its regions, and their code."""

import enum
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import mlx.core as mx

from kernelwright import ir
from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph, Node, TensorType, ValueId
from kernelwright.ir.region import Region
from kernelwright.metal.device.array import to_numpy
from kernelwright.plan import partition
from kernelwright.runtime.code_names import _cached_properties
from kernelwright.runtime.cutting import is_whole_better, wholes_of
from kernelwright.runtime.effect import ImpureError, check_same_calls
from kernelwright.runtime.enumeration import _enumerations_of, _own_members_inside
from kernelwright.runtime.export.function.dispatch import (
    _DICTS,
    _Call,
    _is_passed_record,
    _is_record,
    _leaves,
    _original,
    _Slots,
    _state_of,
)
from kernelwright.runtime.export.function.literal import is_literal, literal
from kernelwright.runtime.export.function.read_names import NamesRead, reading, without
from kernelwright.runtime.export.reference_code import (
    LAUNCH,
    is_printable,
    launching_source,
    printable,
)
from kernelwright.runtime.state import state_of
from kernelwright.store import CandidateDetail

_Dict = dict[object, object]
Lookup = Callable[[Sequence[Graph]], Mapping[str, Sequence[CandidateDetail]]]
"""Takes tasks' graphs; returns the kernels of each by its fingerprint, the best of a chip first."""


_CHANGES_KEPT = (
    "the function changes what it keeps; compute that once, in __init__ or at the top of its file, "
    "or make it an argument and a result."
)


class EffectError(UnsupportedError):
    """A function changes something besides its arguments, which kernels do not."""


class ResultError(UnsupportedError):
    """A function returns what no export can make again."""


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


@dataclass(frozen=True)
class Variant:
    """What serves a call on a chip."""

    traced: Traced
    kernels: Mapping[Region, CandidateDetail]
    chip: str

    @property
    def argument_types(self) -> tuple[TensorType, ...]:
        """Return the types of the arrays that a call passes, also within objects."""
        traced = self.traced
        direct = len(traced.graph.inputs) - len(traced.slots)
        return traced.graph.input_types[: direct + traced.passed]

    @property
    def regions(self) -> int:
        """How many regions there are, with kernels and without."""
        return len(self.traced.regions)


@dataclass(frozen=True)
class _Place:
    """Stands for an array of a result."""

    index: int


@dataclass(frozen=True)
class _Made:
    """Stands for an object of a dataclass, or a kind of dict, in a result."""

    kind: type
    content: Mapping[object, object]
    factory: object = None
    """What a `defaultdict` makes of a key that it lacks."""


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
        noted.append((_places(made), [_index(a, _leaves(made)) for a in arrays]))
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
    count = _count(result)
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
        return tuple((key, nest_of(item)) for key, item in cast("_Dict", arguments).items())
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


def _count(result: object) -> int:
    """Count the arrays of a result whose arrays are places."""
    if isinstance(result, _Place):
        return 1
    if isinstance(result, _Made):
        result = result.content
    inner = result.values() if isinstance(result, Mapping) else result
    return (
        sum(map(_count, inner)) if isinstance(inner, Iterable) and not isinstance(inner, str) else 0
    )


def _places(result: object) -> object:
    """Replace the arrays of a result by their places."""
    count = iter(range(1_000_000))

    def visit(value: object) -> object:
        if isinstance(value, mx.array):
            return _Place(next(count))
        if type(value) is dict:
            return {name: visit(item) for name, item in value.items()}
        if isinstance(value, OrderedDict | defaultdict) and type(value) in _DICTS:
            held = {name: visit(item) for name, item in value.items()}
            return _Made(type(value), held, _factory_of(value))
        if isinstance(value, tuple) and hasattr(value, "_make"):
            return type(value)._make(map(visit, value))
        if type(value) is tuple:
            return tuple(map(visit, value))
        if type(value) is list:
            return list(map(visit, value))
        if _is_record(value):
            return _Made(type(value), {n: visit(item) for n, item in _state_of(value).items()})
        if value is None or is_literal(value) or isinstance(value, enum.Enum):
            return value
        raise ResultError(
            f"the function returns an object of {type(value).__name__}, expected arrays in "
            "tuples, lists, dicts and dataclasses; return one of these, or make "
            f"{type(value).__name__} a dataclass."
        )

    return visit(result)


def _factory_of(value: object) -> object:
    """Return what a dict makes of keys that it lacks; a class of Python's own, or nothing."""
    factory = getattr(value, "default_factory", None)
    if factory is None or (isinstance(factory, type) and factory.__module__ == "builtins"):
        return factory
    raise ResultError(
        "the function returns a defaultdict with a factory of its own; return a dict, as dict(…) "
        "makes it."
    )


def is_one_array(result: object) -> bool:
    """Say whether a result is an array by itself."""
    return isinstance(result, _Place)


def nest_source(result: object, name_of: Callable[[type], str]) -> str:
    """Return a lambda that puts results into the function's nest.

    Args:
        result: its arrays are places.
        name_of: says what a class is called in the module.
    """

    def nest(value: object) -> str:
        if isinstance(value, _Place):
            return f"r[{value.index}]"
        if isinstance(value, _Made):
            content = nest(dict(value.content))
            if value.kind is OrderedDict:
                return f"collections.OrderedDict({content})"
            if value.kind is defaultdict:
                factory = getattr(value.factory, "__name__", None)
                return f"collections.defaultdict({factory}, {content})"
            return f"_record({name_of(value.kind)}, {content})"
        if isinstance(value, enum.Enum):
            is_named = value.name in type(value).__members__
            member = f".{value.name}" if is_named else f"({value.value!r})"
            return f"{name_of(type(value))}{member}"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{k!r}: {nest(v)}' for k, v in value.items())}}}"
        if isinstance(value, list):
            return f"[{', '.join(map(nest, value))}]"
        if isinstance(value, tuple):
            inner = ", ".join(map(nest, value))
            if hasattr(value, "_make"):
                return f"{name_of(type(value))}({inner})"
            return f"({inner}{',' if len(value) == 1 else ''})"
        return literal(value)

    return f"lambda *r: {nest(result)}"


def choose(
    traced: Traced, lookup: Lookup, *, admits: Callable[[CandidateDetail], bool]
) -> list[Variant]:
    """Return a variant for each chip that a region has a kernel for.

    What has no kernel for the chip itself takes one of another chip, as chips without any do.
    """
    tasks = dict(zip(traced.regions, traced.tasks, strict=True))
    wholes = wholes_of(traced.graph, traced.regions)
    tasks |= {whole: whole.extract() for whole in wholes}
    found = lookup(list(tasks.values()))
    chips: dict[str, dict[Region, CandidateDetail]] = {}
    for region, task in tasks.items():
        for detail in found.get(task.fingerprint, ()):
            if admits(detail):
                chip = detail.evaluations[0].evaluation.device.chip
                chips.setdefault(chip, {}).setdefault(region, detail)
    known = list(chips.values())
    return [
        _variant(traced, {r: k for o in [*known[::-1], own] for r, k in o.items()}, chip, wholes)
        for chip, own in chips.items()
    ]


def _variant(
    traced: Traced, found: Mapping[Region, CandidateDetail], chip: str, wholes: Sequence[Region]
) -> Variant:
    """Take the kernel of the whole graph or those of its parts, whichever are faster."""
    parts = {region: found.get(region) for region in traced.regions}
    verdicts = {r: d.evaluations[0].evaluation if d else None for r, d in parts.items()}
    for whole in (w for w in wholes if w in found):
        if is_whole_better(found[whole].evaluations[0].evaluation, verdicts, traced.graph):
            return Variant(replace(traced, regions=(whole,)), {whole: found[whole]}, chip)
    return Variant(traced, {r: d for r, d in parts.items() if d is not None}, chip)


def with_launches(variant: Variant, functions: Mapping[str, str]) -> Graph:
    """Return a variant's graph with a launch in the place of each region that has a kernel.

    Args:
        variant: whose graph.
        functions: the name of the launching function of each program, by its id.
    """
    graph = variant.traced.graph
    region_of = {i: region for region in variant.kernels for i in region.indices}
    waiting: list[Node] = []
    for index, node in enumerate(graph.nodes):
        region = region_of.get(index)
        if region is None:
            waiting.append(node)
        elif index == region.indices[0]:
            function = functions[variant.kernels[region].candidate.program_id]
            waiting.append(Node(LAUNCH, region.inputs, region.outputs, (("function", function),)))
    ready = {*graph.inputs, *graph.constant_of}
    ordered: list[Node] = []
    while waiting:
        fits = [n for n in waiting if ready.issuperset(n.inputs)]
        # One at a time keeps the order of the function's own lines.
        first = fits[0]
        waiting.remove(first)
        ordered.append(first)
        ready.update(first.outputs)
    return evaluated_constants(printable(_without_dead(replace(graph, nodes=tuple(ordered)))))


def evaluated_constants(graph: Graph) -> Graph:
    """Return a graph with what no input reaches as constants, where MLX code cannot say it."""
    known = set(graph.constant_of)
    before: list[Node] = []
    for node in graph.nodes:
        if node.op != LAUNCH and known.issuperset(node.inputs):
            known.update(node.outputs)
            before.append(node)
    if not any(not is_printable(node.op) for node in before):
        return graph
    read = {v for n in graph.nodes if n not in before for v in n.inputs}.union(graph.outputs)
    wanted = tuple(v for n in before for v in n.outputs if v in read)
    alone = replace(graph, inputs=(), names=(), nodes=tuple(before), outputs=wanted)
    with mx.stream(mx.cpu):
        arrays = ir.interpret(_without_dead(alone))
    made = tuple(
        (v, ir.Constant.of(to_numpy(a), graph.types[v].dtype))
        for v, a in zip(wanted, arrays, strict=True)
    )
    rest = tuple(n for n in graph.nodes if n not in before)
    return _without_dead(replace(graph, nodes=rest, constants=(*graph.constants, *made)))


def _without_dead(graph: Graph) -> Graph:
    live, kept = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if live.intersection(node.outputs):
            live.update(node.inputs)
            kept.append(node)
    constants = tuple((v, c) for v, c in graph.constants if v in live)
    return replace(graph, nodes=tuple(reversed(kept)), constants=constants)


def path_source(graph: Graph, name: str, summary: str, data: Mapping[ValueId, str]) -> str:
    """Return the function that computes a variant with kernels."""
    return launching_source(graph, name, summary, data)


def large_constants(graph: Graph) -> list[ValueId]:
    """List the constants that are not written into the code."""
    return [v for v, c in graph.constants if c.type.size > 16]


def described(types: Sequence[TensorType]) -> str:
    """Return types as on the command line."""
    return ", ".join(map(str, types))
