"""Gives kernels the derivatives of what they replace; part of every export."""

# The text is read by people who have no use for generic arguments and casts.
# mypy: ignore-errors

from collections.abc import Callable, Sequence

import mlx.core as mx

from kernelwright.runtime.export.function.passed_call import _Call, _leaves
from kernelwright.runtime.export.function.passed_nest import _rebuilt


def _original(
    function: Callable,
    call: _Call,
    slots: Sequence[tuple[dict, object]],
    shown: Sequence[int] = (),
) -> Callable:
    """Return `function` as one of arrays alone: those of the arguments, then of the slots.

    Its results are followed by the arrays that are `shown`, as the function leaves them.
    """
    count = len(call.arrays)

    def flat(*arrays: mx.array) -> list[mx.array]:
        before = [holder[key] for holder, key in slots]
        for (holder, key), array in zip(slots, arrays[count:], strict=True):
            holder[key] = array
        try:
            args, kwargs = _rebuilt(call.arguments, iter(arrays[:count]))
            made = _leaves(function(*args, **kwargs))
            return [*made, *(arrays[place] for place in shown)]
        finally:
            for (holder, key), array in zip(slots, before, strict=True):
                holder[key] = array

    return flat


def _listed(value: object) -> list:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _is_inexact(array: mx.array) -> bool:
    return mx.issubdtype(array.dtype, mx.inexact)


def _of_some(original: Callable, primals: Sequence[mx.array], places: Sequence[int]) -> Callable:
    """Return the function of the arrays at some places, with the others as they are."""

    def of_some(*given: mx.array) -> list[mx.array]:
        arrays = list(primals)
        for place, array in zip(places, given, strict=True):
            arrays[place] = array
        return original(*arrays)

    return of_some


def _differentiable(run: Callable, original: Callable) -> Callable:
    """Give kernels, which have no derivatives of their own, those of the original."""

    @mx.custom_function
    def served(*arrays: mx.array) -> list[mx.array]:
        return run(*arrays)

    @served.vjp
    def _(primals: object, cotangents: object, outputs: object) -> list[mx.array]:
        primals, cotangents = _listed(primals), _listed(cotangents)
        places = [i for i, array in enumerate(primals) if _is_inexact(array)]
        inner = _of_some(original, primals, places)
        wanted = [c for c, r in zip(cotangents, _listed(outputs), strict=True) if _is_inexact(r)]

        def apart(*given: mx.array) -> list[mx.array]:
            # Of an array that is returned twice, mx.vjp takes one cotangent (MLX 0.32.4).
            return [mx.contiguous(r) for r in inner(*given) if _is_inexact(r)]

        made = iter(mx.vjp(apart, [primals[i] for i in places], wanted)[1])
        return [next(made) if i in places else mx.zeros_like(p) for i, p in enumerate(primals)]

    @served.jvp
    def _(primals: object, tangents: object) -> list[mx.array]:
        primals, tangents = _listed(primals), _listed(tangents)
        # The others' tangent is None; zeros would not do: MLX derives nothing along indices.
        places = [i for i, tangent in enumerate(tangents) if tangent is not None]
        inner = _of_some(original, primals, places)
        return mx.jvp(inner, [primals[i] for i in places], [tangents[i] for i in places])[1]

    @served.vmap
    def _(inputs: object, axes: object) -> tuple[list[mx.array], list[int]]:
        along = tuple(None if axis is None or axis < 0 else axis for axis in _listed(axes))
        mapped = mx.vmap(lambda *arrays: tuple(original(*arrays)), in_axes=along)
        made = list(mapped(*_listed(inputs)))
        return made, [0] * len(made)

    return served
