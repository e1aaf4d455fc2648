"""Kernels that differentiate as the function whose place they take."""

from collections.abc import Callable, Sequence

import mlx.core as mx

Flat = Callable[..., list[mx.array]]
"""Takes and returns arrays only."""


Gradient = Callable[[list[mx.array], list[mx.array]], list[mx.array]]
"""Takes a function's arguments and the cotangents of its results; returns the arguments' own."""


def gradient_of(original: Flat) -> Gradient:
    """Return the gradient that MLX derives; that of integers, such as indices, is zero."""

    def gradient(primals: list[mx.array], cotangents: list[mx.array]) -> list[mx.array]:
        places = [i for i, a in enumerate(primals) if mx.issubdtype(a.dtype, mx.inexact)]

        def of_floats(*floats: mx.array) -> list[mx.array]:
            given = list(primals)
            for place, array in zip(places, floats, strict=True):
                given[place] = array
            # Of an array that is returned twice, mx.vjp takes one cotangent (MLX 0.32.4).
            return [mx.contiguous(made) for made in original(*given)]

        found = [mx.zeros_like(a) for a in primals]
        made = mx.vjp(of_floats, [primals[i] for i in places], cotangents)[1]
        for place, array in zip(places, made, strict=True):
            found[place] = array
        return found

    return gradient


def with_derivatives_of(
    original: Flat, run: Flat, gradient: Gradient | None = None, *, is_lazy: bool = True
) -> Flat:
    """Return `run` with the vjp, jvp and vmap of `original`, which MLX knows how to derive.

    MLX's custom kernels have none of their own. A `gradient` takes the place of the vjp. A `run`
    that is not lazy needs its arrays' values: where a transformation has none, the original runs.
    """
    derived = gradient or gradient_of(original)

    @mx.custom_function
    def served(*arrays: mx.array) -> list[mx.array]:
        return (run if is_lazy or have_values(arrays) else original)(*arrays)

    @served.vjp
    def _(primals: object, cotangents: object, outputs: object) -> list[mx.array]:
        return derived(_listed(primals), _listed(cotangents))

    @served.jvp
    def _(primals: object, tangents: object) -> list[mx.array]:
        return _jvp(original, _listed(primals), _listed(tangents))

    @served.vmap
    def _(inputs: object, axes: int | list[int]) -> tuple[list[mx.array], list[int]]:
        along = [axes] if isinstance(axes, int) else axes
        in_axes = tuple(None if a is None or a < 0 else a for a in along)
        mapped = mx.vmap(lambda *arrays: tuple(original(*arrays)), in_axes=in_axes)
        made = mapped(*_listed(inputs))
        return list(made), [0] * len(made)

    return served  # type: ignore[return-value]


def _jvp(
    original: Flat, primals: list[mx.array], tangents: Sequence[mx.array | None]
) -> list[mx.array]:
    """Return MLX's jvp along the arrays that have a tangent; the others' is None and counts as 0.

    They are left out, and not given zeros: MLX derives nothing along indices, even by zero.
    """
    places = [i for i, tangent in enumerate(tangents) if tangent is not None]

    def of_moving(*moving: mx.array) -> list[mx.array]:
        given = list(primals)
        for place, array in zip(places, moving, strict=True):
            given[place] = array
        return original(*given)

    moves = [tangent for tangent in tangents if tangent is not None]
    return mx.jvp(of_moving, [primals[i] for i in places], moves)[1]


def have_values(arrays: Sequence[mx.array]) -> bool:
    """Say whether arrays can be evaluated; what `vmap` and `compile` trace with cannot."""
    try:
        mx.eval(arrays)
    except ValueError:
        return False
    return True


def _listed(value: object) -> list[mx.array]:
    return list(value) if isinstance(value, list | tuple) else [value]  # type: ignore[list-item]
