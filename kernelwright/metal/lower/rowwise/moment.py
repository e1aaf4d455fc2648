"""Sums along a row that hang on its softmax, taken apart so that one walk finds all of them.

With E = exp(x - peak), D = x - peak and numbers a and b of the row, the sum of (D - a) * E * b is
b * sum(E * D) - a * b * sum(E): neither sum waits for the other, where the product waits for both.
So are entropies, divergences and losses of rows as long as a vocabulary read once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.kernel_ir.expression import Apply, Expr, ReduceExpr, Reducer, walk
from kernelwright.metal.kernel_ir.index import Axis
from kernelwright.metal.kernel_ir.scalar_op import ScalarOp

if TYPE_CHECKING:
    from kernelwright.metal.lower.term.build import Builder

_MOST_PARTS = 6
_SUM, _DIFFERENCE, _PRODUCT, _QUOTIENT, _OPPOSITE = (
    ScalarOp.ADD,
    ScalarOp.SUBTRACT,
    ScalarOp.MULTIPLY,
    ScalarOp.DIVIDE,
    ScalarOp.NEGATIVE,
)


@dataclass(frozen=True)
class Part:
    """A number of the row times what varies along it: an exponential, a factor, both or neither."""

    number: Expr
    exponential: Expr | None = None
    factor: Expr | None = None


def sum_in_parts(builder: "Builder", body: Expr, axis: Axis) -> Expr | None:
    """Return the sum of a body as numbers times sums that wait for the row's peak alone.

    None where the body is none of a softmax, or waits for no more already.
    """
    if not _waits_twice(body, axis):
        return None
    parts = _Expansion(builder, axis).parts(body)
    if parts is None or not any(part.exponential or part.factor for part in parts):
        return None
    sums = [_weighted(builder, part, axis) for part in parts]
    total, *others = sums
    for other in others:
        total = builder.apply(_SUM, Dtype.FLOAT32, "total", total, other)
    return total


def _waits_twice(body: Expr, axis: Axis) -> bool:
    """Say whether a sum waits for a sum, which itself waits for a peak."""
    found = [t for t in walk([body]) if isinstance(t, ReduceExpr) and t.axis == axis]
    if body.dtype is not Dtype.FLOAT32 or axis not in body.axes:
        return False
    return any(is_shifted_exponential(t.body, axis) for t in found if t.reducer is Reducer.SUM)


def is_shifted_exponential(term: Expr, axis: Axis) -> bool:
    """Say whether a term is exp(x - peak), `peak` being the largest x along an axis."""
    if not isinstance(term, Apply) or term.op != ScalarOp.EXP:
        return False
    return is_from_peak(term.arguments[0], axis)


def is_from_peak(term: Expr, axis: Axis) -> bool:
    """Say whether a term is x - peak, `peak` being the largest x along an axis."""
    if not isinstance(term, Apply) or term.op != _DIFFERENCE:
        return False
    value, peak = term.arguments
    if not isinstance(peak, ReduceExpr) or peak.reducer is not Reducer.MAXIMUM:
        return False
    return peak.axis == axis and peak.body is value


def is_moment(reduced: ReduceExpr) -> bool:
    """Say whether a sum is one of distances from the peak, or of exponentials times a factor."""
    body = reduced.body
    if reduced.reducer is not Reducer.SUM or not isinstance(body, Apply):
        return False
    if is_from_peak(body, reduced.axis):
        return True
    if body.op != _PRODUCT:
        return False
    exponential, factor = body.arguments
    if not is_shifted_exponential(exponential, reduced.axis):
        return False
    return factor is exponential.operands[0] or not _waits(factor)


def weight_of(moment: ReduceExpr) -> Expr | None:
    """Return the exponentials of a moment, None where it is of distances alone."""
    assert isinstance(moment.body, Apply)
    is_weighted = not is_from_peak(moment.body, moment.axis)
    return moment.body.arguments[0] if is_weighted else None


def peak_of(moment: ReduceExpr) -> Expr:
    """Return the peak from which a moment is counted."""
    weight = weight_of(moment)
    distance = moment.body if weight is None else weight.operands[0]
    return distance.operands[1]


def factor_of(moment: ReduceExpr) -> Expr | None:
    """Return what multiplies the exponentials of a moment, None where it is the distance."""
    weight = weight_of(moment)
    if weight is None:
        return None
    factor = moment.body.operands[1]
    return None if factor is weight.operands[0] else factor


def _waits(term: Expr) -> bool:
    return any(isinstance(t, ReduceExpr) for t in walk([term]))


def _weighted(builder: "Builder", part: Part, axis: Axis) -> Expr:
    varying = [t for t in (part.exponential, part.factor) if t is not None]
    if not varying:
        extent = builder.number(float(axis.extent), Dtype.FLOAT32)
        return builder.apply(_PRODUCT, Dtype.FLOAT32, "product", part.number, extent)
    body = varying[0]
    if len(varying) > 1:
        body = builder.apply(_PRODUCT, Dtype.FLOAT32, "product", *varying)
    total = builder.terms.reduced(Reducer.SUM, body, axis, dtype=Dtype.FLOAT32, name="total")
    return builder.apply(_PRODUCT, Dtype.FLOAT32, "product", total, part.number)


@dataclass(frozen=True)
class _Expansion:
    """Takes sums and products apart along a row."""

    builder: "Builder"
    axis: Axis

    def parts(self, term: Expr) -> list[Part] | None:
        """Return the parts that a term is the sum of, None where it is no such sum."""
        if self.axis not in term.axes:
            return [Part(term)]
        if is_shifted_exponential(term, self.axis):
            return [Part(self._number(1.0), exponential=term)]
        if not _waits(term) or is_from_peak(term, self.axis):
            return [Part(self._number(1.0), factor=term)]
        if not isinstance(term, Apply):
            return None
        found = [self.parts(argument) for argument in term.arguments]
        known = [parts for parts in found if parts is not None]
        if len(known) != len(found):
            return None
        made = self._applied(term.op, known)
        return made if made is not None and len(made) <= _MOST_PARTS else None

    def _applied(self, op: str, known: Sequence[list[Part]]) -> list[Part] | None:
        if op == _OPPOSITE:
            return self._scaled(known[0], self._number(-1.0))
        if op not in (_SUM, _DIFFERENCE, _PRODUCT, _QUOTIENT):
            return None
        first, second = known
        if op == _SUM:
            return first + second
        if op == _DIFFERENCE:
            return first + self._scaled(second, self._number(-1.0))
        if op == _PRODUCT:
            products = [self._product(a, b) for a in first for b in second]
            made = [product for product in products if product is not None]
            return made if len(made) == len(products) else None
        if len(second) != 1 or second[0].exponential or second[0].factor:
            return None
        return [
            replace(part, number=self._apply(_QUOTIENT, part.number, second[0].number))
            for part in first
        ]

    def _scaled(self, parts: Sequence[Part], number: Expr) -> list[Part]:
        return [Part(self._times(p.number, number), p.exponential, p.factor) for p in parts]

    def _product(self, one: Part, other: Part) -> Part | None:
        exponentials = [p.exponential for p in (one, other) if p.exponential is not None]
        factors = [p.factor for p in (one, other) if p.factor is not None]
        if len(exponentials) > 1 or len(factors) > 1:
            return None
        exponential = exponentials[0] if exponentials else None
        factor = factors[0] if factors else None
        number = self._times(one.number, other.number)
        if exponential is not None and factor is not None and not self._fits(exponential, factor):
            return None
        return Part(number, exponential, factor)

    def _fits(self, exponential: Expr, factor: Expr) -> bool:
        """Say whether a factor is the exponential's own distance, or waits for nothing."""
        assert isinstance(exponential, Apply)
        return factor is exponential.arguments[0] or not _waits(factor)

    def _times(self, one: Expr, other: Expr) -> Expr:
        for number, rest in ((one, other), (other, one)):
            if number is self._number(1.0):
                return rest
        return self._apply(_PRODUCT, one, other)

    def _apply(self, op: str, *arguments: Expr) -> Expr:
        return self.builder.apply(op, Dtype.FLOAT32, "product", *arguments)

    def _number(self, value: float) -> Expr:
        return self.builder.number(value, Dtype.FLOAT32)
