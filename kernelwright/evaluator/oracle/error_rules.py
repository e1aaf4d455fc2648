"""What each op adds to the error of what it reads, and what its own float32 arithmetic loses."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kernelwright.evaluator.oracle.error_of_exponentials import error_of_logsumexp, error_of_softmax
from kernelwright.evaluator.oracle.error_of_forms import error_of_other_form, form_of
from kernelwright.evaluator.oracle.error_of_moves import DATA_PLACES, errors_of_move, moves
from kernelwright.evaluator.oracle.error_of_order import (
    error_of_extreme_place,
    error_of_flags,
    error_of_sort,
)
from kernelwright.evaluator.oracle.error_of_sums import (
    UNIT,
    accumulated,
    error_of_contraction,
    error_of_prod,
    error_of_scan,
    error_of_sum,
)
from kernelwright.evaluator.oracle.error_of_views import error_of_view
from kernelwright.evaluator.oracle.float_format import (
    FLOAT32,
    FORMATS,
    Reals,
    half_spacing,
    is_inexact,
    only_where,
)
from kernelwright.evaluator.oracle.inner_extremes import farthest_inside
from kernelwright.evaluator.oracle.tracked import ANYTHING, Tracked
from kernelwright.evaluator.oracle.zero_signs import settled_zeros
from kernelwright.ir.dtype import Dtype
from kernelwright.ir.graph import Node
from kernelwright.ir.ops import Call, Kind, Op
from kernelwright.ir.ops.op import Array

_ULPS = {
    **dict.fromkeys(("divide", "sqrt", "rsqrt"), 2.5),
    **dict.fromkeys(("exp", "log", "log2", "log10", "sin", "cos", "sinh", "cosh"), 4.0),
    **dict.fromkeys(("arcsin", "arccos", "arcsinh", "arccosh"), 4.0),
    **dict.fromkeys(("arctan", "arctanh", "tanh"), 5.0),
    **dict.fromkeys(("tan", "arctan2"), 6.0),
    **dict.fromkeys(("expm1", "log1p", "erf", "erfinv", "sigmoid", "logaddexp"), 8.0),
    "power": 16.0,
}
"""Largest errors of Metal's precise functions in float32 (Metal Shading Language Specification 4,
table 8.2). Divisions and roots take 2.5: `x * rsqrt(v)` and `x * (1 / y)` are sound ways to them.
The last groups have no function there: MLX and kernels write them with exponentials and
logarithms."""
_THROUGH_EXP2 = frozenset(("exp", "expm1", "sigmoid", "sinh", "cosh", "logaddexp"))
"""Functions whose argument may be scaled by log2(e), which rounds twice, before `exp2`."""
_SINGLE = frozenset(("add", "subtract", "multiply", "square"))
"""Ops that IEEE arithmetic rounds correctly; with a half result, after a rounding to float32."""
_MOST_CORNERS = 16
_DRAWS, _LUCK = 6, 4.0


def error_of(
    node: Node, op: Op, call: Call, read: Sequence[Tracked], made: Sequence[Array]
) -> list[Tracked]:
    """Bound what a sound kernel may be off in a node's outputs, their own rounding left out."""
    if moves(op, call):
        moved = errors_of_move(op, call, read, made)
        if len(made) > 1 or moved[0].is_stored:
            return moved
        return [replace(moved[0], settled_zeros=settled_zeros(op, call, read, made[0]))]
    if op.name == "view":
        error = error_of_view(op, call, read[0], made[0])
        return [Tracked(made[0], error, call.outputs[0].dtype, is_stored=error is None)]
    errors = [r.read_error() for r in read]
    errors = [_with_flushed(r, e) for r, e in zip(read, errors, strict=True)]
    values = [r.values for r in read]
    found: list[Reals | None] = [
        _computed(node, op, call, values, errors, m, t.dtype)
        for m, t in zip(made[:1], call.outputs[:1], strict=True)
    ]
    if len(made) > 1:
        found = list(_by_draws(op, call, values, errors, made))
    forms = [r.form for r in read]
    other = error_of_other_form(op, forms, values, made[0])
    if other is not None:
        found[0] = other if found[0] is None else found[0] + other
    form = form_of(op, call, forms, values, made[0]) if len(made) == 1 else None
    zeros = settled_zeros(op, call, read, made[0]) if len(made) == 1 else None
    return [
        Tracked(
            m,
            _settled(e, m, t.dtype),
            t.dtype,
            is_stored=False,
            form=form,
            settled_zeros=zeros,
        )
        for m, e, t in zip(made, found, call.outputs, strict=True)
    ]


def _with_flushed(read: Tracked, error: Reals | None) -> Reals | None:
    """Let an operand be flushed to zero that is a float32 denormal: GPUs do that."""
    if read.dtype not in (Dtype.FLOAT32, Dtype.BFLOAT16):
        return error
    size = np.abs(read.values)
    flushed = (size < FLOAT32.least_normal) & (size > 0)
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
    if op.kind is Kind.CONTRACTION and op.name != "attention":
        return error_of_contraction(op, call, values, errors, made)
    if op.kind is Kind.SORT and op.name != "search_sorted":
        return error_of_sort(op, call, values, errors, made)
    is_exact = not any(v.dtype.kind == "f" for v in values) and not dtype.is_float
    if (op.kind is Kind.RANDOM or is_exact) and all(e is None for e in errors):
        return None
    if op.kind is Kind.INDEXING and op.name != "dequantize":
        return _combined(op, call, values, errors, made)
    drawn = next(_by_draws(op, call, values, errors, [made]))
    if op.name == "dequantize" and len(values) == 3:
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
    return np.where(_may_cancel(product, bias, overflow, None), ANYTHING, lost)


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
    carried = _carried(node, op, call, values, errors, made)
    if not dtype.is_float:
        return carried
    own = _own(op, call, values, made, dtype)
    if carried is None or own is None:
        return own if carried is None else carried
    return carried + own


def _carried(
    node: Node,
    op: Op,
    call: Call,
    values: Sequence[Array],
    errors: Sequence[Reals | None],
    made: Array,
) -> Reals | None:
    """Bound what the errors of the operands do to the result."""
    if all(e is None for e in errors):
        return None
    if op.name in ("negative", "abs", "stop_gradient"):
        return errors[0]
    is_float = all(v.dtype.kind == "f" for v in values)
    if op.name == "cast" and is_float and made.dtype.kind == "f":
        return errors[0]
    if is_float and len(values) == 2 and node.inputs[0] != node.inputs[1]:
        a, b = errors
        if op.name in ("add", "subtract"):
            zero = np.zeros(made.shape)
            whole = (zero if a is None else a) + (zero if b is None else b)
            whole = _settled_at_infinities(whole, values, errors, made)
            other = values[1] if op.name == "add" else -values[1]
            return np.where(_may_cancel(values[0], other, a, b), ANYTHING, whole)
        if op.name == "multiply":
            whole = _of_product(values, a, b)
            return _settled_at_infinities(whole, values, errors, made, is_product=True)
        if op.name in ("maximum", "minimum"):
            return b if a is None else a if b is None else np.maximum(a, b)
    if op.name == "select":
        return _selected(values, errors)
    return _at_corners(node, op, call, values, errors, made)


def _may_cancel(x: Array, y: Array, a: Reals | None, b: Reals | None) -> Array:
    """Mark sums of two infinities of opposite signs, one of which at least is an overflow."""
    overflows = [np.isinf(e) if e is not None else np.zeros(()) for e in (a, b)]
    infinite = [np.isinf(v) | (o > 0) for v, o in zip((x, y), overflows, strict=True)]
    some = (overflows[0] > 0) | (overflows[1] > 0)
    return np.asarray(some & infinite[0] & infinite[1] & (np.sign(x) != np.sign(y)))


def _settled_at_infinities(
    error: Reals,
    values: Sequence[Array],
    errors: Sequence[Reals | None],
    made: Array,
    *,
    is_product: bool = False,
) -> Reals:
    """Let infinities and NaN stand that follow from operands which are certain."""
    finite = np.isfinite(made)
    if finite.all():
        return error
    unknown = np.zeros(made.shape, bool)
    for value, own in zip(values, errors, strict=True):
        if own is not None:
            unknown |= np.isnan(own)
            if is_product:
                # What may be zero, or of the other sign, decides what an infinity times it is.
                unknown |= (np.abs(value) <= own) & (own != 0)
    for value, own in zip(values, errors, strict=True):
        certain = np.isnan(value)
        unknown &= ~(certain if own is None else certain & ~np.isnan(own))
    return np.where(finite, error, np.where(unknown, ANYTHING, 0.0))


def _of_product(values: Sequence[Array], a: Reals | None, b: Reals | None) -> Reals:
    x, y = np.abs(values[0]), np.abs(values[1])
    if b is None:
        assert a is not None
        return a * y
    if a is None:
        return b * x
    return a * y + b * x + a * b


def _selected(values: Sequence[Array], errors: Sequence[Reals | None]) -> Reals:
    condition, taken, other = values
    flip, a, b = errors
    zero = np.zeros(condition.shape)
    first, second = zero if a is None else a, zero if b is None else b
    kept = np.where(condition, first, second)
    if flip is None:
        return kept
    apart = np.abs(taken.astype(np.float64) - other) + np.maximum(first, second)
    apart = np.where(taken == other, np.maximum(first, second), apart)
    return np.where(flip == 0, kept, apart)


def _at_corners(
    node: Node,
    op: Op,
    call: Call,
    values: Sequence[Array],
    errors: Sequence[Reals | None],
    made: Array,
) -> Reals:
    """Evaluate the op where it may go furthest; equal operands move together.

    That is at the ends of what each operand may be, or within: see `farthest_inside`.
    """
    assert op.meaning is not None
    moving: dict[int, tuple[Array, Array]] = {}
    for value, array, error in zip(node.inputs, values, errors, strict=True):
        if error is not None and value not in moving:
            moving[value] = _ends(array, error)
    worst = np.zeros(made.shape)
    unknown = np.zeros(made.shape, bool)
    for error in errors:
        if error is not None:
            unknown |= np.broadcast_to(np.isnan(error), made.shape)
    for corner in itertools.islice(itertools.product((0, 1), repeat=len(moving)), _MOST_CORNERS):
        side = dict(zip(moving, corner, strict=True))
        arrays = [
            moving[v][side[v]] if v in moving else a
            for v, a in zip(node.inputs, values, strict=True)
        ]
        moved = np.asarray(op.meaning(call, *arrays))
        worst = np.fmax(worst, _distance(moved, made))
        unknown |= np.isnan(worst)
        if made.dtype.kind == "f":
            unknown |= np.isnan(moved) != np.isnan(made)
    inside = farthest_inside(op, values, errors, made)
    if inside is not None:
        unknown |= np.isnan(inside)
        worst = np.fmax(worst, inside)
    return np.where(unknown, ANYTHING, worst)


def _ends(array: Array, error: Reals) -> tuple[Array, Array]:
    if array.dtype.kind == "b":
        return array, np.where(error > 0, ~array.astype(bool), array)
    if array.dtype.kind in "iu":
        step = np.where(np.isfinite(error), error, 0).astype(array.dtype)
        return array - step, array + step
    overflows = np.isinf(error)
    low: Array = np.where(overflows, array, array - error)
    high: Array = np.where(overflows, np.copysign(np.inf, array), array + error)
    return low, high


def _distance(moved: Array, made: Array) -> Reals:
    """Return how far a result moved; equal infinities and NaN have not."""
    if made.dtype.kind == "b":
        return np.asarray((moved != made).astype(np.float64))
    away = np.abs(moved.astype(np.float64) - made.astype(np.float64))
    same = (moved == made) | ((moved != moved) & (made != made))
    return np.asarray(np.where(same, 0.0, away))


def _own(op: Op, call: Call, values: Sequence[Array], made: Array, dtype: Dtype) -> Reals | None:
    """Bound what the op's own arithmetic loses before its result is rounded to its dtype."""
    ideal = made
    if op.name in _SINGLE:
        if dtype is Dtype.FLOAT32:
            return None
        inexact = is_inexact(ideal, Dtype.FLOAT32)
        if not inexact.any():
            return None
        return only_where(inexact, half_spacing(ideal, Dtype.FLOAT32))
    ulps = _ULPS.get(op.name)
    if ulps is None:
        return None
    lost = 2 * ulps * half_spacing(ideal, Dtype.FLOAT32)
    if op.name in _THROUGH_EXP2 or op.name == "power":
        lost += _of_scaled_argument(op, call, values, ideal)
    if op.name == "erf":
        # A polynomial for all arguments: Abramowitz and Stegun 7.1.26 is off by 1.5e-7 before it
        # is rounded, MLX's own on a CPU by 4.4e-7.
        lost += 8 * UNIT
    settled = only_where(ideal != 0, lost)
    floor = FLOAT32.least_normal
    small = (np.abs(ideal) < floor) & (ideal != 0)
    return np.where(small, np.maximum(settled, floor), settled) if small.any() else settled


def _of_scaled_argument(op: Op, call: Call, values: Sequence[Array], made: Reals) -> Reals:
    if op.name == "power":
        exponent = np.abs(np.log(np.abs(made)))
        moved = 2 * UNIT * exponent * np.abs(made)
    elif op.name == "logaddexp":
        moved = 2 * UNIT * np.abs(values[0] - values[1])
        moved = np.minimum(moved, 2 * UNIT)
        # The logarithm is rounded by itself, and may cancel the larger operand.
        moved = moved + 8 * UNIT * np.abs(made - np.maximum(values[0], values[1]))
    else:
        assert op.meaning is not None
        x = values[0]
        moved = np.abs(op.meaning(call, x * (1 + 2 * UNIT)) - made)
    return only_where(np.isfinite(moved), moved)


def _reduction(
    op: Op, call: Call, x: Array, error: Reals | None, made: Array, dtype: Dtype
) -> Reals | None:
    if op.name in ("max", "min"):
        return None if error is None else np.max(error, axis=call.integers("axes"), keepdims=True)
    if op.name in ("all", "any"):
        return error_of_flags(op, call, x, error, made)
    if op.name in ("argmax", "argmin"):
        return error_of_extreme_place(op, call, x, error)
    if x.dtype.kind != "f":
        exact = error is None and not dtype.is_float
        return None if exact else error_of_sum(op, call, x.astype(np.float64), error, made)
    if op.name == "softmax":
        return error_of_softmax(x, error, made)
    if op.name == "logsumexp":
        return error_of_logsumexp(x, error, made)
    rule = error_of_prod if op.name == "prod" else error_of_sum
    return rule(op, call, x, error, made)


def _combined(
    op: Op, call: Call, values: Sequence[Array], errors: Sequence[Reals | None], made: Array
) -> Reals | None:
    """Bound the error of updates that are combined with what stands at their places."""
    data = {p % len(values) for p in DATA_PLACES[op.name]}
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
    updates = values[max(data)]
    return accumulated(base, updates.size // max(made.shape[0] if made.ndim else 1, 1)) + (
        whole - base
    )


def _by_draws(
    op: Op,
    call: Call,
    values: Sequence[Array],
    errors: Sequence[Reals | None],
    made: Sequence[Array],
) -> "itertools.chain[Reals | None]":
    """Move the operands of an op without a rule by chance, and allow more than what that does."""
    assert op.meaning is not None
    random = np.random.default_rng(0)
    worst = [np.zeros(m.shape) for m in made]
    for _ in range(_DRAWS):
        moved = [_shaken(v, e, random) for v, e in zip(values, errors, strict=True)]
        result = op.meaning(call, *moved)
        results = result if isinstance(result, tuple) else (result,)
        for place, (one, m) in enumerate(zip(results, made, strict=True)):
            worst[place] = np.maximum(worst[place], _distance(np.asarray(one), m))
    return itertools.chain(_smoothed(w, m) for w, m in zip(worst, made, strict=True))


def _shaken(value: Array, error: Reals | None, random: np.random.Generator) -> Array:
    if value.dtype.kind != "f":
        return value
    size = 4 * UNIT * np.abs(value) + (0.0 if error is None else error)
    sign = random.choice(np.array([-1.0, 1.0]), value.shape)
    return np.where(np.isfinite(size), value + sign * size, value)


def _smoothed(worst: Reals, made: Array) -> Reals:
    if made.dtype.kind != "f":
        return np.where(worst > 0, ANYTHING, 0.0)
    finite = worst[np.isfinite(worst)]
    typical = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
    return _LUCK * np.maximum(worst, typical)


def _settled(error: Reals | None, made: Array, dtype: Dtype) -> Reals | None:
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
