"""`kernelwright.optimize`: a function that runs verified kernels where there are some."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import update_wrapper
from pathlib import Path
from types import MethodType
from typing import ParamSpec, TypeVar, cast

import mlx.core as mx

from kernelwright import ir
from kernelwright.errors import InputError, KernelwrightError
from kernelwright.ir.graph import Graph
from kernelwright.ir.trace.stitch import stitch
from kernelwright.ir.trace.tracing import is_capturing
from kernelwright.ir.trace.value_look import is_without_values
from kernelwright.metal.device.base import METAL_THREADGROUP_BYTES, DeviceName
from kernelwright.metal.device.threadgroup_memory import MOST_THREADGROUP_BYTES
from kernelwright.public_call import check_types, one_sentence
from kernelwright.runtime.backward import Backward, Note
from kernelwright.runtime.bucket import Buckets, is_harmless, through
from kernelwright.runtime.call import Key, flatten, plain_key
from kernelwright.runtime.calling import captured, name_of
from kernelwright.runtime.code_names import _is_module
from kernelwright.runtime.demand import save_at_exit, without_weights
from kernelwright.runtime.explanation import Explanation
from kernelwright.runtime.guard import State
from kernelwright.runtime.method import method_of
from kernelwright.runtime.registry import LoadedCall, registry
from kernelwright.runtime.server import KernelServer, Service
from kernelwright.runtime.state import state_of
from kernelwright.runtime.timed import Timed
from kernelwright.store import KernelStore, Wanted

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M")
_MOST_STATES = 8
"""Of what a function reads, for which kernels are looked up; more means that it always changes."""
_UNCOMPARED = "what the function reads cannot be compared at each call"
_CHANGES = "what the function reads besides its arguments keeps changing"
_UNCHECKED = "padding cannot be checked while MLX traces; call it once outside of that"


@dataclass(slots=True)
class Route:
    """How calls of one key are answered."""

    run: Callable[..., object]
    explanation: Explanation
    graph: Graph | None = None
    calls: int = 0
    timed: Timed | None = None
    """What calls take, where that is asked for."""
    is_guarded: bool = False
    """True where kernels run: what the function reads has to be what it was."""
    constants: tuple[str, ...] = ()
    """The call's plain values, as they are written in a call."""

    def time_calls(self, *, is_timed: bool) -> None:
        """Begin or cease to time calls; what was timed is kept."""
        if self.timed is None:
            self.timed = Timed(self.run)
        self.run = self.timed if is_timed else self.timed.run


class Optimized:
    """A function that dispatches by shapes and dtypes; what is unknown runs the original.

    Gradients, `vmap` and `jvp` through it are MLX's own.
    """

    def __init__(
        self,
        function: Callable[..., object],
        server: KernelServer,
        buckets: Buckets | None = None,
    ) -> None:
        self.function = function
        self._buckets = buckets
        self._server = server
        self._state: State | None = None
        self._states: list[tuple[State, dict[Key, Route]]] = []
        self._routes: dict[Key, Route] = {}
        """Those of what the function reads now."""
        self._saved: Counter[Key] = Counter()
        self._modules = state_of(function).modules
        save_at_exit(self)
        registry.add(self)
        update_wrapper(self, function)

    @property
    def __kernelwright_original__(self) -> Callable[..., object]:
        """The function that was given to `optimize`; see `annotation.original_of`."""
        return self.function

    def __get__(self, instance: object, owner: type | None = None) -> "Optimized":
        """Return the method of one object, where the function stands in a class."""
        bind = getattr(self.function, "__get__", None)
        bound = bind(instance, owner) if bind is not None else None
        if not isinstance(bound, MethodType) or bound.__func__ is not self.function:
            return self
        return method_of(instance, self, lambda: Optimized(bound, self._server, self._buckets))

    def __reduce__(self) -> str | tuple[object, ...]:
        """Pickle by reference, as Python does functions and methods."""
        if isinstance(self.function, MethodType):
            return getattr, (self.function.__self__, self.function.__name__)
        return self.function.__qualname__

    def __copy__(self) -> "Optimized":
        """Return itself, as of a function."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> "Optimized":
        """Return itself, as of a function; a copied object's method is a method of the copy."""
        if not isinstance(self.function, MethodType):
            return self
        return getattr(deepcopy(self.function.__self__, memo), self.function.__name__)  # type: ignore[no-any-return]

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the kernels, or the original."""
        if is_capturing():
            # What is captured may become a kernel as a whole; one within it could not.
            return self.function(*args, **kwargs)
        if kwargs:
            route = self._route(args, kwargs)
        else:
            # The common case, arrays alone, without a call of Python's that can be saved.
            try:
                key = tuple([v for a in args for v in (a.shape, hash(a.dtype))])  # type: ignore[attr-defined]
                route = self._routes[key + self._flags() if self._modules else key]
            except (AttributeError, KeyError, TypeError):
                route = self._route(args, kwargs)
        if route.is_guarded and not self._state.holds():  # type: ignore[union-attr]
            route = self._route(args, kwargs)
        route.calls += 1
        return route.run(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{name_of(self.function)}, optimized by kernelwright>"

    def explain(self, *args: object, **kwargs: object) -> Explanation:
        """Say what runs for these arguments, why, and what it saves."""
        route = self._route(args, kwargs)
        return route.explanation.model_copy(update={"calls": route.calls})

    def wanted(self) -> tuple[Wanted, ...]:
        """Return the calls that no kernel could serve, the most frequent first."""
        return self._wanted(self._calls())

    def save_wanted(self, *, busy_timeout_s: float = 10.0, must_exist: bool = False) -> int:
        """Add the wanted calls since the last time to the store; return how many.

        It happens by itself when the interpreter exits, where there is a store.

        Raises:
            StoreError: the store cannot be written, or is missing although it `must_exist`.
        """
        counted = self._calls()
        wanted = self._wanted(counted - self._saved)
        if not wanted:
            return 0
        url = self._server.url
        with KernelStore(url, must_exist=must_exist, busy_timeout_s=busy_timeout_s) as store:
            store.want(wanted)
        self._saved = counted
        return sum(call.calls for call in wanted)

    def _calls(self) -> Counter[Key]:
        return Counter({key: route.calls for key, route in self._all_routes()})

    def _all_routes(self) -> list[tuple[Key, Route]]:
        """List the routes of every state, each with a key of its own."""
        spaces = [routes for _, routes in self._states]
        return [((i, *key), r) for i, space in enumerate(spaces) for key, r in list(space.items())]

    def _wanted(self, calls: Mapping[Key, int]) -> tuple[Wanted, ...]:
        rows = [
            _wanted_call(route.explanation, without_weights(route.graph), calls[key])
            for key, route in self._all_routes()
            if route.explanation.path == "original" and route.graph is not None and calls[key]
        ]
        return tuple(sorted(rows, key=lambda w: (-w.calls, w.fingerprint)))

    def _route(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Route:
        key = _key(args, kwargs)
        if key is None:
            return self._original((), "an argument is neither an array nor a plain value", None)
        if self._state is None or not self._state.holds():
            self._look_around()
        route = self._routes.get((*key, *self._flags()))
        if route is None:
            # A function may name a module that was made after it.
            self._modules = state_of(self.function).modules
            route, is_kept = self._found(args, kwargs)
            if is_kept:
                self._routes[(*key, *self._flags())] = route
            route.constants = _constants(args, kwargs)
            if registry.is_timing:
                route.time_calls(is_timed=True)
        return route

    def _look_around(self) -> None:
        """Find what the function reads now, and the routes for that."""
        state = State(self.function)
        known = (pair for pair in self._states if pair[0].identity == state.identity)
        _, routes = next(known, (state, {}))
        self._states = [pair for pair in self._states if pair[1] is not routes]
        self._states.append((state, routes))
        self._state, self._routes = state, routes

    def loaded(self) -> tuple[LoadedCall, ...]:
        """Return a row for each combination of shapes and dtypes that it was called with."""
        rows = [(route, route.explanation, route.timed) for _, route in self._all_routes()]
        return tuple(
            LoadedCall(
                function=told.function,
                inputs=told.inputs,
                constants=route.constants,
                path=told.path,
                reason=told.reason,
                kernels=tuple(region.candidate for region in told.regions),
                calls=route.calls,
                timed_calls=timed.calls if timed else 0,
                time_s=timed.seconds if timed and timed.calls else None,
            )
            for route, told, timed in rows
        )

    def time_calls(self, *, is_timed: bool) -> None:
        """Begin or cease to time calls; what is timed is evaluated at once."""
        for _, route in self._all_routes():
            route.time_calls(is_timed=is_timed)

    def _found(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Route, bool]:
        """Return the route of a call, and whether it is that of others like it."""
        try:
            return self._find(args, kwargs), True
        except Exception as e:
            # Whatever fails here would be the original's to say, or nobody's; in a transformation
            # of the caller's arrays have no values, and in the next call they may have some.
            words = f"looking it up failed: {type(e).__name__}: {e}"
            return self._original((), words, None), not is_without_values(e)

    def _flags(self) -> tuple[bool, ...]:
        return tuple(module.training for module in self._modules)

    def _find(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Route:
        flat = flatten((args, kwargs))
        assert flat is not None
        types = tuple(_type(a) for a in flat.arrays)
        state = self._state
        assert state is not None
        if len(self._states) > _MOST_STATES:
            return self._original(types, _CHANGES, None)
        if state.obstacle:
            return self._original(types, f"{_UNCOMPARED} ({state.obstacle})", None)
        zeros = [mx.zeros(a.shape, a.dtype, stream=mx.cpu) for a in flat.arrays]
        try:
            calling, graph = captured(self.function, (args, kwargs), zeros)
        except KernelwrightError as e:
            return self._original(types, str(e), None)
        if place := _constant_of(graph, state.arrays_besides(state_of(self.function).slots)):
            words = f"it reads the array {place}, which is no argument, global or attribute"
            return self._original(types, f"{words}; keep it in one", None)
        service = self._server.serve(ir.gather_attention(graph))
        if not service.programs:
            exact = self._original(types, service.reason, graph)
            return exact if self._buckets is None or kwargs else self._padded(args, exact)
        explanation = self._explanation(types, service.reason, "kernels")
        route = Route(
            self.function, explanation.model_copy(update={"regions": service.regions}), graph
        )
        gradient = Backward(calling.run, calling.slots, self._server, self._noting(route))
        is_plain = all(type(a) is mx.array for a in args) and not kwargs
        route.run = calling.served_by(
            stitch(service.graph, service.replacements),
            gradient,
            is_plain=is_plain,
            is_lazy=service.is_lazy,
        )
        route.is_guarded = True
        return route

    def _padded(self, args: tuple[object, ...], exact: Route) -> Route:
        """Serve a call by the kernels of a larger size, or note that these are wanted."""
        assert self._buckets is not None
        buckets, extent = self._buckets, self._buckets.extent(args)
        size = None if extent is None else buckets.size_for(extent)
        if extent is None or size is None:
            return exact
        try:
            harmless = is_harmless(buckets, self.function, args)
        except ValueError:
            return self._original(exact.explanation.inputs, _UNCHECKED, exact.graph)
        if not harmless:
            words = f"padding to {size} changes what it computes"
            return self._original(exact.explanation.inputs, words, exact.graph)
        whole = self._route(buckets.padded(args, size), {})
        words = f"padded from {extent} to {size}: {whole.explanation.reason}"
        told = whole.explanation.model_copy(update={"reason": words})
        run = whole.run
        if told.path == "kernels":
            run = through(buckets, run, size, extent)
        return Route(run, told, whole.graph, is_guarded=whole.is_guarded)

    def _noting(self, route: Route) -> Note:
        """Return what hears how a call's gradient is computed; one in vain is wanted, too."""

        def note(graph: Graph | None, service: Service | None, reason: str) -> None:
            is_served = service is not None and bool(service.programs)
            words = reason if is_served else f"MLX's own: {reason}"
            route.explanation = route.explanation.model_copy(update={"gradient": words})
            if not is_served and graph is not None:
                name = f"{name_of(self.function)}.vjp"
                types = tuple(map(str, graph.input_types))
                told = self._explanation(types, words, "original")
                told = told.model_copy(update={"function": name})
                key = ("vjp", *types)
                self._routes[key] = Route(self.function, told, graph, calls=1)

        return note

    def _original(self, types: tuple[str, ...], reason: str, graph: Graph | None) -> Route:
        explanation = self._explanation(types, f"the original runs: {reason}", "original")
        return Route(self.function, explanation, graph)

    def _explanation(self, types: tuple[str, ...], reason: str, path: str) -> Explanation:
        return Explanation.model_validate(
            {"function": name_of(self.function), "inputs": types, "path": path, "reason": reason}
        )


def _constant_of(graph: Graph, arrays: Sequence[tuple[str, mx.array]]) -> str:
    """Name an array that may have become a constant of a graph; nothing where none did."""
    types = {str(constant.type) for _, constant in graph.constants}
    return next((name for name, array in arrays if _type(array) in types), "")


def _wanted_call(explanation: Explanation, graph: Graph, calls: int) -> Wanted:
    return Wanted(
        function=explanation.function,
        fingerprint=graph.fingerprint,
        inputs=explanation.inputs,
        calls=calls,
        graph_json=graph.to_json(),
    )


def _constants(args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[str, ...]:
    given = [("", value) for value in args] + [(f"{n}=", v) for n, v in kwargs.items()]
    plain = (str, int, float, complex, bool, type(None))
    return tuple(f"{name}{value!r}" for name, value in given if isinstance(value, plain))


def _key(args: tuple[object, ...], kwargs: dict[str, object]) -> Key | None:
    if not kwargs and (key := plain_key(args)) is not None:
        return key
    flat = flatten((args, kwargs))
    return tuple(flat.key) if flat is not None else None


def _type(array: mx.array) -> str:
    dtype = ir.Dtype.parse(str(array.dtype).rpartition(".")[2])
    return str(ir.TensorType(tuple(array.shape), dtype))


def optimize(
    function: Callable[P, R] | None = None,
    *,
    store: str | Path | None = None,
    device: DeviceName | None = None,
    buckets: Sequence[int] | None = None,
    axis: int = 0,
    padded: Sequence[int] = (0,),
    threadgroup_bytes: int = METAL_THREADGROUP_BYTES,
    warm: bool = False,
) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function of MLX arrays run the store's verified kernels.

    Use it as `@kernelwright.optimize`, `@kernelwright.optimize(store=…)` or `optimize(model)`: an
    `mlx.nn.Module` is changed in place and returned, see `restore`. At each new combination of
    shapes and dtypes the function is traced once, and its regions are looked up in the store by
    fingerprint and chip. What has no fresh champion runs the original; nothing ever raises because
    a kernel is missing. With `KERNELWRIGHT=off` in the environment everything is MLX's.

    Args:
        function: takes and returns arrays, nested in tuples, lists and dicts.
        store: a path or SQLAlchemy URL; the default store otherwise.
        device: where kernels run; this machine's GPU by default. `simulator` is for tests.
        buckets: sizes to which a varying one, such as a sequence's length, may be padded with
            zeros. Each is checked at its first use: where padding changes a result, the original
            runs.
        axis: which axis varies.
        padded: places of the positional arguments that have it.
        threadgroup_bytes: the limit of threadgroup memory that kernels were searched with, such as
            98304 after `kernelwright search --threadgroup-memory 96K`. Kernels found under another
            limit are left out; where the GPU has less, as on a Mac, the original runs.
        warm: let a language model decode some steps now, so that no first token waits until
            kernels are tried and compiled.

    Raises:
        InputError: it is neither a function nor a model, or no language model is to be warmed.
    """
    if function is not None and (not callable(function) or isinstance(function, type)):
        found = f"the class {function.__name__}" if isinstance(function, type) else repr(function)
        raise InputError(
            f"expected a function of MLX arrays or an mlx.nn.Module, found {found}; "
            "give kernelwright.optimize the function, or an object of the class."
        )
    given = {"store": store, "device": device, "buckets": buckets, "axis": axis, "padded": padded}
    check_types(optimize, {**given, "threadgroup_bytes": threadgroup_bytes, "warm": warm})
    _check_places(store, threadgroup_bytes)
    server = KernelServer(None if store is None else str(store), device, threadgroup_bytes)
    if _is_module(function):
        if (buckets, axis, tuple(padded)) != (None, 0, (0,)):
            raise InputError(
                "expected buckets, axis and padded with a function alone, found them with the "
                f"model {type(function).__name__}; leave them out: a model's parts have kernels "
                "for the sizes that it is called with."
            )
        from kernelwright.runtime.models.install import optimize_model
        from kernelwright.runtime.models.loaded import LoadedModel

        optimize_model(function, server)  # type: ignore[arg-type]
        if not server.is_off:
            registry.add_model(LoadedModel(function))
        if warm and not server.is_off:
            from kernelwright.runtime.models.warming import warm_up

            warm_up(function)  # type: ignore[arg-type]
        return function  # type: ignore[return-value]
    if warm:
        raise InputError(
            f"expected a language model with warm=True, found {function!r}; a function is traced "
            "at its first call, so call it once yourself."
        )
    sizes = None if buckets is None else Buckets.of(buckets, axis, padded)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        return Optimized(function, server, sizes)  # type: ignore[return-value]

    return decorate if function is None else decorate(function)


def _check_places(store: str | Path | None, threadgroup_bytes: int) -> None:
    """Refuse a store without a name, and a limit that no device has."""
    if store is not None and not str(store).strip():
        raise InputError(
            f"expected store to be a path or a URL, found {store!r}; leave it out for the default."
        )
    if not METAL_THREADGROUP_BYTES <= threadgroup_bytes <= MOST_THREADGROUP_BYTES:
        raise InputError(
            f"expected threadgroup_bytes from {METAL_THREADGROUP_BYTES} to "
            f"{MOST_THREADGROUP_BYTES}, found {threadgroup_bytes}; give the limit that kernels "
            "were searched with."
        )


@one_sentence
def restore(model: M) -> M:
    """Give a model that `optimize` changed its own code back, and return it.

    Of an optimized function, return the function that it was made of.

    Raises:
        InputError: it is neither.
    """
    from kernelwright.runtime.models.install import restore_model

    if isinstance(model, Optimized):
        return cast("M", model.function)
    if not _is_module(model):
        raise InputError(
            "expected an mlx.nn.Module, or a function made by kernelwright.optimize, found "
            f"{model!r}."
        )
    restore_model(model)  # type: ignore[arg-type]
    return model


@one_sentence
def explain(function: Callable[..., object], *args: object, **kwargs: object) -> Explanation:
    """Say what a call of an optimized function or model runs, why, and what it saves.

    A model is called with the arguments, if there are some, and its parts are listed.
    """
    if _is_module(function):
        from kernelwright.runtime.models.install import explain_model

        reason = explain_model(function, args, kwargs)  # type: ignore[arg-type]
        name = type(function).__name__
        path = "original" if reason.startswith("MLX runs") else "kernels"
        return Explanation.model_validate(
            {"function": name, "inputs": (), "path": path, "reason": reason}
        )
    if not isinstance(function, Optimized):
        raise InputError(
            "expected a model, or a function made by kernelwright.optimize, elementwise, rowwise "
            f"or kernel, found {function!r}."
        )
    return function.explain(*args, **kwargs)
