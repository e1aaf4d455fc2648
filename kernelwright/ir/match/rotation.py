"""Rotary embeddings as maps of rows: pairs of elements turned by an angle each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kernelwright.ir.graph import ValueId
from kernelwright.ir.match.row_map import Element, Sum

Layout = Literal["halves", "interleaved"]


@dataclass(frozen=True)
class Rotation:
    """Rows of `x` turned by cosines and sines, all of each or its beginning."""

    x: ValueId
    cosine: ValueId
    sine: ValueId
    layout: Layout
    turned: int
    """How many elements of a row are turned; the others stay as they are."""


def rotation_of(row: Sequence[Sum]) -> Rotation | None:
    """Read a row as `a cos - b sin` and `a sin + b cos` of its pairs, in one of both layouts."""
    turned = next((i for i, terms in enumerate(row) if len(terms) != 2), len(row))
    if turned < 2 or turned % 2:
        return None
    atoms = [{v for key in terms for v, _ in key} for terms in row]
    shared = set.intersection(*atoms)
    layouts: tuple[Layout, Layout] = ("halves", "interleaved")
    for x in sorted(shared):
        if any(terms != {((x, i),): 1.0} for i, terms in enumerate(row[turned:], turned)):
            continue
        for layout in layouts:
            tables = _tables(row[:turned], x, layout)
            if tables is not None:
                return Rotation(x, *tables, layout, turned)
    return None


def _tables(row: Sequence[Sum], x: ValueId, layout: Layout) -> tuple[ValueId, ValueId] | None:
    half = len(row) // 2
    found: set[tuple[ValueId, ValueId]] = set()
    for place, terms in enumerate(row):
        if layout == "halves":
            is_first, other = place < half, (place + half) % len(row)
        else:
            is_first, other = place % 2 == 0, place ^ 1
        cosine = _factor(terms, (x, place), 1.0)
        sine = _factor(terms, (x, other), -1.0 if is_first else 1.0)
        if cosine is None or sine is None:
            return None
        found.add((cosine, sine))
    return found.pop() if len(found) == 1 else None


def _factor(terms: Sum, element: Element, coefficient: float) -> ValueId | None:
    """Return the table of which an element is multiplied by one element."""
    for key, number in terms.items():
        if len(key) == 2 and number == coefficient and element in key:
            (table, _) = key[1] if key[0] == element else key[0]
            return table if table != element[0] else None
    return None
