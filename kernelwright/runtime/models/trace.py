"""One trace of a module's call: what it computes, and what it leaves to state in between."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import mlx.core as mx
from mlx.nn.layers.base import Module

from kernelwright import ir
from kernelwright.errors import KernelwrightError, UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.trace.random_state import kept_random_state
from kernelwright.runtime.models.call_order import In, Out, State, reordered
from kernelwright.runtime.models.nest import (
    Ref,
    array_types,
    is_array,
    is_fixed,
    leaves,
    map_leaves,
)
from kernelwright.runtime.models.recorded import (
    ArrayType,
    Call,
    CallKind,
    OpaqueCall,
    Results,
    Trace,
    result_types,
    type_of,
)
from kernelwright.runtime.models.recurrent import KeptArrays, kept_arrays
from kernelwright.runtime.models.rotary import position, rotated
from kernelwright.runtime.models.shadow import call_inside, make_shadow, path_of, rotates
from kernelwright.runtime.models.token import Token, kind_of, place_of, refuse
from kernelwright.runtime.models.translated import NAMES as TRANSLATED
from kernelwright.runtime.models.translated import Translation
from kernelwright.runtime.models.tree import Path, array_paths, at, submodules

TRACING = threading.RLock()
"""MLX's tracer turns compilation off for the whole process while it runs."""


def trace_call(
    module: Module,
    method: str,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    results: Results,
    translation: Translation | None = None,
    *,
    holds_rope: bool = False,
) -> Trace:
    """Trace a call without touching the module; state goes through as it is.

    What is given state, and has no modules inside, is called as it is; so is all that is given
    state where tracing through fails. Rotary embeddings are steps of their own, unless the graph
    is to hold them.

    Raises:
        KernelwrightError: nothing may take the call's place; a sentence says why.
    """
    call = (args, dict(kwargs))
    by = translation or Translation(None)
    with TRACING, kept_random_state():
        try:
            deep = _Recording(module, method, call, results, by, is_deep=True)
            deep.holds_rope = holds_rope
            return deep.trace()
        except Exception as e:
            if holds_rope or not any(not is_array(leaf) for leaf in leaves((args, dict(kwargs)))):
                raise _as_ours(e) from e
        try:
            return _Recording(module, method, call, results, by, is_deep=False).trace()
        except Exception as e:
            raise _as_ours(e) from e


def _as_ours(error: Exception) -> KernelwrightError:
    if isinstance(error, KernelwrightError):
        return error
    return UnsupportedError(f"the module cannot be traced: {type(error).__name__}: {error}")


class _Function:
    """What MLX traces; it has no `__dict__` in which weights could be found and computed."""

    __slots__ = ("__qualname__", "run")

    def __init__(self, run: Callable[[tuple[mx.array, ...]], list[mx.array]], name: str) -> None:
        self.run = run
        self.__qualname__ = name

    def __call__(self, *arrays: mx.array) -> list[mx.array]:
        return self.run(arrays)


@dataclass
class _Recording:
    """Runs the module's shadow and writes down what it leaves to state."""

    module: Module
    method: str
    call: Call
    results: Results
    translation: Translation
    is_deep: bool
    outputs: list[mx.array] = field(default_factory=list)
    calls: list[OpaqueCall] = field(default_factory=list)
    template: object = None
    result: object = None
    states: int = 0
    types: list[ArrayType] = field(default_factory=list)
    """Of the arrays that opaque calls return, in order."""
    widths: dict[int, int] = field(default_factory=dict)
    """The last axis of what a cache keeps, by the state's place."""
    kept: dict[int, KeptArrays] = field(default_factory=dict)
    """What caches of numbered arrays hold before the call, by the state's place."""
    written: dict[tuple[int, int], mx.array] = field(default_factory=dict)
    """What the call has put into them so far."""
    holds_rope: bool = False
    """Whether rotary embeddings are a part of the graph."""
    has_rope: bool = False
    turned: set[int] = field(default_factory=set)
    """Places among the outputs of what the graph turns: where it ends otherwise, so that what
    stands before is written alike either way."""
    numbers: set[int] = field(default_factory=set)
    """States that are whole numbers, by their place; those of others may be arrays."""
    counting: set[int] = field(default_factory=set)
    """Caches whose offset is a whole number."""
    offsets: dict[int, object] = field(default_factory=dict)
    """What was read of how far a cache is, by its place, until something changes the cache."""
    positions: dict[int, object] = field(default_factory=dict)
    """Offsets as arrays, by the place of the number."""
    _returned: Iterator[mx.array] | None = None
    _count: int = 0
    _arrived: int = 0
    """Arrays that opaque calls have returned so far."""

    def trace(self) -> Trace:
        """Run once to learn what opaque calls return, and once under MLX's tracer."""
        parameters = tuple(array_paths(self.module))
        given = [a for a in leaves(self.call) if isinstance(a, mx.array)]
        kept = [at(self.module, path) for path in parameters]
        known = [type_of(a).zeros() for a in (*given, *kept)]  # type: ignore[arg-type]
        self._count = len(known)
        with mx.stream(mx.cpu):
            self.run(tuple(known))
        arrays = [*known, *(type_.zeros() for type_ in self.types)]
        name = type(self.module).__name__
        raw = ir.capture(_Function(self.run, name), *arrays)
        if raw.outputs[len(raw.outputs) - len(arrays) :] != raw.inputs:
            raise UnsupportedError(f"{name} changes an array in place that others may see.")
        if any(ir.op_named(node.op).kind is ir.Kind.RANDOM for node in raw.nodes):
            raise UnsupportedError(f"{name} draws random numbers, which differ at every call.")
        graph = ir.gather_attention(ir.canonicalize(_without_tail(raw, len(arrays))))
        if not self.turned:
            return self._trace(graph, parameters)
        left = tuple(v for place, v in enumerate(graph.outputs) if place not in self.turned)
        return self._trace(ir.canonicalize(replace(graph, outputs=left)), parameters)

    def run(self, arrays: tuple[mx.array, ...]) -> list[mx.array]:
        """Run the shadow on arrays: the call's, the parameters, what opaque calls return."""
        self.outputs, self.calls, self.states, self.widths = [], [], 0, {}
        self.kept, self.written, self.offsets, self.positions = {}, {}, {}, {}
        self.has_rope, self.turned = False, set()
        self._arrived = 0
        self._returned = iter(arrays[self._count :]) if len(arrays) > self._count else None
        if self._returned is None:
            self.types = []
        given = iter(arrays)
        self.template, call = self._given(given)
        shadow = make_shadow(self.module, given, self)
        args, kwargs = call
        made = call_inside(shadow.module, self.method, self)(*args, **kwargs)
        if not shadow.is_unchanged:
            raise UnsupportedError("the module changes what it keeps.")
        self.result = self._handed_on(made)
        return [*self.outputs, *arrays]

    def _given(self, arrays: Iterator[mx.array]) -> tuple[object, Call]:
        places = iter(range(self._count))
        template = map_leaves(self.call, lambda leaf: self._place(leaf, places))
        call = map_leaves(
            self.call,
            lambda leaf: leaf if not is_array(leaf) else next(arrays),
        )
        tokens = iter(leaves(template))

        def fresh(leaf: object) -> object:
            place = next(tokens)
            if type(place) is not State:
                return leaf
            kept = kept_arrays(leaf)
            if kept is not None:
                self.kept[place.place] = kept
            if type(leaf) is int:
                self.numbers.add(place.place)
            elif _counts(leaf):
                self.counting.add(place.place)
            return Token(self, place.place, type(leaf))

        return template, map_leaves(call, fresh)  # type: ignore[return-value]

    def _place(self, leaf: object, places: Iterator[int]) -> object:
        if is_array(leaf):
            return In(next(places))
        return leaf if is_fixed(leaf) else self._new_state()

    def _new_state(self) -> State:
        self.states += 1
        return State(self.states - 1)

    def _handed_on(self, value: object) -> object:
        """Return a template of arrays and state that leave the graph."""
        # One array that stands in two places is one array for the caller.
        left: dict[int, Out] = {}

        def leave(leaf: object) -> object:
            if type(leaf) is Token:
                return State(place_of(leaf))
            if not is_array(leaf):
                if is_fixed(leaf) or type(leaf) in (int, float):
                    return leaf
                raise UnsupportedError("the module returns something that is no array.")
            if id(leaf) not in left:
                # A new handle: the module may change the array in place afterwards.
                self.outputs.append(leaf.reshape(leaf.shape))
                left[id(leaf)] = Out(len(self.outputs) - 1)
            return left[id(leaf)]

        return map_leaves(value, leave)

    def _came_back(self, types: object) -> tuple[object, object]:
        """Return what an opaque call gives, and its template."""

        def arrive(leaf: object) -> tuple[object, object]:
            if type(leaf) is ArrayType:
                place = self._count + self._arrived
                self._arrived += 1
                if self._returned is None:
                    self.types.append(leaf)
                    return leaf.zeros(), In(place)
                return next(self._returned), In(place)
            if isinstance(leaf, type):
                state = self._new_state()
                return Token(self, state.place, leaf), state
            return leaf, leaf

        found = [arrive(leaf) for leaf in leaves(types)]
        values, templates = iter(found), iter(found)
        return (
            map_leaves(types, lambda _: next(values)[0]),
            map_leaves(types, lambda _: next(templates)[1]),
        )

    def _opaque(
        self,
        kind: CallKind,
        target: object,
        name: str,
        call: Call,
        types: object,
    ) -> object:
        args, kwargs = (self._handed_on(part) for part in call)
        if kind not in ("attribute", "item"):
            for leaf in leaves((target, args, kwargs)):
                if type(leaf) is State:
                    self.offsets.pop(leaf.place, None)
        value, template = self._came_back(types)
        self.calls.append(OpaqueCall(kind, target, name, args, kwargs, template))  # type: ignore[arg-type]
        return value

    def child(self, shadow: Module, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Trace through a module inside, or leave it to itself where it is given state."""
        call = (args, kwargs)
        has_state = any(type(leaf) is Token for leaf in leaves(call))
        has_modules = next(iter(submodules(shadow)), None) is not None
        is_rope = self.holds_rope and rotates(shadow)
        if not has_state or is_rope or (self.is_deep and has_modules):
            return call_inside(shadow, "__call__", self)(*args, **kwargs)
        path = path_of(shadow)
        known = self.results.get((id(at(self.module, path)), "__call__", array_types(call)))
        if known is None:
            raise UnsupportedError(f"what {type(shadow).__name__} returns was not seen.")
        return self._opaque("module", path, "__call__", call, known)

    def attribute(self, token: Token, name: str) -> object:
        """Hand on an offset; let a cache take keys and values."""
        state = State(place_of(token))
        if name == "offset":
            return self._offset(state)
        if name == "update_and_fetch":
            return partial(self._update, state)
        kept = self.kept.get(state.place)
        if kept is not None and kept.is_plain:
            if name in ("lengths", "left_padding"):
                return None
            if name == "advance":
                # It counts what is not there.
                return lambda count: None
        raise UnsupportedError(f"the module looks at {name} of a {kind_of(token).__name__}.")

    def _offset(self, state: State) -> object:
        if state.place not in self.offsets:
            found = self._opaque("attribute", state, "offset", ((), {}), int)
            self.offsets[state.place] = found
            if state.place in self.counting:
                self.numbers.add(place_of(found))  # type: ignore[arg-type]
        return self.offsets[state.place]

    def rope(self, x: mx.array, *args: object, **kwargs: object) -> object:
        """Compute a rotary embedding in the graph, or leave it to MLX."""
        self.has_rope = True
        offset = kwargs.get("offset")
        if not self.holds_rope:
            made = type_of(x)
            return self._opaque("function", mx.fast.rope, "rope", ((x, *args), kwargs), made)
        if type(offset) is Token:
            place = place_of(offset)
            if place not in self.numbers:
                refuse("takes the array that is the offset of")
            if place not in self.positions:
                made = ArrayType((), mx.int32)
                found = self._opaque("function", position, "position", ((offset,), {}), made)
                self.positions[place] = found
            kwargs = {**kwargs, "offset": self.positions[place]}
        self.turned.add(len(self.outputs))
        self._handed_on(x)
        return rotated(x, *args, **kwargs)

    def item(self, token: Token, key: object) -> object:
        """Hand on an array that a cache keeps under a number."""
        place = place_of(token)
        kept = self.kept.get(place)
        if kept is None or type(key) is not int or not 0 <= key < len(kept.items):
            refuse("reads an item of")
        if (place, key) in self.written:
            return self.written[place, key]
        found = kept.items[key]
        if found is None:
            return None
        return self._opaque("item", State(place), str(key), ((), {}), ArrayType(*found))

    def set_item(self, token: Token, key: object, value: object) -> None:
        """Let a cache keep an array under a number."""
        place = place_of(token)
        kept = self.kept.get(place)
        if kept is None or type(key) is not int or not 0 <= key < len(kept.items):
            refuse("sets an item of")
        if not is_array(value):
            refuse("puts no array into")
        self.written[place, key] = value
        self._opaque("set_item", State(place), str(key), ((value,), {}), None)

    def _update(self, state: State, keys: mx.array, values: mx.array) -> object:
        made = self._opaque("method", state, "update_and_fetch", ((keys, values), {}), (list, list))
        fetched = made[1]  # type: ignore[index]
        self.widths[place_of(fetched)] = values.shape[-1]
        return made

    def function(self, original: Callable[..., object]) -> Callable[..., object]:
        """Return what stands for a function of mlx-lm while the module is traced."""
        if original.__name__ in TRANSLATED:
            return self._translated(original)

        def attention(*args: object, **kwargs: object) -> object:
            call = (args, kwargs)
            if not any(type(leaf) is Token for leaf in leaves(call)):
                return original(*args, **kwargs)
            query, value = args[0], args[2] if len(args) > 2 else kwargs.get("values")
            assert is_array(query)
            if type(value) is Token:
                width = self.widths.get(place_of(value))
            else:
                width = value.shape[-1] if is_array(value) else None
            if width is None:
                raise UnsupportedError("attention is given values that no cache fetched.")
            made = ArrayType((*query.shape[:-1], width), query.dtype)
            return self._opaque("function", original, "attention", call, made)

        return attention

    def _translated(self, original: Callable[..., object]) -> Callable[..., object]:
        """Leave a function with a kernel of its own to itself, where there is one."""
        other = self.translation.of(original)
        if other is original and not mx.metal.is_available():
            return original

        def update(*args: object, **kwargs: object) -> object:
            call = (args, kwargs)
            types = result_types(self.translation.as_ops(original)(*args, **kwargs))
            return self._opaque("function", other, original.__name__, call, types)

        return update

    def _trace(self, graph: Graph, parameters: tuple[Path, ...]) -> Trace:
        values = len(graph.types)

        def settled(leaf: object) -> object:
            if type(leaf) is Out:
                before = sum(place < leaf.place for place in self.turned)
                return Ref(graph.outputs[leaf.place - before])
            if type(leaf) is In:
                return Ref(graph.inputs[leaf.place])
            return Ref(values + leaf.place) if type(leaf) is State else leaf

        calls = tuple(
            OpaqueCall(
                c.kind,
                settled(c.target) if type(c.target) is State else c.target,
                c.name,
                map_leaves(c.args, settled),  # type: ignore[arg-type]
                map_leaves(c.kwargs, settled),  # type: ignore[arg-type]
                map_leaves(c.result, settled),
            )
            for c in reordered(self.calls)
        )
        call = map_leaves(self.template, settled)
        result = map_leaves(self.result, settled)
        places = values + self.states
        rotates = self.holds_rope and self.has_rope
        return Trace(graph, call, parameters, calls, result, places, rotates)  # type: ignore[arg-type]


def _counts(leaf: object) -> bool:
    """Say whether it is a cache of mlx-lm whose offset is one number."""
    is_known = type(leaf).__module__.startswith("mlx_lm.")
    return is_known and type(getattr(leaf, "offset", None)) is int


def _without_tail(graph: Graph, count: int) -> Graph:
    return replace(graph, outputs=graph.outputs[: len(graph.outputs) - count])
