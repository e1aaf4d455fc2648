"""Rotary embeddings by angles that `mx.fast.rope` takes: positions times a frequency a pair."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelwright.ir.graph import Node, TensorType, ValueId
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.match.pattern import Source
from kernelwright.ir.match.placement import Placement, broadcast_placement, composed, placed
from kernelwright.ir.match.rotation import Layout, Rotation
from kernelwright.ir.match.row_map import Element, RowMaps, Sum

_MOST_STEPS = 12


@dataclass(frozen=True)
class _Positions:
    """`scale * (count + start + offset)`, and where the parts of each row lie."""

    counted: Placement | None = None
    start: float = 0.0
    offset: ValueId | None = None
    offsets: Placement = ()
    scale: float = 1.0

    def plus(self, other: "_Positions") -> "_Positions | None":
        """Add two; None where both count, or have an offset, or one has been scaled."""
        is_twice = None not in (self.counted, other.counted) or None not in (
            self.offset,
            other.offset,
        )
        if is_twice or (self.scale, other.scale) != (1.0, 1.0):
            return None
        first = self if self.offset is not None else other
        counted = self.counted if self.counted is not None else other.counted
        return replace(first, counted=counted, start=self.start + other.start)


@dataclass(frozen=True)
class RopeCall:
    """What `mx.fast.rope` is called with."""

    x: ValueId
    first: int
    """Where the part of each row of x begins that is taken."""
    width: int
    """How long that part is, of which the first `dims` are turned."""
    dims: int
    layout: Layout
    rows: tuple[int, int, int, int]
    """Rows as batches, heads before each position, positions, and heads behind each position."""
    scale: float
    start: int
    offset: ValueId | None
    """Integers to add to the start: one, or one a batch."""
    frequencies: ValueId
    """One a pair, from the first on."""
    amplitude: float
    """What rows are multiplied by as well, which MLX does apart from turning them."""


@dataclass(frozen=True)
class _Angles:
    """What both tables are the cosine and the sine of, and the number that both are scaled by."""

    value: ValueId
    rows: Placement
    """Which of its rows each row is turned by."""
    amplitude: float


def rope_call(exact: RowMaps, found: Rotation, made: TensorType) -> RopeCall | None:
    """Return the call of `mx.fast.rope` that rows turned by tables are, or None.

    The first places of each row, or of a part of it, are turned; the others are kept. Tables are
    cosines and sines of one angle, or both of them times one number.

    Its angles are float32 positions, counted along one axis from a number or from an array of
    integers for all rows or a batch each, times a number and a frequency of each pair.

    Args:
        exact: The maps of the graph in which casts stand for themselves.
        found: The rows, in any maps of the graph.
        made: Their type.
    """
    angles = _angles(exact, found)
    node = None if angles is None else exact.plain.node(angles.value)
    if angles is None or node is None or node.op != "multiply" or found.turned.start:
        return None
    if not _is_whole(exact.plain, found, made):
        return None
    pairs, dims = len(found.turned) // 2, made.shape[: _lead(made.shape, found.width)]
    for one, other in (node.inputs, node.inputs[::-1]):
        frequencies = _of_pairs(exact, other, pairs)
        positions = None if frequencies is None else _of_rows(exact, one, angles.rows)
        if frequencies is None or positions is None or positions.start != int(positions.start):
            continue
        if (rows := _rows(exact.plain, positions, dims)) is not None:
            return RopeCall(
                x=found.x[0],
                first=found.first,
                width=found.width,
                dims=2 * pairs,
                layout=found.layout,
                rows=rows,
                scale=positions.scale,
                start=int(positions.start),
                offset=positions.offset,
                frequencies=frequencies,
                amplitude=angles.amplitude,
            )
    return None


def _is_whole(source: Source, found: Rotation, made: TensorType) -> bool:
    """Say whether all rows of x are turned, of which each holds the part that is taken."""
    value, rows = found.x
    count, stride = rows[0] if rows else (1, source.type(value).size)
    is_inside = found.first + found.width <= stride
    return is_inside and (count * stride, count * found.width) == (
        source.type(value).size,
        made.size,
    )


def _lead(shape: tuple[int, ...], width: int) -> int:
    return next(n for n in reversed(range(len(shape))) if math.prod(shape[n:]) == width)


def _angles(exact: RowMaps, found: Rotation) -> _Angles | None:
    """Return the angles that both tables are of."""
    cosine, sine = (
        _angle(exact, op, table, found.layout)
        for op, table in (("cos", found.cosines), ("sin", found.sines))
    )
    return cosine if cosine == sine else None


def _angle(exact: RowMaps, op: str, table: tuple[Element, ...], layout: Layout) -> _Angles | None:
    (value, rows), _ = table[0]
    shape = exact.plain.type(value).shape
    node, amplitude = _unscaled(exact.plain, value)
    if node is None or node.op != op or exact.plain.type(value).dtype is not Dtype.FLOAT32:
        return None
    row = exact.row(node.inputs[0])
    elements = _elements([row[place] for _, place in table])
    if elements is None:
        return None
    (angle, of_rows), _ = elements[0]
    half = [((angle, of_rows), place) for place in range(len(table) // 2)]
    wanted = half * 2 if layout == "halves" else [e for e in half for _ in range(2)]
    width = shape[-1] if shape else 1
    if elements != wanted or any(stride % width for _, stride in rows):
        return None
    shown = composed(tuple((n, stride // width) for n, stride in rows), of_rows)
    size = exact.plain.type(angle).shape[-1:]
    if shown is None or size != (len(half),) or any(stride % len(half) for _, stride in shown):
        return None
    return _Angles(angle, tuple((n, stride // len(half)) for n, stride in shown), amplitude)


def _unscaled(source: Source, value: ValueId) -> tuple[Node | None, float]:
    """Return what makes a value before it is scaled by a number, and the number."""
    node = source.node(value)
    if node is None or node.op not in ("multiply", "divide"):
        return node, 1.0
    x, by = node.inputs
    number = source.number(by)
    if node.op == "multiply" and number is None:
        x, by = by, x
        number = source.number(by)
    if not number or source.type(x).shape != source.type(value).shape:
        return node, 1.0
    return source.node(x), number if node.op == "multiply" else 1.0 / number


def _of_pairs(exact: RowMaps, value: ValueId, pairs: int) -> ValueId | None:
    """Return what holds one element a pair, the same ones for all rows."""
    elements = _elements(exact.row(value))
    if elements is None:
        return None
    (found, rows), _ = elements[0]
    if any(stride for _, stride in rows) or exact.plain.type(found).dtype is not Dtype.FLOAT32:
        return None
    wanted = [((found, rows), place) for place in range(pairs)]
    return found if elements == wanted else None


def _elements(row: Sequence[Sum]) -> list[Element] | None:
    """Return the elements that a row is, unchanged; None where it is more."""
    keys = [key for terms in row for key, number in terms.items() if number == 1.0]
    is_plain = all(len(terms) == 1 for terms in row) and len(keys) == len(row)
    return [key[0] for key in keys] if is_plain and all(len(key) == 1 for key in keys) else None


def _of_rows(exact: RowMaps, value: ValueId, rows: Placement) -> _Positions | None:
    """Read what holds one position a row."""
    first, *others = exact.row(value)
    if any(terms != first for terms in others) or len(first) != 1:
        return None
    ((key, factor),) = first.items()
    if not key:
        return _Positions(start=factor)
    if len(key) != 1 or factor != 1.0:
        return None
    (source, places), column = key[0]
    shown = composed(rows, places)
    return None if column or shown is None else _positions(exact.plain, source, shown)


def _positions(
    source: Source, value: ValueId, places: Placement, left: int = _MOST_STEPS
) -> _Positions | None:
    if (held := source.number(value)) is not None:
        return _Positions(start=held)
    value, places = placed(source, value, places)
    node, dtype = source.node(value), source.type(value).dtype
    if not left or (dtype.is_float and dtype is not Dtype.FLOAT32):
        return None
    below = None if node is None else [_positions(source, v, places, left - 1) for v in node.inputs]
    if node is not None and node.op == "arange" and node.attribute("step") == 1.0:
        start = node.attribute("start")
        assert isinstance(start, int | float)
        return _Positions(places, float(start))
    match (node.op if node is not None else ""), below:
        case "cast", [_Positions() as one]:
            return one
        case "add", [_Positions() as one, _Positions() as other]:
            return one.plus(other)
        case "multiply", [_Positions() as one, _Positions() as other]:
            for position, number in ((one, other), (other, one)):
                if number == _Positions(start=number.start):
                    return replace(position, scale=position.scale * number.start)
    is_integer = not dtype.is_float and not dtype.is_complex and dtype is not Dtype.BOOL
    return _Positions(offset=value, offsets=places) if is_integer else None


def _rows(
    source: Source, positions: _Positions, dims: tuple[int, ...]
) -> tuple[int, int, int, int] | None:
    """Return rows as MLX counts positions and begins batches; None where it cannot."""
    batch = dims[0] if len(dims) > 1 else 1
    if positions.offset is not None and source.type(positions.offset).size > 1:
        by_batch = broadcast_placement((batch, *(1,) * (len(dims) - 1)), dims)
        if positions.offsets != by_batch or source.type(positions.offset).size != batch:
            return None
    inner = dims[1:] if len(dims) > 1 else dims
    if positions.counted is None or not any(stride for _, stride in positions.counted):
        return batch, math.prod(inner), 1, 1
    for axis, size in enumerate(inner):
        before, behind = inner[:axis], inner[axis + 1 :]
        along = (*(1 for _ in (*dims, *before)), size, *(1 for _ in behind))[-len(dims) :]
        if broadcast_placement(along, dims) == positions.counted:
            return batch, math.prod(before), size, math.prod(behind)
    return None
