"""What each op adds to the error of what it reads, and what its own float32 arithmetic loses."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from kernelwright.evaluator.oracle.addends import Addends
from kernelwright.evaluator.oracle.error_by_chance import errors_by_chance
from kernelwright.evaluator.oracle.error_in_common import adds_terms, moved_in_common
from kernelwright.evaluator.oracle.error_of_arithmetic import error_of_arithmetic
from kernelwright.evaluator.oracle.error_of_contractions import (
    division_of,
    error_of_contraction,
    products_of,
)
from kernelwright.evaluator.oracle.error_of_elements import carried_error, may_cancel
from kernelwright.evaluator.oracle.error_of_exponentials import (
    error_of_logsumexp,
    error_of_rescaling,
    error_of_softmax,
    is_rescaled,
)
from kernelwright.evaluator.oracle.error_of_forms import error_of_other_form, form_of
from kernelwright.evaluator.oracle.error_of_moves import data_places, errors_of_move, moves
from kernelwright.evaluator.oracle.error_of_order import (
    error_of_extreme_place,
    error_of_flags,
    error_of_sort,
)
from kernelwright.evaluator.oracle.error_of_products import error_of_prod
from kernelwright.evaluator.oracle.error_of_sums import (
    accumulated,
    alike,
    error_of_scan,
    error_of_sum,
    overflowed,
)
from kernelwright.evaluator.oracle.error_of_views import error_of_view, reinterprets
from kernelwright.evaluator.oracle.float_format import (
    FLOAT32,
    FORMATS,
    UNIT,
    Reals,
    half_spacing,
)
from kernelwright.evaluator.oracle.tracked import ANYTHING, Tracked
from kernelwright.evaluator.oracle.zero_signs import settled_zeros
from kernelwright.ir.graph import Node
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Domain, Kind, Op
from kernelwright.ir.ops.op import Array


def error_of(
    node: Node, op: Op, call: Call, read: Sequence[Tracked], made: Sequence[Array]
) -> list[Tracked]:
    """Bound what a sound kernel may be off in a node's outputs, their own rounding left out."""
    if moves(op, call):
        moved = errors_of_move(op, call, read, made)
        if len(made) > 1 or moved[0].is_stored:
            return moved
        return [replace(moved[0], settled_zeros=settled_zeros(op, call, read, made[0]))]
    if reinterprets(op):
        error = error_of_view(op, call, read[0], made[0])
        return [Tracked(made[0], error, call.outputs[0].dtype, is_stored=error is None)]
    errors = [r.read_error() for r in read]
    errors = [
        _with_flushed(r, e, FLOAT32.least_normal * division_of(op, call, place))
        for place, (r, e) in enumerate(zip(read, errors, strict=True))
    ]
    values = [r.values for r in read]
    products = products_of(op, call, values) if _adds_products(op, values, made[0]) else None
    found: list[Reals | None] = [
        _computed(node, op, call, values, errors, made[0], call.outputs[0].dtype)
        if products is None
        else error_of_contraction(op, call, values, errors, made[0], products)
    ]
    if len(made) > 1:
        found = list(errors_by_chance(op, call, values, errors, made))
    if adds_terms(op) and found[0] is not None:
        found[0] = found[0] + _of_common(op, call, read, made[0])
    forms = [r.form for r in read]
    is_of_powers = is_rescaled(op) and forms[0] is not None and forms[0].kind == "exp"
    other = (
        error_of_rescaling(call, values[0])
        if is_of_powers
        else error_of_other_form(op, forms, values, made[0])
    )
    if other is not None:
        found[0] = other if found[0] is None else found[0] + other
    form = form_of(op, call, forms, values, made[0]) if len(made) == 1 else None
    zeros = settled_zeros(op, call, read, made[0]) if len(made) == 1 else None
    addends = None
    if products is not None:
        addends = Addends.of_sum(products.terms, products.roundings, products.size, found[0])
    return [
        Tracked(
            m,
            settled(e, m, t.dtype),
            t.dtype,
            is_stored=False,
            form=form,
            settled_zeros=zeros,
            addends=addends,
        )
        for m, e, t in zip(made, found, call.outputs, strict=True)
    ]


def _adds_products(op: Op, values: Sequence[Array], made: Array) -> bool:
    is_complex = made.dtype.kind == "c" or any(v.dtype.kind == "c" for v in values)
    return op.kind is Kind.CONTRACTION and op.held_of is None and not is_complex


def _of_common(op: Op, call: Call, read: Sequence[Tracked], made: Array) -> Reals:
    """Add what moves all terms of a sum at once."""
    common = moved_in_common(op, call, read, made)
    return np.asarray(sum((np.abs(e) for e in common.values()), np.zeros(made.shape)))


def _with_flushed(read: Tracked, error: Reals | None, least: float) -> Reals | None:
    """Let an operand below the least number be zero: GPUs flush float32 denormals."""
    if read.dtype not in (Dtype.FLOAT32, Dtype.BFLOAT16):
        return error
    size = np.abs(read.values)
    flushed = (size < least) & (size > 0)
    if not flushed.any():
        return error
    lost = np.where(flushed, size, 0.0)
    return lost if error is None else np.maximum(lost, error)


def _computed(
    node: Node,
    op: Op,
    call: Call,
    values: Sequence[Array],
    errors: Sequence[Reals | None],
    made: Array,
    dtype: Dtype,
) -> Reals | None:
    if dtype.is_complex or any(v.dtype.kind == "c" for v in values):
        return _of_complex(values, made)
    if op.kind is Kind.ELEMENTWISE:
        return _elementwise(node, op, call, values, errors, made, dtype)
    if op.kind is Kind.REDUCTION:
        return _reduction(op, call, values[0], errors[0], made, dtype)
    if op.kind is Kind.SCAN:
        return error_of_scan(op, call, values[0], errors[0], made)
    if op.kind is Kind.SORT and not op.behaviour.is_continuous:
        return error_of_sort(op, call, values, errors, made)
    is_exact = not any(v.dtype.kind == "f" for v in values) and not dtype.is_float
    if (op.kind is Kind.RANDOM or is_exact) and all(e is None for e in errors):
        return None
    unpacks = Domain.PACKED in op.behaviour.domains
    if op.kind is Kind.INDEXING and not unpacks:
        return _combined(op, call, values, errors, made)
    drawn = next(errors_by_chance(op, call, values, errors, [made]))
    if op.kind is Kind.INDEXING and len(values) == 3:
        return _dequantized(op, call, values, drawn, made, dtype)
    return drawn


def _dequantized(
    op: Op, call: Call, values: Sequence[Array], drawn: Reals | None, made: Array, dtype: Dtype
) -> Reals:
    """Allow what MLX's kernels lose: the product of number and scale is rounded by itself."""
    assert op.meaning is not None
    packed, scales, biases = values
    product = np.asarray(op.meaning(call, packed, scales, np.zeros_like(biases)))
    bias = np.asarray(op.meaning(call, np.zeros_like(packed), np.zeros_like(scales), biases))
    lost = np.zeros(made.shape) if drawn is None else drawn
    lost = lost + np.where(product == made, 0.0, half_spacing(product, dtype))
    overflow = np.where(np.abs(product) > FORMATS[dtype].largest, np.inf, 0.0)
    lost = np.where(overflow > 0, np.inf, lost)
    return np.where(may_cancel(product, bias, overflow, None), ANYTHING, lost)


def _of_complex(values: Sequence[Array], made: Array) -> Reals:
    """Allow complex numbers float32 sums over their largest: they are not followed by element."""
    largest = max((float(np.abs(v).max(initial=0.0)) for v in values), default=0.0)
    size = np.abs(made)
    return np.asarray(32 * UNIT * (size + min(largest, float(size.max(initial=0.0)))))


def _elementwise(
    node: Node,
    op: Op,
    call: Call,
    values: Sequence[Array],
    errors: Sequence[Reals | None],
    made: Array,
    dtype: Dtype,
) -> Reals | None:
    carried = carried_error(node, op, call, values, errors, made)
    if not dtype.is_float:
        return carried
    own = error_of_arithmetic(op, call, values, made, dtype)
    if carried is None or own is None:
        return own if carried is None else carried
    return carried + own


def _reduction(
    op: Op, call: Call, x: Array, error: Reals | None, made: Array, dtype: Dtype
) -> Reals | None:
    if op.behaviour.is_extreme:
        return None if error is None else np.max(error, axis=call.integers("axes"), keepdims=True)
    if op.behaviour.makes_bool:
        return error_of_flags(op, call, x, error, made)
    if op.behaviour.makes_places:
        return error_of_extreme_place(op, call, x, error)
    if x.dtype.kind != "f":
        exact = error is None and not dtype.is_float
        return None if exact else error_of_sum(op, call, x.astype(np.float64), error, made)
    if op.behaviour.makes_weights:
        return error_of_softmax(x, error, made)
    if op.behaviour.is_decided_by_one:
        return error_of_logsumexp(x, error, made)
    rule = error_of_prod if op.behaviour.absorbs else error_of_sum
    return rule(op, call, x, error, made)


def _combined(
    op: Op, call: Call, values: Sequence[Array], errors: Sequence[Reals | None], made: Array
) -> Reals | None:
    """Bound the error of updates that are combined with what stands at their places."""
    data = data_places(op, len(values))
    if any(e is not None for p, e in enumerate(errors) if p not in data):
        return np.full(made.shape, ANYTHING)
    if call.attributes["reduce"] in ("max", "min"):
        if all(e is None for e in errors):
            return None
        worst = max(float(np.max(e, initial=0.0)) for e in errors if e is not None)
        return np.full(made.shape, worst)
    if made.dtype.kind != "f":
        return None if all(e is None for e in errors) else np.full(made.shape, ANYTHING)
    assert op.meaning is not None
    sizes = [
        np.abs(v) + (0.0 if e is None else e) if p in data else v
        for p, (v, e) in enumerate(zip(values, errors, strict=True))
    ]
    whole = np.asarray(op.meaning(call, *sizes))
    plain = [np.abs(v) if p in data else v for p, v in enumerate(values)]
    base = np.asarray(op.meaning(call, *plain))
    updates = values[max(data)].reshape(1, -1)
    lost = accumulated(base, _met(op, call, values, data), alike(updates)) + (whole - base)
    return overflowed(lost, base, made) if call.attributes["reduce"] == "sum" else lost


def _met(op: Op, call: Call, values: Sequence[Array], data: Collection[int]) -> Reals:
    """Count what comes together at each place; indices may send all updates to one."""
    assert op.meaning is not None
    counted = replace(call, attributes={**call.attributes, "reduce": "sum"})
    ones = [np.ones(v.shape) if place in data else v for place, v in enumerate(values)]
    return np.asarray(op.meaning(counted, *ones))


def settled(error: Reals | None, made: Array, dtype: Dtype) -> Reals | None:
    """Drop an error that is zero everywhere, and let an overflow that came back be anything."""
    if error is None:
        return None
    if made.dtype.kind == "f":
        overflows = np.isinf(error)
        if overflows.any():
            size, largest = np.abs(made), FORMATS[dtype].largest if dtype in FORMATS else np.inf
            error = np.where(overflows & (size <= largest), ANYTHING, error)
            error = np.where(overflows & ~np.isfinite(made), 0.0, error)
    return error if (error != 0).any() else None
