"""Rotary embeddings as maps of rows: pairs of elements turned by an angle each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kernelwright.ir.graph import ValueId
from kernelwright.ir.match.placement import View
from kernelwright.ir.match.row_map import Element, Sum

Layout = Literal["halves", "interleaved"]


@dataclass(frozen=True)
class Rotation:
    """Rows of `x` turned by cosines and sines, all of each or neighbours in it."""

    x: ValueId
    cosine: ValueId
    sine: ValueId
    layout: Layout
    turned: range
    """Which elements of a row are turned; the others stay as they are."""


def rotation_of(row: Sequence[Sum]) -> Rotation | None:
    """Read a row as `a cos - b sin` and `a sin + b cos` of its pairs, in one of both layouts."""
    places = [place for place, terms in enumerate(row) if len(terms) == 2]
    turned = range(places[0], places[-1] + 1) if places else range(0)
    if len(turned) < 2 or len(turned) % 2 or len(turned) > len(places):
        return None
    views = [{v for key in terms for v, _ in key} for terms in row]
    layouts: tuple[Layout, Layout] = ("halves", "interleaved")
    kept = [*range(turned.start), *range(turned.stop, len(row))]
    for x in sorted(set.intersection(*views)):
        is_kept = all(row[place] == {((x, place),): 1.0} for place in kept)
        if not is_kept or not _holds_each_row(x):
            continue
        for layout in layouts:
            tables = _tables(row, turned, x, layout)
            if tables is not None:
                return Rotation(x[0], *tables, layout, turned)
    return None


def _holds_each_row(x: View) -> bool:
    """Say whether rows are all different ones, in order."""
    return len(x[1]) <= 1 and all(step for _, step in x[1])


def _tables(
    row: Sequence[Sum], turned: range, x: View, layout: Layout
) -> tuple[ValueId, ValueId] | None:
    half = len(turned) // 2
    cosines: list[Element] = []
    sines: list[Element] = []
    for i, place in enumerate(turned):
        if layout == "halves":
            is_first, other = i < half, turned[(i + half) % len(turned)]
        else:
            is_first, other = i % 2 == 0, turned[i ^ 1]
        cosine = _factor(row[place], (x, place), 1.0)
        sine = _factor(row[place], (x, other), -1.0 if is_first else 1.0)
        if cosine is None or sine is None:
            return None
        cosines.append(cosine)
        sines.append(sine)
    if not _is_table(cosines, layout) or not _is_table(sines, layout):
        return None
    return cosines[0][0][0], sines[0][0][0]


def _is_table(found: Sequence[Element], layout: Layout) -> bool:
    """Say whether elements are those of one table, even steps apart, one a pair or one a place."""
    view, first = found[0]
    pairs = len(found) // 2
    order = [i - first for of, i in found if of == view]
    a_pair = [i % pairs if layout == "halves" else i // 2 for i in range(len(found))]
    step = max(order) // max(pairs - 1, 1)
    return order in ([step * i for i in a_pair], [*range(len(found))])


def _factor(terms: Sum, element: Element, coefficient: float) -> Element | None:
    """Return the element of a table by which an element is multiplied."""
    for key, number in terms.items():
        if len(key) == 2 and number == coefficient and element in key:
            table = key[1] if key[0] == element else key[0]
            return table if table[0] != element[0] else None
    return None
