"""How many elements several slices of one array show together, each counted once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelwright.ir.ops.box import Box

_MOST_PLACES = 1 << 22
"""Places, times boxes, up to which strides along an axis are compared place by place."""
_MOST_CELLS = 1 << 22
"""Cells, times boxes, up to which a union is counted."""


@dataclass(frozen=True)
class _Cuts:
    """An axis cut into parts, each of which a box shows whole or not at all."""

    shown: NDArray[np.bool_]
    """By box, then by part."""
    sizes: NDArray[np.int64]


def box_size(box: Box) -> int:
    """Count the elements of a box."""
    return math.prod(map(len, box))


def union_size(boxes: Sequence[Box]) -> int:
    """Count the elements of all boxes; of the largest box where the union is long to count."""
    forward = list(dict.fromkeys(tuple(map(_forward, box)) for box in boxes if box_size(box)))
    if not forward:
        return 0
    largest = max(map(box_size, forward))
    axes = list(zip(*forward, strict=True))
    alike = math.prod(len(axis[0]) for axis in axes if len(set(axis)) == 1)
    cuts = [_cuts(axis) for axis in axes if len(set(axis)) > 1]
    known = [cut for cut in cuts if cut is not None]
    cells = math.prod(len(cut.sizes) for cut in known)
    if len(known) < len(cuts) or cells * len(forward) > _MOST_CELLS:
        return largest
    shown, sizes = np.zeros((), np.bool_), np.ones((), np.int64)
    for cut in known:
        sizes = np.multiply.outer(sizes, cut.sizes)
    for box in range(len(forward)):
        cell = np.ones((), np.bool_)
        for cut in known:
            cell = np.logical_and.outer(cell, cut.shown[box])
        shown = shown | cell
    return alike * int(sizes[shown].sum())


def _forward(places: range) -> range:
    """Return the same places in ascending order, written in one way."""
    ordered = places if places.step > 0 else places[::-1]
    if len(ordered) <= 1:
        return range(ordered.start, ordered.start + len(ordered))
    return range(ordered.start, ordered[-1] + 1, ordered.step)


def _cuts(axis: Sequence[range]) -> _Cuts | None:
    """Cut an axis where a box begins or ends; into single places where one has a stride."""
    if all(places.step == 1 for places in axis):
        edges = sorted({edge for places in axis for edge in (places.start, places.stop)})
    else:
        single = range(min(p.start for p in axis), max(p.stop for p in axis) + 1)
        if len(single) * len(axis) > _MOST_PLACES:
            return None
        edges = list(single)
    begins = np.array(edges[:-1])
    starts, stops, steps = np.array([(p.start, p.stop, p.step) for p in axis]).T[:, :, None]
    shown = (begins >= starts) & (begins < stops) & ((begins - starts) % steps == 0)
    # Parts that the same boxes show are one.
    kinds, part = np.unique(shown, axis=1, return_inverse=True)
    return _Cuts(kinds, np.bincount(part.reshape(-1), np.diff(edges)).astype(np.int64))
