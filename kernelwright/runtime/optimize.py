"""`kernelwright.optimize`: a function that runs verified kernels where there are some."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from typing import ParamSpec, TypeVar

import mlx.core as mx

from kernelwright import ir
from kernelwright.errors import KernelwrightError
from kernelwright.ir.graph import Graph
from kernelwright.ir.stitch import stitch
from kernelwright.metal.device.base import DeviceName
from kernelwright.runtime.call import Key, flatten, plain_key, rebuild
from kernelwright.runtime.demand import save_at_exit, without_weights
from kernelwright.runtime.derivative import Flat, with_derivatives_of
from kernelwright.runtime.explanation import Explanation
from kernelwright.runtime.server import KernelServer, Service
from kernelwright.store import KernelStore, Wanted

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class _Route:
    """How calls of one key are answered."""

    run: Callable[..., object]
    explanation: Explanation
    graph: Graph | None = None


class Optimized:
    """A function that dispatches by shapes and dtypes; what is unknown runs the original.

    Gradients, `vmap` and `jvp` through it are MLX's own.
    """

    def __init__(self, function: Callable[..., object], server: KernelServer) -> None:
        self.function = function
        self._server = server
        self._routes: dict[Key, _Route] = {}
        self._calls: Counter[Key] = Counter()
        self._saved: Counter[Key] = Counter()
        save_at_exit(self)
        update_wrapper(self, function)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the kernels, or the original."""
        route = self._route(args, kwargs)
        return route.run(*args, **kwargs)

    def explain(self, *args: object, **kwargs: object) -> Explanation:
        """Say what runs for these arguments, why, and what it saves."""
        key = _key(args, kwargs)
        route = self._route(args, kwargs)
        calls = self._calls[key] - 1 if key is not None else 0
        return route.explanation.model_copy(update={"calls": max(calls, 0)})

    def wanted(self) -> tuple[Wanted, ...]:
        """Return the calls that no kernel could serve, the most frequent first."""
        return self._wanted(self._calls)

    def save_wanted(self, *, busy_timeout_s: float = 10.0, must_exist: bool = False) -> int:
        """Add the wanted calls since the last time to the store; return how many.

        It happens by itself when the interpreter exits, where there is a store.

        Raises:
            StoreError: the store cannot be written, or is missing although it `must_exist`.
        """
        counted = self._calls.copy()
        wanted = self._wanted(counted - self._saved)
        if not wanted:
            return 0
        url = self._server.url
        with KernelStore(url, must_exist=must_exist, busy_timeout_s=busy_timeout_s) as store:
            store.want(wanted)
        self._saved = counted
        return sum(call.calls for call in wanted)

    def _wanted(self, calls: Mapping[Key, int]) -> tuple[Wanted, ...]:
        rows = [
            _wanted_call(route.explanation, without_weights(route.graph), calls[key])
            for key, route in self._routes.items()
            if route.explanation.path == "original" and route.graph is not None and calls[key]
        ]
        return tuple(sorted(rows, key=lambda w: (-w.calls, w.fingerprint)))

    def _route(self, args: tuple[object, ...], kwargs: dict[str, object]) -> _Route:
        key = _key(args, kwargs)
        if key is None:
            return self._original((), "an argument is neither an array nor a plain value", None)
        self._calls[key] += 1
        route = self._routes.get(key)
        if route is None:
            route = self._routes[key] = self._find(args, kwargs)
        return route

    def _find(self, args: tuple[object, ...], kwargs: dict[str, object]) -> _Route:
        flat = flatten((args, kwargs))
        assert flat is not None
        types = tuple(_type(a) for a in flat.arrays)
        calling = _Calling(self.function, (args, kwargs))
        try:
            zeros = [mx.zeros(a.shape, a.dtype, stream=mx.cpu) for a in flat.arrays]
            graph = ir.canonicalize(ir.capture(calling.run, *zeros))
        except KernelwrightError as e:
            return self._original(types, str(e), None)
        service = self._server.serve(ir.gather_attention(graph))
        if not service.programs:
            return self._original(types, service.reason, graph)
        served = with_derivatives_of(calling.run, _stitched(service))

        def run(*args: object, **kwargs: object) -> object:
            given = flatten((args, kwargs))
            assert given is not None
            return rebuild(calling.result, list(served(*given.arrays)))

        plain = all(type(a) is mx.array for a in args) and not kwargs
        single = isinstance(calling.result, mx.array)
        if plain and single:
            # The common case, without walking through arguments and results.
            def run(*args: object, **kwargs: object) -> object:
                return served(*args)[0]

        explanation = self._explanation(types, service.reason, "kernels")
        return _Route(run, explanation.model_copy(update={"regions": service.regions}), graph)

    def _original(self, types: tuple[str, ...], reason: str, graph: Graph | None) -> _Route:
        explanation = self._explanation(types, f"the original runs: {reason}", "original")
        return _Route(self.function, explanation, graph)

    def _explanation(self, types: tuple[str, ...], reason: str, path: str) -> Explanation:
        return Explanation.model_validate(
            {"function": _name(self.function), "inputs": types, "path": path, "reason": reason}
        )


@dataclass
class _Calling:
    """The original as a function of arrays alone, which notes the nest of its result."""

    function: Callable[..., object]
    like: tuple[tuple[object, ...], dict[str, object]]
    result: object = None

    def run(self, *arrays: mx.array) -> list[mx.array]:
        args, kwargs = rebuild(self.like, list(arrays))  # type: ignore[misc]
        made = self.function(*args, **kwargs)  # type: ignore[has-type]
        flat = flatten(made)
        if flat is None:
            raise KernelwrightError("the function returns something that is no array.")
        if self.result is None:
            self.result = made
        return flat.arrays


def _stitched(service: Service) -> Flat:
    """Record the launches once, where the device lets MLX do it."""
    run = stitch(service.graph, service.programs)
    compiled: Flat = mx.compile(run) if service.is_lazy else run
    return compiled


def _wanted_call(explanation: Explanation, graph: Graph, calls: int) -> Wanted:
    return Wanted(
        function=explanation.function,
        fingerprint=graph.fingerprint,
        inputs=explanation.inputs,
        calls=calls,
        graph_json=graph.to_json(),
    )


def _key(args: tuple[object, ...], kwargs: dict[str, object]) -> Key | None:
    if not kwargs and (key := plain_key(args)) is not None:
        return key
    flat = flatten((args, kwargs))
    return tuple(flat.key) if flat is not None else None


def _type(array: mx.array) -> str:
    dtype = ir.Dtype.parse(str(array.dtype).rpartition(".")[2])
    return str(ir.TensorType(tuple(array.shape), dtype))


def _name(function: Callable[..., object]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def optimize(
    function: Callable[P, R] | None = None,
    *,
    store: str | None = None,
    device: DeviceName | None = None,
) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function of MLX arrays run the store's verified kernels.

    Use it as `@kernelwright.optimize`, `@kernelwright.optimize(store=…)` or
    `optimize(model.forward)`. At each new combination of shapes and dtypes the function is
    traced once, and its regions are looked up in the store by fingerprint and chip. What has
    no fresh champion runs the original; nothing ever raises because a kernel is missing.

    Args:
        function: takes and returns arrays, nested in tuples, lists and dicts.
        store: a path or SQLAlchemy URL; the default store otherwise.
        device: where kernels run; this machine's GPU by default. `simulator` is for tests.
    """
    server = KernelServer(store, device)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        return Optimized(function, server)  # type: ignore[return-value]

    return decorate if function is None else decorate(function)


def explain(function: Callable[..., object], *args: object, **kwargs: object) -> Explanation:
    """Say what a call of an optimized function runs, why, and what it saves."""
    if not isinstance(function, Optimized):
        raise KernelwrightError(
            f"expected a function made by kernelwright.optimize, found {function!r}."
        )
    return function.explain(*args, **kwargs)
