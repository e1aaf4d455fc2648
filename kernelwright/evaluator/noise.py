"""What float32 rounding alone does to an answer, where cancellation makes much of it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.accuracy import Yardstick, measure, row_scale
from kernelwright.ir.graph import Graph
from kernelwright.ir.reference import reference
from kernelwright.metal.device.base import Array

_DRAWS = 4
_LUCK = 4.0
"""How much further than the worst draw another sound order of operations may go."""

Reals = NDArray[np.float64]


def forgiving(
    graph: Graph, inputs: Sequence[Array], yardsticks: Sequence[Yardstick]
) -> tuple[Yardstick, ...]:
    """Widen what a case allows to what any float32 arithmetic may do on its inputs.

    The graph is evaluated with every result rounded to float32 up or down by chance (as in
    stochastic arithmetic, J. Vignes 1993). Where outputs then move further than MLX happened
    to err, as `1 - sigmoid(x)` does for large x, the bound was luck.
    """
    random = np.random.default_rng(0)

    def rounded(values: Reals) -> Reals:
        return rounded_by_chance(values, random)

    arrays = cast("list[Reals]", list(inputs))
    draws = [reference(graph, arrays, rounded=rounded) for _ in range(_DRAWS)]
    return tuple(
        _widened(yardstick, [draw[place] for draw in draws])
        for place, yardstick in enumerate(yardsticks)
    )


def rounded_by_chance(values: Reals, random: np.random.Generator) -> Reals:
    """Round to one of the two float32 neighbours; what float32 holds stays as it is."""
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = values.astype(np.float32)
    beyond = np.nextafter(nearest, np.where(values > nearest, np.inf, -np.inf), dtype=np.float32)
    chosen = np.where(random.random(values.shape) < 0.5, nearest, beyond)
    exact = (nearest == values) | ~np.isfinite(nearest) | ~np.isfinite(beyond)
    return np.where(exact, values, chosen).astype(np.float64)


def _widened(yardstick: Yardstick, draws: Sequence[Array]) -> Yardstick:
    if not yardstick.type.dtype.is_float:
        return yardstick
    expected = yardstick.expected.astype(np.float64)
    loose = replace(yardstick, bound=np.inf, slack=np.full(expected.shape, np.inf))
    with np.errstate(over="ignore"):
        outputs = [draw.astype(yardstick.type.dtype.numpy) for draw in draws]
    deviations = [measure(output, loose) for output in outputs]
    bound = max(yardstick.bound, _LUCK * max(d.row_relative for d in deviations))
    scale = row_scale(expected)
    errors = np.max([d.error for d in deviations if d.error is not None], axis=0, initial=0.0)
    shares = np.divide(errors, scale, out=np.zeros_like(scale), where=scale > 0)
    slack = np.asarray(_LUCK * float(shares.max(initial=0.0)) * scale)
    if yardstick.slack is not None:
        slack = np.maximum(slack, yardstick.slack)
    return replace(yardstick, bound=bound, slack=slack)
