"""What matrix products and convolutions lose, and what the terms of their sums add up to."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.addends import Addends
from kernelwright.evaluator.oracle.error_of_sums import (
    DEVIATIONS,
    accumulated,
    alike_along,
    overflowed,
    roundings,
)
from kernelwright.evaluator.oracle.float_format import FLOAT32, UNIT, Reals
from kernelwright.ir.ops import Call, Domain, Kind, Op
from kernelwright.ir.ops.contraction import quantized_terms
from kernelwright.ir.ops.op import Array
from kernelwright.ir.ops.weight import FLOAT_MODES

_WORD_BITS = 32


@dataclass(frozen=True, slots=True)
class Products:
    """The products that each element of a contraction adds up."""

    size: Reals
    """The sum of their absolute values."""
    terms: int
    factor: Reals | float
    """What `alike` says of them."""

    @property
    def roundings(self) -> Reals:
        """Return how many roundings of `size` adding them up may cost."""
        return roundings(self.terms, self.factor)


def products_of(op: Op, call: Call, values: Sequence[Array]) -> Products:
    """Return the products that a contraction adds up, times its scale."""
    assert op.meaning is not None
    terms = _terms(op, call)
    if op.name in ("matmul", "addmm"):
        scale = abs(call.number("alpha")) if op.name == "addmm" else 1.0
        size = np.abs(values[0]) @ np.abs(values[1])
        rows, columns = _factors(values)
        return Products(size if scale == 1.0 else scale * size, terms, np.minimum(rows, columns))
    if op.name in ("quantized_matmul", "gather_qmm") and call.text("mode") in FLOAT_MODES:
        # The numbers that codes stand for have signs of their own.
        return Products(quantized_terms(call, *values), terms, 1.0)
    sizes = [np.abs(v) if v.dtype.kind == "f" else v for v in values]
    return Products(np.abs(op.meaning(call, *sizes)), terms, 1.0)


def division_of(op: Op, call: Call, place: int) -> float:
    """Return by what power of two kernels may divide an operand that they multiply with codes.

    Codes stay where they are in their words of 32 bits, as in MLX's own kernels, and what they
    are multiplied with, or the scale, is divided to make up for it.
    """
    domains, has_codes = op.behaviour.domains, "bits" in call.attributes
    if Domain.PACKED not in domains or not has_codes or call.attributes.get("mode") in FLOAT_MODES:
        return 1.0
    packed = domains.index(Domain.PACKED)
    is_divided = place == packed + 1 or (place < packed and op.kind is Kind.CONTRACTION)
    return 2.0 ** (_WORD_BITS - call.integer("bits")) if is_divided else 1.0


def error_of_contraction(
    op: Op,
    call: Call,
    values: Sequence[Array],
    errors: Sequence[Reals | None],
    made: Array,
    products: Products,
) -> Reals | None:
    """Bound the error of a matrix product or a convolution."""
    plain = [None if e is None else np.where(np.isnan(e), 0.0, e) for e in errors]
    lost = _of_products(op, call, values, plain, made, products)
    lost = np.where(np.isfinite(made), lost, 0.0)
    undecided = _undecided_infinities(op, call, values, errors, made)
    if undecided is not None:
        lost = np.where(undecided, np.nan, lost)
    open_ = [
        None if e is None else np.isnan(e).astype(np.float64) if v.dtype.kind == "f" else e * 0
        for v, e in zip(values, errors, strict=True)
    ]
    if any(o is not None and o.any() for o in open_):
        assert op.meaning is not None
        for place, mask in enumerate(open_):
            if mask is None or not mask.any():
                continue
            others = [np.ones(v.shape) if v.dtype.kind == "f" else v for v in values]
            others[place] = mask
            met = np.abs(op.meaning(call, *others))
            lost = np.where(met > 0, np.nan, lost)
    if any(e is not None and v.dtype.kind != "f" for v, e in zip(values, errors, strict=True)):
        return np.full(made.shape, np.nan)
    return lost


def _undecided_infinities(
    op: Op, call: Call, values: Sequence[Array], errors: Sequence[Reals | None], made: Array
) -> NDArray[np.bool_] | None:
    """Mark results that an infinity makes whose factor may be zero, or of the other sign."""
    if op.name not in ("matmul", "addmm", "convolution") or np.isfinite(made).all():
        return None
    assert op.meaning is not None
    found = np.zeros(made.shape, bool)
    rest = [np.zeros(v.shape) for v in values[2:]]
    for place in (0, 1):
        error, value, other = errors[place], values[place], values[1 - place]
        if error is None or not np.isinf(other).any():
            continue
        pairs = (
            ((np.abs(value) <= error) & (error != 0), np.isinf(other)),
            (
                np.ones(value.shape, bool),
                np.isnan(other),
            ),
        )
        met, spoiled = (
            np.asarray(op.meaning(call, *[a.astype(np.float64) for a in _at(place, *p)], *rest))
            for p in pairs
        )
        found |= (met != 0) & (spoiled == 0)
    return np.asarray(found & ~np.isfinite(made))


def _at(place: int, own: Array, other: Array) -> tuple[Array, Array]:
    return (own, other) if place == 0 else (other, own)


def _of_products(
    op: Op,
    call: Call,
    values: Sequence[Array],
    errors: Sequence[Reals | None],
    made: Array,
    products: Products,
) -> Reals:
    assert op.meaning is not None
    if op.name in ("matmul", "addmm"):
        return _of_matmul(op, call, values, errors, products)
    size = products.size
    lost = overflowed(accumulated(size, products.terms), size, made)
    if "qmm" in op.name or op.name.startswith("quantized"):
        # Kernels may round weights to the dtype of what they multiply, as MLX's own do.
        unit = call.outputs[0].dtype.epsilon / 2
        lost += DEVIATIONS * unit / math.sqrt(max(products.terms, 1)) * size
    if all(e is None for e in errors):
        return lost
    sizes = [np.abs(v) if v.dtype.kind == "f" else v for v in values]
    moved = [
        s if e is None or s.dtype.kind != "f" else s + e for s, e in zip(sizes, errors, strict=True)
    ]
    return lost + np.abs(op.meaning(call, *moved) - size)


def _terms(op: Op, call: Call) -> int:
    if op.name == "convolution":
        return math.prod(call.inputs[1].shape[1:])
    return call.inputs[0].shape[-1]


def _of_matmul(
    op: Op,
    call: Call,
    values: Sequence[Array],
    errors: Sequence[Reals | None],
    products: Products,
) -> Reals:
    scale = abs(call.number("alpha")) if op.name == "addmm" else 1.0
    size = products.size
    lost = accumulated(size, products.terms, products.factor)
    unscaled = size / scale if scale not in (0.0, 1.0) else size
    if (unscaled > FLOAT32.largest).any():
        lost = overflowed(lost, unscaled, values[0] @ values[1])
    of_rows, of_columns = _factors(values)
    of_x, of_y = errors[:2]
    if of_x is not None:
        lost = lost + scale * _one_sided(of_x, np.abs(values[1]), of_rows)
    if of_y is not None:
        lost = lost + scale * _one_sided(np.abs(values[0]), of_y, of_columns)
    if op.name == "addmm":
        lost = lost + _of_added(call, values[2], errors[2], products)
    return np.asarray(lost)


def _of_added(call: Call, added: Array, error: Reals | None, products: Products) -> Reals:
    """Bound what the third operand of `addmm` costs, as the first of the terms or the last."""
    beta = abs(call.number("beta"))
    sums = Addends.of_sum(products.terms, products.roundings, products.size, None)
    whole = sums.plus(Addends.of_term(beta * np.abs(added), None))
    lost = whole.error_in_any_order() + 3 * UNIT * beta * np.abs(added)
    return np.asarray(lost if error is None else lost + beta * error)


def _one_sided(x: Reals, y: Reals, factor: Reals) -> Reals:
    most = x @ y
    root = np.sqrt(np.square(x) @ np.square(y))
    return np.asarray(np.minimum(most, DEVIATIONS * factor * root))


def _factors(values: Sequence[Array]) -> tuple[Reals, Reals]:
    """Return what `alike` says of the rows of a matrix product's first operand and its columns."""
    return _row_factor(values[0], -1), _row_factor(values[1], -2)


def _row_factor(values: Array, axis: int) -> Reals:
    """Return `alike` along the contracted axis, shaped to go with the product."""
    if values.ndim < 2:
        return np.array(math.sqrt(values.size))
    return np.expand_dims(alike_along(values, axis), axis)
