"""Rotary embeddings as maps of rows: pairs of elements turned by an angle each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kernelwright.ir.graph import Node, ValueId
from kernelwright.ir.match.placement import View
from kernelwright.ir.match.row_map import LONGEST_ROW, Element, RowMaps, Sum, adds_pairs

Layout = Literal["halves", "interleaved"]
_MOVING = frozenset({"concatenate", "slice_update", "matmul"})
_TURNING = frozenset(
    {"add", "subtract", "multiply", "negative", "concatenate", "slice_update", "select"}
)
_SUMS = frozenset({"add", "subtract"})
_JOINING = _SUMS | {"concatenate", "slice_update", "select"}
_PRODUCTS = frozenset({"multiply", "negative", "matmul"})
_DEEPEST = 5
_MOST_AXES = 2


@dataclass(frozen=True)
class Rotation:
    """Rows of `x` turned by cosines and sines, all of each or neighbours in it."""

    x: View
    first: int
    """The place in a row of x of the first element of a row that is made."""
    width: int
    cosines: tuple[Element, ...]
    """Of each turned place, in order; so are the sines."""
    sines: tuple[Element, ...]
    layout: Layout
    turned: range
    """Which elements of a row are turned; the others stay as they are."""


def find_rotation(maps: RowMaps, value: ValueId) -> Rotation | None:
    """Read a value as rows whose pairs are turned by angles, however they are cut and joined."""
    shape, dtype = maps.plain.type(value).shape, maps.plain.type(value).dtype
    if not dtype.is_float or not _may_turn(maps, value, _DEEPEST):
        return None
    # Pairs are often put together along an axis of their own, before or behind the other one.
    longer = [axes for axes in range(1, len(shape) + 1) if shape[-axes] > 1]
    for axes in longer[:_MOST_AXES]:
        if math.prod(shape[-axes:]) > LONGEST_ROW:
            break
        if (found := rotation_of(maps.row(value, axes))) is not None:
            return found
    return None


def _may_turn(maps: RowMaps, value: ValueId, left: int) -> bool:
    """Say whether a row is put together of sums of products, which is quicker to see."""
    whole = _below(maps, value)
    if whole is None:
        return False
    # Where each pair is multiplied by its own matrix, columns are cut from a repeated table.
    is_pair = maps.plain.type(value).shape[-1:] == (2,) or adds_pairs(maps.plain, whole)
    if whole.op not in _JOINING and not adds_pairs(maps.plain, whole):
        return False
    parts = [node.op for v in whole.inputs if (node := _below(maps, v))]
    if whole.op in _SUMS and not _PRODUCTS.issuperset(parts):
        # Sums of other sums are what layers add to what came before.
        return False
    turning = _TURNING | {"slice", "transpose"} if is_pair else _TURNING
    found: set[str] = set()
    frontier = [(value, left)]
    while frontier:
        value, left = frontier.pop()
        node = _below(maps, value, through_repeats=is_pair)
        if node is None:
            continue
        if node.op == "slice" and (cut := _below(maps, node.inputs[0])) is not None:
            node = cut if adds_pairs(maps.plain, cut) else node
        if adds_pairs(maps.plain, node):
            found |= {"add", "multiply"} if node.op == "matmul" else {"add"}
            frontier += [(v, left - 1) for v in node.inputs] if left else []
            continue
        if node.op != "matmul" or maps.is_small_known(node.inputs[1]):
            found.add(node.op)
        if left and node.op in turning:
            frontier += [(v, left - 1) for v in node.inputs]
    return "multiply" in found and not any(map(found.isdisjoint, (_MOVING, _SUMS)))


def _below(maps: RowMaps, value: ValueId, *, through_repeats: bool = False) -> Node | None:
    """Return the node that makes a value before it is seen in another shape."""
    shown = ("reshape", "broadcast") if through_repeats else ("reshape",)
    while (node := maps.plain.node(value)) is not None and node.op in shown:
        value = node.inputs[0]
    return maps.names.node(value)


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
        if not _holds_each_row(x):
            continue
        first = min(i for terms in row for key in terms for v, i in key if v == x)
        if not all(row[place] == {((x, first + place),): 1.0} for place in kept):
            continue
        for layout in layouts:
            tables = _tables(row, turned, (x, first), layout)
            if tables is not None:
                return Rotation(x, first, len(row), *tables, layout, turned)
    return None


def _holds_each_row(x: View) -> bool:
    """Say whether rows are all different ones, in order."""
    return len(x[1]) <= 1 and all(step for _, step in x[1])


def _tables(
    row: Sequence[Sum], turned: range, x: Element, layout: Layout
) -> tuple[tuple[Element, ...], tuple[Element, ...]] | None:
    half, (view, first) = len(turned) // 2, x
    cosines: list[Element] = []
    sines: list[Element] = []
    for i, place in enumerate(turned):
        if layout == "halves":
            is_first, other = i < half, turned[(i + half) % len(turned)]
        else:
            is_first, other = i % 2 == 0, turned[i ^ 1]
        cosine = _factor(row[place], (view, first + place), 1.0)
        sine = _factor(row[place], (view, first + other), -1.0 if is_first else 1.0)
        if cosine is None or sine is None:
            return None
        cosines.append(cosine)
        sines.append(sine)
    if not _is_table(cosines, layout) or not _is_table(sines, layout):
        return None
    return tuple(cosines), tuple(sines)


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
