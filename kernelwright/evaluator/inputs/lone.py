"""Rows whose extreme stands alone, in each of their columns in turn."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.draw import Random
from kernelwright.evaluator.inputs.independence import Rows, rows_of
from kernelwright.evaluator.inputs.mixed import shaped
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import op_named
from kernelwright.metal.device.executable import Array

_MOST_PARTS = 32
_MOST_ELEMENTS = 1 << 20
"""Of all cases of lone extremes together."""
_FEW_PARTS = 2
"""Cases of a task whose columns are swept besides."""
_LANES = 32
_MIDDLE, _APART = 100, 90
_LITERAL_FACTORS = (1, 2, 4, 8)
"""A number in a text may count vectors."""
_MOST_NAMED = 64


class Layer(StrEnum):
    """What an element of a swept input is."""

    GROUND = "ground"
    HIGH = "high"
    LOW = "low"


@dataclass(frozen=True)
class Sweep:
    """Which columns of an input hold the extremes of its rows, part by part."""

    rows: Rows
    columns: NDArray[np.intp]
    """All of them: the last, those that are named, the first, one of each residue, then the
    others, by the secret."""
    is_named: bool
    """All rows have their extremes in one column, else each row in another."""
    positions: NDArray[np.intp] = field(repr=False)
    """Where each row's columns lie in the flat input."""

    def high(self, part: int) -> NDArray[np.intp]:
        """Return where the greatest element of each row lies in the flat input."""
        return self._positions(part, 0)

    def low(self, part: int) -> NDArray[np.intp]:
        """Return where the least element of each row lies in the flat input."""
        return self._positions(part, 1)

    def _positions(self, part: int, ahead: int) -> NDArray[np.intp]:
        row, done = np.arange(self.rows.count), part * self.rows.count
        # A step more for each time that all columns have been met, so that rows meet others.
        number = np.full_like(row, part) if self.is_named else row + done + done // self.rows.length
        return np.asarray(self.positions[row, self.columns[(number + ahead) % len(self.columns)]])


def lone_parts(graph: Graph) -> int:
    """Return how many cases put extremes into columns of their own, none without such a task."""
    most = min(_MOST_PARTS, max(_MOST_ELEMENTS // max(graph.element_count, 1), 1))
    return min(parts_wanted(graph), _FEW_PARTS if is_swept(graph) else most)


def parts_wanted(graph: Graph) -> int:
    """Return in how many parts each column is the extreme of some row, zero without a task."""
    return max((-(-r.length // r.count) for r in _all_rows(graph)), default=0)


def longest_row(graph: Graph) -> int:
    """Return in how many parts each element is the extreme of its row once, zero without a task."""
    return max((rows.length for rows in _all_rows(graph)), default=0)


def _all_rows(graph: Graph) -> Iterator[Rows]:
    if any(op_named(node.op).behaviour.is_decided_by_one for node in graph.nodes):
        swept = (swept_rows(graph, place) for place in range(len(graph.inputs)))
        yield from (rows for rows in swept if rows is not None)


def is_swept(graph: Graph) -> bool:
    """Say whether outputs are so few beside the inputs that those of many parts can be kept."""
    inputs, outputs = (sum(t.size for t in ts) for ts in (graph.input_types, graph.output_types))
    return outputs * _LANES <= inputs or (outputs * 4 <= inputs and inputs < _MOST_ELEMENTS >> 6)


def turns(graph: Graph) -> int:
    """Return after how many parts the lone flags are of one kind again: `any` and `all` differ."""
    return max(len(_flags_wanted(graph)), 1)


def sweep_of(
    graph: Graph, place: int, random: Random, named: tuple[float, ...] = ()
) -> Sweep | None:
    """Return in which order the columns of an input are swept, None if nothing compares them.

    Columns of the numbers in `named` come first.
    """
    rows = swept_rows(graph, place)
    if rows is None:
        return None
    others = random.permutation(rows.length)
    _, firsts = np.unique(others % _LANES, return_index=True)
    last, first = np.array([rows.length - 1]), np.zeros(1, np.intp)
    order = [last, columns_named(named, rows.length), first, others[firsts], others]
    everything = np.concatenate(order)
    _, kept = np.unique(everything, return_index=True)
    positions = _positions(rows, graph.input_types[place], random)
    return Sweep(rows, everything[np.sort(kept)], bool(named), positions)


def columns_named(named: tuple[float, ...], length: int) -> NDArray[np.intp]:
    """Return the columns that numbers of a text may mean: themselves, or vectors of so many."""
    found = dict[int, None]()
    for factor in _LITERAL_FACTORS:
        for number in named:
            first = int(number) * factor
            found.update(dict.fromkeys(c for c in range(first, first + factor) if c < length))
    return np.array(list(found)[:_MOST_NAMED], np.intp)


def _positions(rows: Rows, type_: TensorType, random: Random) -> NDArray[np.intp]:
    numbers = np.arange(rows.count * rows.length).reshape(rows.count, rows.length)
    laid_out = shaped(rows, type_, numbers, random).reshape(-1)
    positions = np.empty(laid_out.size, np.intp)
    positions[laid_out] = np.arange(laid_out.size)
    return positions.reshape(rows.count, rows.length)


def swept_rows(graph: Graph, place: int) -> Rows | None:
    """Return the rows of an input that holds lone extremes, None where it does not."""
    type_ = graph.input_types[place]
    if type_.size < 2 or type_.dtype is Dtype.COMPLEX64:
        return None
    rows = rows_of(graph, place) or Rows((), 1, type_.size, is_elementwise=False)
    return None if rows.is_elementwise or rows.length < 2 else rows


def lone_reals(
    rows: Rows, layer: Layer, random: Random, *, is_positive: bool
) -> NDArray[np.float32]:
    """Draw rows of numbers that lie close, or what is great or low in each row."""
    values = random.standard_normal((rows.count, rows.length), np.float32)
    values *= np.float32(0.01)
    low = -4.0 - random.random(rows.count, np.float32)
    high = 8.0 + random.random(rows.count, np.float32)
    if is_positive:
        values, low = values + np.float32(1), np.float32(-0.03125) * low
    if layer is not Layer.GROUND:
        values[:] = (high if layer is Layer.HIGH else low)[:, None]
    return values


def lone_integers(rows: Rows, layer: Layer, dtype: Dtype, random: Random) -> Array:
    """Draw rows of integers that lie close, or what is great or low in each row."""
    middle = 0 if np.iinfo(dtype.numpy).min else _MIDDLE
    values = random.integers(middle - 3 * bool(middle), middle + 4, (rows.count, rows.length))
    if layer is not Layer.GROUND:
        values[:] = middle + _APART if layer is Layer.HIGH else middle - _APART
    return np.asarray(values.astype(dtype.numpy))


def lone_flags(graph: Graph, rows: Rows, layer: Layer, part: int) -> Array | None:
    """Return rows of flags, or the one that differs: set for `any`, not set for `all`, by turns.

    None where the task asks neither.
    """
    wanted = _flags_wanted(graph)
    if not wanted:
        return None
    lone = np.array(wanted)[(np.arange(rows.count) + part) % len(wanted)]
    flags = lone if layer is Layer.HIGH else ~lone
    return np.repeat(flags[:, None], rows.length, axis=1)


def _flags_wanted(graph: Graph) -> list[bool]:
    ops = {node.op for node in graph.nodes}
    return [flag for flag, op in ((True, "any"), (False, "all")) if op in ops]
