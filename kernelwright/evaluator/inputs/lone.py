"""Rows whose extreme stands alone, in as many different columns as some launches allow."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.draw import Random
from kernelwright.evaluator.inputs.independence import Rows, rows_of
from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.base import Array

_ORDERED = frozenset({"max", "min", "argmax", "argmin", "any", "all"})
_MOST_PARTS = 32
_MOST_ELEMENTS = 1 << 20
"""Of all cases of lone extremes together."""
_LANES = 32
_MIDDLE, _APART = 100, 90


@dataclass(frozen=True)
class Sweep:
    """Which columns of an input hold the extremes of its rows, case by case."""

    rows: Rows
    columns: NDArray[np.intp]
    """All of them: the first, the last, one of each residue, then the others, by the secret."""

    def high(self, part: int) -> NDArray[np.intp]:
        """Return the column of each row's greatest element."""
        number = np.arange(self.rows.count) + part * self.rows.count
        return np.asarray(self.columns[number % len(self.columns)])

    def low(self, part: int) -> NDArray[np.intp]:
        """Return the column of each row's least element."""
        number = np.arange(self.rows.count) + part * self.rows.count + 1
        return np.asarray(self.columns[number % len(self.columns)])


def lone_parts(graph: Graph) -> int:
    """Return how many cases put extremes into columns of their own, none without such a task."""
    if not any(node.op in _ORDERED for node in graph.nodes):
        return 0
    swept = (_swept_rows(graph, place) for place in range(len(graph.inputs)))
    wanted = max((-(-r.length // r.count) for r in swept if r is not None), default=0)
    return min(wanted, _MOST_PARTS, max(_MOST_ELEMENTS // max(graph.element_count, 1), 1))


def sweep_of(graph: Graph, place: int, random: Random) -> Sweep | None:
    """Return in which order the columns of an input are swept, None if nothing compares them."""
    rows = _swept_rows(graph, place)
    if rows is None:
        return None
    others = random.permutation(rows.length)
    _, firsts = np.unique(others % _LANES, return_index=True)
    order = np.concatenate([[0, rows.length - 1], others[firsts], others])
    _, kept = np.unique(order, return_index=True)
    return Sweep(rows, order[np.sort(kept)])


def _swept_rows(graph: Graph, place: int) -> Rows | None:
    type_ = graph.input_types[place]
    if type_.size < 2 or type_.dtype is Dtype.COMPLEX64:
        return None
    rows = rows_of(graph, place) or Rows((), 1, type_.size, is_elementwise=False)
    return None if rows.is_elementwise or rows.length < 2 else rows


def lone_reals(sweep: Sweep, part: int, random: Random) -> NDArray[np.float32]:
    """Draw rows of small numbers with one great and one low number each."""
    row = np.arange(sweep.rows.count)
    values = random.standard_normal((len(row), sweep.rows.length), np.float32)
    values *= np.float32(0.01)
    values[row, sweep.low(part)] = -4.0 - random.random(len(row), np.float32)
    values[row, sweep.high(part)] = 8.0 + random.random(len(row), np.float32)
    return values


def lone_integers(sweep: Sweep, part: int, dtype: Dtype, random: Random) -> Array:
    """Draw rows of integers that lie close, with one great and one low one each."""
    middle = 0 if np.iinfo(dtype.numpy).min else _MIDDLE
    row = np.arange(sweep.rows.count)
    values = random.integers(middle - 3 * bool(middle), middle + 4, (len(row), sweep.rows.length))
    values[row, sweep.low(part)] = middle - _APART
    values[row, sweep.high(part)] = middle + _APART
    return np.asarray(values.astype(dtype.numpy))


def lone_flags(graph: Graph, sweep: Sweep, part: int) -> Array | None:
    """Return rows of which one flag differs: set for `any`, not set for `all`, by turns for both.

    None where the task asks neither.
    """
    ops = {node.op for node in graph.nodes}
    wanted = [flag for flag, op in ((True, "any"), (False, "all")) if op in ops]
    if not wanted:
        return None
    row = np.arange(sweep.rows.count)
    lone = np.array(wanted)[(row + part) % len(wanted)]
    values = np.repeat(~lone[:, None], sweep.rows.length, axis=1)
    values[row, sweep.high(part)] = lone
    return values
