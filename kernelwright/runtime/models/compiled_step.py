"""A decode step of a whole model as one compiled function.

Answered module by module, a step is some calls of Python a layer; MLX replays a recorded function
of the same launches in a fraction of the time. Parameters and caches are arguments, so that both
may change from step to step.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, cast

import mlx.core as mx
from mlx.nn.layers.base import Module

from kernelwright.errors import UnsupportedError
from kernelwright.ir.trace.stitch import stitch
from kernelwright.runtime.derivative import Flat
from kernelwright.runtime.models.nest import Ref, fill, is_array, is_fixed, leaves, map_leaves
from kernelwright.runtime.models.recorded import Call
from kernelwright.runtime.models.rotary import counted
from kernelwright.runtime.models.route import Plan, bind
from kernelwright.runtime.models.shadow import call_inside, make_shadow, path_of
from kernelwright.runtime.models.site import own_method
from kernelwright.runtime.models.step_cache import growing, is_kept, is_plain, keeping
from kernelwright.runtime.models.straight_line import Run
from kernelwright.runtime.models.trace import TRACING
from kernelwright.runtime.models.tree import Path, array_paths, at

_MOST_RECORDED = 16
"""Lengths of caches, each of which has a recording of its own."""


class _Kind(Enum):
    """What a leaf of the call is."""

    FIXED = 0
    ARRAY = 1
    PLAIN = 2
    KEPT = 3


class _Leaf(NamedTuple):
    kind: _Kind
    value: object = None
    """What is fixed; the shape of an array; how many arrays a cache numbers."""


@dataclass(frozen=True)
class StepCall:
    """What a step is called with: kinds in the place of arrays and caches."""

    template: tuple[tuple[_Leaf, ...], dict[str, _Leaf]]

    @classmethod
    def of(cls, args: tuple[object, ...], kwargs: Mapping[str, object]) -> "StepCall":
        """Describe a call.

        Raises:
            UnsupportedError: it is given what no array can stand for.
        """
        return cls(map_leaves((args, dict(kwargs)), _leaf))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Answer:
    """A plan that answers a method of the module at a path."""

    path: Path
    method: str
    plan: Plan


class CompiledStep:
    """Answers calls like one of a model's; others, and what cannot be recorded, run as before."""

    def __init__(
        self,
        model: Module,
        call: StepCall,
        answers: Sequence[Answer],
    ) -> None:
        """Record at the first call, for each length of the caches.

        Raises:
            UnsupportedError: a part's kernels need the values of arrays, or a module has several.
        """
        self._model = model
        self._call = call
        self._leaves = cast("list[_Leaf]", leaves(call.template))
        self._answers = tuple(replace(one, plan=_without_derivatives(one.plan)) for one in answers)
        self._derived = tuple(answers)
        whole = next((bind(one.plan, model) for one in answers if not one.path), None)
        self._apart = whole or _own_call(model)
        if len({(one.path, one.method) for one in answers}) < len(answers):
            raise UnsupportedError("a module is called in several ways within a step.")
        paths = array_paths(model)
        self._held = [(cast("dict[object, mx.array]", at(model, p[:-1])), p[-1]) for p in paths]
        self._recorded: dict[tuple[int, ...], Flat] = {}
        self._result: object = None
        self._recording = threading.local()
        self.problem = ""
        """Why it cannot be recorded; empty while it can."""

    def __call__(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """Return what the model returns, and leave its caches as it does."""
        flat = leaves((args, kwargs if type(kwargs) is dict else dict(kwargs)))
        arrays: list[mx.array] = []
        lengths: list[int] = []
        offset: int | None = None
        for leaf, (kind, value) in zip(flat, self._leaves, strict=True):
            if kind is _Kind.ARRAY:
                if leaf.shape != value:  # type: ignore[attr-defined]
                    return self._apart(args, kwargs)
                arrays.append(cast("mx.array", leaf))
            elif kind is _Kind.PLAIN:
                keys, at_ = leaf.keys, leaf.offset  # type: ignore[attr-defined]
                length = 0 if keys is None else keys.shape[2]
                if at_ >= length or (offset is not None and offset != at_):
                    return self._apart(args, kwargs)
                offset = at_
                lengths.append(length)
                arrays += (keys, leaf.values)  # type: ignore[attr-defined]
            elif kind is _Kind.KEPT:
                arrays += leaf.cache  # type: ignore[attr-defined]
        if offset is not None:
            arrays += (counted(offset), counted(offset + 1))
        arrays += [holder[key] for holder, key in self._held]
        run = self._recorded.get(tuple(lengths)) or self._record(tuple(lengths), arrays)
        if run is None:
            return self._apart(args, kwargs)
        made = run(*arrays)
        # What a step reads may be overwritten once nobody else holds it.
        del arrays
        return self._handed_out(flat, made)

    def _handed_out(self, flat: Sequence[object], made: list[mx.array]) -> object:
        """Let caches keep what the step made of them; return the rest."""
        end = len(made)
        for leaf, (kind, _) in zip(reversed(flat), reversed(self._leaves), strict=True):
            if kind is _Kind.PLAIN:
                end -= 2
                leaf.keys, leaf.values = made[end : end + 2]  # type: ignore[attr-defined]
                leaf.offset += 1  # type: ignore[attr-defined]
            elif kind is _Kind.KEPT:
                count = len(leaf.cache)  # type: ignore[attr-defined]
                end -= count
                leaf.cache[:] = made[end : end + count]  # type: ignore[attr-defined]
        return fill(self._result, made)  # type: ignore[arg-type]

    def _record(self, lengths: tuple[int, ...], arrays: Sequence[mx.array]) -> Flat | None:
        """Record the step for caches of these lengths; None where that fails."""
        if self.problem:
            return None
        compiled = cast("Flat", mx.compile(lambda *given: self._run(given)))
        self._recording.is_on = True
        try:
            with TRACING:
                compiled(*[mx.zeros(array.shape, array.dtype) for array in arrays])
        except Exception as e:
            # The model's own code may do anything with what stands for its caches.
            self.problem = f"{type(e).__name__}: {e}"
            return None
        finally:
            self._recording.is_on = False
        if len(self._recorded) >= _MOST_RECORDED:
            self._recorded.clear()
        self._recorded[lengths] = compiled
        return compiled

    def _run(self, arrays: Sequence[mx.array]) -> list[mx.array]:
        """Run the step in a copy of the model that holds the arrays given."""
        first = len(arrays) - len(self._held)
        given, parameters = iter(arrays[:first]), iter(arrays[first:])
        # The last arguments, where there is a cache that counts.
        counts = arrays[first - 2 : first]
        caches: list[Callable[[], Sequence[mx.array]]] = []

        def stand_in(leaf: object) -> object:
            assert type(leaf) is _Leaf
            if leaf.kind is _Kind.ARRAY:
                return next(given)
            if leaf.kind is _Kind.PLAIN:
                grown = growing((next(given), next(given)), *counts)
                caches.append(lambda: (grown.keys, grown.values))
                return grown
            if leaf.kind is _Kind.KEPT:
                kept = keeping([next(given) for _ in range(cast("int", leaf.value))])
                caches.append(lambda: cast("list[mx.array]", kept.cache))
                return kept
            return leaf.value

        args, kwargs = cast("Call", map_leaves(self._call.template, stand_in))
        shadow = make_shadow(self._model, parameters, self)
        is_recorded = getattr(self._recording, "is_on", False)
        self._recording.runs = {}
        for one in self._answers if is_recorded else self._derived:
            module = cast("Module", at(shadow.module, one.path))
            run = bind(one.plan, module)
            if one.method == "__call__":
                self._recording.runs[one.path] = run
            else:
                shadow.put(module, one.method, _called(run))
        made = self.child(shadow.module, args, kwargs)
        if not shadow.is_unchanged:
            raise UnsupportedError("the model changes what it keeps.")
        outputs: list[mx.array] = []

        def leave(leaf: object) -> object:
            if is_array(leaf):
                outputs.append(leaf)
                return Ref(len(outputs) - 1)
            if is_fixed(leaf):
                return leaf
            raise UnsupportedError("the model returns something that is no array.")

        self._result = map_leaves(made, leave)
        return [*outputs, *(array for cache in caches for array in cache())]

    def child(self, shadow: Module, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Answer a call of a module inside by its plan, or by its own code."""
        run: Run | None = self._recording.runs.get(path_of(shadow))
        if run is not None:
            return run(args, kwargs)
        return call_inside(shadow, "__call__", self)(*args, **kwargs)

    def function(self, original: Callable[..., object]) -> Callable[..., object]:
        """Return a function of mlx-lm as it is."""
        return original

    def rope(self, x: mx.array, *args: object, **kwargs: object) -> object:
        """Answer a call of `mx.fast.rope`, whose offset may be an array."""
        return mx.fast.rope(x, *args, **kwargs)  # type: ignore[arg-type]


def _leaf(leaf: object) -> _Leaf:
    if is_array(leaf):
        return _Leaf(_Kind.ARRAY, leaf.shape)
    if is_plain(leaf):
        return _Leaf(_Kind.PLAIN)
    if is_kept(leaf):
        return _Leaf(_Kind.KEPT, len(leaf.cache))  # type: ignore[attr-defined]
    if is_fixed(leaf):
        return _Leaf(_Kind.FIXED, leaf)
    raise UnsupportedError(f"no array stands for a {type(leaf).__name__} of the call.")


def _own_call(model: Module) -> Run:
    own = own_method(model, "__call__")
    return lambda args, kwargs: own(model, *args, **kwargs)


def _called(run: Run) -> Callable[..., object]:
    return lambda *args, **kwargs: run(args, kwargs)


def _without_derivatives(plan: Plan) -> Plan:
    """Return a plan whose graphs are not to be differentiated: that costs two launches each."""
    if not all(service.is_lazy for _, service in plan.services if service.programs):
        raise UnsupportedError("kernels of the step need the values of arrays.")
    steps = tuple(
        replace(step, run=stitch(step.service.graph, step.service.replacements))
        for step in plan.steps
    )
    return replace(plan, steps=steps)
