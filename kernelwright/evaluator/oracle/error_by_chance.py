"""Errors of ops that have no rule: their operands are moved by chance."""

from collections.abc import Iterator, Sequence

import numpy as np

from kernelwright.evaluator.oracle.error_of_elements import distance_of
from kernelwright.evaluator.oracle.float_format import UNIT, Reals
from kernelwright.evaluator.oracle.tracked import ANYTHING
from kernelwright.ir.ops import Call, Op
from kernelwright.ir.ops.op import Array

_DRAWS, _LUCK = 6, 4.0


def errors_by_chance(
    op: Op,
    call: Call,
    values: Sequence[Array],
    errors: Sequence[Reals | None],
    made: Sequence[Array],
) -> Iterator[Reals | None]:
    """Move the operands of an op without a rule by chance, and allow more than what that does."""
    assert op.meaning is not None
    random = np.random.default_rng(0)
    worst = [np.zeros(m.shape) for m in made]
    for _ in range(_DRAWS):
        moved = [_shaken(v, e, random) for v, e in zip(values, errors, strict=True)]
        result = op.meaning(call, *moved)
        results = result if isinstance(result, tuple) else (result,)
        for place, (one, m) in enumerate(zip(results, made, strict=True)):
            worst[place] = np.maximum(worst[place], distance_of(np.asarray(one), m))
    return (_smoothed(w, m) for w, m in zip(worst, made, strict=True))


def _shaken(value: Array, error: Reals | None, random: np.random.Generator) -> Array:
    if value.dtype.kind != "f":
        return value
    size = 4 * UNIT * np.abs(value) + (0.0 if error is None else error)
    sign = random.choice(np.array([-1.0, 1.0]), value.shape)
    return np.where(np.isfinite(size), value + sign * size, value)


def _smoothed(worst: Reals, made: Array) -> Reals:
    if made.dtype.kind != "f":
        return np.where(worst > 0, ANYTHING, 0.0)
    finite = worst[np.isfinite(worst)]
    typical = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
    return _LUCK * np.maximum(worst, typical)
