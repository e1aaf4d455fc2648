"""Layer norms whose root is multiplied by a row and by its mean apart, as shifts and scales are."""

from collections.abc import Iterator
from itertools import permutations

from kernelwright.ir.graph import ValueId
from kernelwright.ir.match.pattern import Found, Row, match
from kernelwright.ir.match.row import AXES, MIDDLE, SPREAD
from kernelwright.ir.naming.idioms.reader import Match, Parameter, Product, Reader
from kernelwright.ir.naming.idioms.root import ddof_of, under_root

_MOST_TERMS = 3
_DEEPEST = 2


def spread_norm(reader: Reader, value: ValueId) -> Match | None:
    """Match `x r w - mean(x) r w + b`, with and without w and b."""
    terms = _terms(reader, value)
    if len(terms) > _MOST_TERMS or all(added for _, added in terms):
        return None
    for (row, sign), (middle, other), *rest in permutations(terms):
        if sign and not other and all(added for _, added in rest):
            found = _norm(reader, value, row, middle, [v for v, _ in rest])
            if found is not None:
                return found
    return None


def _terms(
    reader: Reader, value: ValueId, *, is_added: bool = True, left: int = _DEEPEST
) -> list[tuple[ValueId, bool]]:
    """List what is added up, and whether it is added or taken away."""
    node = reader.made_by(value, "add", "subtract") if left else None
    if node is None:
        return [(value, is_added)]
    one, other = node.inputs
    return [
        *_terms(reader, one, is_added=is_added, left=left - 1),
        *_terms(reader, other, is_added=is_added == (node.op == "add"), left=left - 1),
    ]


def _norm(
    reader: Reader, value: ValueId, row: ValueId, middle: ValueId, added: list[ValueId]
) -> Match | None:
    scaled, shifted = reader.product(row), reader.product(middle)
    for factor, spread, epsilon, found in _roots(reader, scaled):
        x, rows = found.values["x"], found.rows[AXES]
        beside, within = scaled.without(x), rows.within(reader.shape(value))
        if beside is None or within is None or scaled.scale != 1.0:
            continue
        if not _is_mean_times(reader, shifted, found, beside):
            continue
        left = beside.less(factor)
        if left.denominators or len(left.numerators) > 1 or (added and not left.numerators):
            return None
        vectors = dict(zip(("weight", "bias"), (*left.numerators, *added), strict=False))
        operands = {"x": x} | {name: reader.vector(v, within) for name, v in vectors.items()}
        parameters: dict[str, Parameter] = {
            "axes": within.axes,
            "ddof": ddof_of(reader, spread),
            "epsilon": epsilon,
        }
        return Match("layer_norm", operands, parameters)
    return None


def _roots(reader: Reader, product: Product) -> Iterator[tuple[ValueId, ValueId, float, Found]]:
    """Yield the factors that divide by the root of a variance and a number."""
    for factor in (*product.numerators, *product.denominators):
        below = under_root(reader, factor, is_inverse=factor in product.numerators)
        spread, epsilon = (
            (below, 0.0) if below is None else reader.plus_constant(below) or (below, 0.0)
        )
        found = None if spread is None else match(reader, SPREAD, spread)
        if spread is not None and found is not None:
            yield factor, spread, epsilon, found


def _is_mean_times(reader: Reader, product: Product, found: Found, beside: Product) -> bool:
    """Say whether a product is the mean of x times what x is multiplied by."""
    for factor in product.numerators:
        middle = match(reader, Row(MIDDLE), factor)
        if middle is None or middle.values["x"] != found.values["x"]:
            continue
        left = product.less(factor)
        is_same = sorted(left.numerators) == sorted(beside.numerators) and sorted(
            left.denominators
        ) == sorted(beside.denominators)
        if is_same and left.scale == beside.scale:
            return middle.rows[AXES].placement == found.rows[AXES].placement
    return False
