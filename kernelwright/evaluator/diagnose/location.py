"""Where an output is wrong, in words that point at a line of the kernel."""

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def locate(bad: Mask) -> str:
    """Describe the wrong elements of an array, seen as rows along its last axis.

    Args:
        bad: at least one element is True.
    """
    if bad.ndim == 0 or bad.size == 1:
        return "the only element"
    table = bad.reshape(-1, bad.shape[-1])
    if table.all():
        return "every element"
    if len(table) == 1:
        return _span(table[0], "element")
    for words in (_whole_columns(table), _whole_rows(table), _block(table)):
        if words:
            return words
    return _scattered(table)


def first_bad(bad: Mask) -> tuple[int, ...]:
    """Return the index of the first wrong element in row-major order."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))


def _whole_columns(table: Mask) -> str:
    """Columns that are wrong in every row, when nothing else is."""
    columns: Mask = np.all(table, axis=0)
    if not columns.any() or (table & ~columns).any():
        return ""
    return f"{_span(columns, 'column')} of every row"


def _whole_rows(table: Mask) -> str:
    """Rows that are wrong throughout, when nothing else is."""
    rows: Mask = np.all(table, axis=1)
    if not rows.any() or (table & ~rows[:, None]).any():
        return ""
    return _span(rows, "row")


def _block(table: Mask) -> str:
    """The same columns wrong in some of the rows."""
    rows: Mask = np.any(table, axis=1)
    columns: Mask = np.any(table, axis=0)
    if not (table == (rows[:, None] & columns)).all():
        return ""
    return f"{_span(columns, 'column')} of {_span(rows, 'row')}"


def _scattered(table: Mask) -> str:
    count, total = int(table.sum()), table.size
    rows: Mask = np.any(table, axis=1)
    where = "in every row" if rows.all() else f"in {_span(rows, 'row')}"
    return f"{count} of {total} elements, {where}"


def _span(wrong: Mask, noun: str) -> str:
    """Name a set of positions along one axis, `noun` in the singular."""
    places = np.flatnonzero(wrong)
    first, last, count, size = int(places[0]), int(places[-1]), len(places), len(wrong)
    if count == size:
        return f"all {size} {noun}s"
    if count == 1:
        edge = {0: f"the first {noun}", size - 1: f"the last {noun}"}
        return edge.get(first, f"{noun} {first}")
    if last - first + 1 == count:
        return _run(first, last, size, noun)
    if count == 2:
        return f"{noun}s {first} and {last}"
    steps = np.unique(np.diff(places))
    if len(steps) == 1:
        step = int(steps[0])
        if first < step and last + step >= size:
            return f"every {_ordinal(step)} {noun} from {noun} {first}"
    return f"{count} of {size} {noun}s, the first at {first}"


def _run(first: int, last: int, size: int, noun: str) -> str:
    count = last - first + 1
    if last == size - 1:
        return f"the last {count} {noun}s" if count <= size // 2 else f"{noun}s from {first} on"
    if first == 0:
        return f"the first {count} {noun}s"
    return f"{noun}s {first} to {last}"


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
