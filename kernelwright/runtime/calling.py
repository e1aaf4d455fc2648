"""The original as a function of arrays alone, and kernels in its place."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import compress
from threading import RLock
from typing import cast

import mlx.core as mx

from kernelwright import ir
from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.trace.refusal import check_returns_results
from kernelwright.ir.trace.tracing import is_capturing
from kernelwright.runtime.call import flatten, rebuild
from kernelwright.runtime.derivative import Flat, Gradient, with_derivatives_of
from kernelwright.runtime.effect import check_same_calls, refusing_effects
from kernelwright.runtime.replica import replica_of
from kernelwright.runtime.state import Slot, holding, state_of

Function = Callable[..., object]
Arguments = tuple[tuple[object, ...], dict[str, object]]


@dataclass
class Calling:
    """Takes the arrays of the arguments, then those of the slots; notes the nest of its result."""

    function: Function
    like: Arguments
    slots: tuple[Slot, ...]
    types: tuple[tuple[object, ...], ...]
    """Shapes and dtypes of all its arrays."""
    result: object = None
    live: tuple[Slot, ...] = ()
    """Where the arrays of a call come from; `slots` are those of a copy, which tracing fills."""
    lock: RLock = field(default_factory=RLock)

    def run(self, *arrays: mx.array) -> list[mx.array]:
        """Call the function, one thread at a time: its slots hold the call's arrays meanwhile."""
        with self.lock:
            return self._run(arrays)

    def _run(self, arrays: tuple[mx.array, ...]) -> list[mx.array]:
        count = len(arrays) - len(self.slots)
        call = rebuild(self.like, list(arrays[:count]))
        args, kwargs = cast("Arguments", call)
        given, state = _identities(call), arrays[count:]
        with holding(self.slots, state), refusing_effects() if is_capturing() else nullcontext():
            made = self.function(*args, **kwargs)
            if any(s.get() is not a for s, a in zip(self.slots, state, strict=True)):
                raise UnsupportedError("the function replaces arrays that it keeps.")
        if _identities(call) != given:
            raise UnsupportedError("the function changes a list or dict that it was given.")
        flat = flatten(made)
        if flat is None:
            raise UnsupportedError("the function returns something that is no array.")
        if self.result is None:
            # Only the nest is wanted: arrays of a trace must not outlive it.
            self.result = rebuild(made, [mx.array(0)] * len(flat.arrays))
        return flat.arrays

    def run_and_show(self, *arrays: mx.array) -> list[mx.array]:
        """Call the original and return also what became of its arrays."""
        return [*self.run(*arrays), *arrays]

    def served_by(
        self, kernels: Flat, gradient: Gradient, *, is_plain: bool, is_lazy: bool
    ) -> Function:
        """Return the kernels as a function like the original, with the original's derivatives.

        Whatever can be is recorded once: MLX compares shapes faster than Python does.
        """
        slots, expected = self.live, self.types
        fitting = with_derivatives_of(self.run, kernels, gradient, is_lazy=is_lazy)

        def served(*arrays: mx.array) -> list[mx.array]:
            # A parameter may have another shape by now; this is asked when MLX records the call.
            return (fitting if _types(arrays) == expected else self.run)(*arrays)

        if is_plain and isinstance(self.result, mx.array):
            single = _recorded(lambda *arrays: served(*arrays)[0], is_lazy=is_lazy)
            if not slots:
                return single
            return lambda *args: single(*args, *[slot.get() for slot in slots])
        flat = _recorded(served, is_lazy=is_lazy)

        def run(*args: object, **kwargs: object) -> object:
            given = flatten((args, kwargs))
            assert given is not None
            made = flat(*given.arrays, *[slot.get() for slot in slots])
            return rebuild(self.result, list(made))  # type: ignore[call-overload]

        return run


def name_of(function: Function) -> str:
    """Return what people call a function."""
    return getattr(function, "__qualname__", type(function).__name__)


def captured(
    function: Function, like: Arguments, arrays: Sequence[mx.array]
) -> tuple[Calling, Graph]:
    """Trace a function with everything that it reads as inputs.

    Raises:
        KernelwrightError: no kernel may take its place; a sentence says why.
    """
    check_returns_results(function, name_of(function))
    state = state_of(function)
    if not state.is_whole:
        raise UnsupportedError("the function reads an array from a tuple; keep it in a list.")
    # Other threads call the function meanwhile: placeholders go into copies of what it keeps.
    traced = replica_of(function)
    slots = tuple(state_of(traced).slots)
    if len(slots) != len(state.slots):
        raise UnsupportedError("the function keeps arrays where no copy of them can be made.")
    # The arrays themselves may belong to a trace of MLX's that is under way, a gradient's.
    like = rebuild(like, list(arrays))  # type: ignore[assignment]
    kept = [mx.zeros(a.shape, a.dtype, stream=mx.cpu) for a in state.arrays]
    with holding(slots, kept):
        every = [*arrays, *kept]
        first = Calling(traced, like, slots, _types(every))
        graph = _traced(first, first.run_and_show, every)
        results, after = graph.outputs[: -len(every)], graph.outputs[-len(every) :]
        if after != graph.inputs:
            raise UnsupportedError("the function changes an array in place that others may see.")
        read = {v for node in graph.nodes for v in node.inputs}.union(results)
        is_used = [v in read for v in graph.inputs[len(arrays) :]]
        every = [*arrays, *compress(kept, is_used)]
        second = Calling(traced, like, tuple(compress(slots, is_used)), _types(every))
        before, graph = graph, _traced(second, second.run, every)
        check_same_calls((before, first.result), (graph, second.result))
    second.live = tuple(compress(state.slots, is_used))
    return second, ir.canonicalize(graph)


def _identities(value: object) -> tuple[object, ...]:
    """Return what changes when an array in a nest is replaced, or comes or goes."""
    flat = flatten(value)
    return () if flat is None else (*map(id, flat.arrays), *flat.key)


def _traced(calling: Calling, run: Function, arrays: Sequence[mx.array]) -> Graph:
    before = state_of(calling.function)

    def traced(*arrays: mx.array) -> object:
        return run(*arrays)

    # What goes wrong is said of the user's function.
    traced.__qualname__ = name_of(calling.function)
    try:
        graph = ir.capture(traced, *arrays)
        if not before.is_as_it_was:
            raise UnsupportedError("the function changes what it keeps.")
    finally:
        before.restore()
    if any(ir.op_named(node.op).kind is ir.Kind.RANDOM for node in graph.nodes):
        raise UnsupportedError(
            "the function draws random numbers (mx.random), which no kernel does; draw them "
            "outside of it and pass the array as an argument."
        )
    return graph


def _types(arrays: Sequence[mx.array]) -> tuple[tuple[object, ...], ...]:
    return tuple((a.shape, a.dtype) for a in arrays)


def _recorded(function: Function, *, is_lazy: bool) -> Function:
    return mx.compile(function) if is_lazy else function
