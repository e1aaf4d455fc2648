"""The numbers with which sums, differences and products of inputs meet a task's constants."""

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.draw import Random, Values
from kernelwright.ir.graph import Graph

_MOST_CONSTANTS = 8
_FARTHEST = 1e6
_TURN = 6
"""One row of so many holds them."""
_STEPS = (0.5, 1.0, 2.0, 4.0)


def constants_of(graph: Graph) -> tuple[float, ...]:
    """Return lone finite numbers of a graph other than zero, the largest of them last."""
    found = set[float]()
    for constant in graph.constant_of.values():
        array = np.asarray(constant.array)
        if array.size == 1 and array.dtype.kind in "fiu":
            found.add(abs(float(array.reshape(-1)[0])))
    usable = sorted(c for c in found if 0 < c <= _FARTHEST)
    return tuple(usable[-_MOST_CONSTANTS:])


def place_constants(values: Values, constants: tuple[float, ...], random: Random) -> None:
    """Fill some rows with each constant and its parts, column by column, in place."""
    if not constants or not values.ndim or not values.size:
        return
    table = np.array([_parts(constant) for constant in constants], np.float32)
    rows = values.reshape(-1, values.shape[-1])[::_TURN]
    turn = np.broadcast_to(np.arange(rows.shape[1]) % len(table), rows.shape)
    rows[...] = table[turn, random.integers(0, table.shape[1], rows.shape)]


def _parts(constant: float) -> NDArray[np.float64]:
    whole = (constant, -constant, constant / 2, constant**0.5, -(constant**0.5))
    return np.array([*whole, *(n for x in _STEPS for n in (x, constant - x))])
