"""What works on rows, as patterns: softmax, log-sum-exp, norms and losses written out."""

import math

from kernelwright.ir.match.pattern import Bind, Either, Made, Number, Pattern, Row

AXES, BY_PLACES, COUNTED = "axes", "by places", "counted"
LEAST, ADDED = "least", "added"
"""What a sum of exponentials is held above, and what is added to it, lest it be zero."""
X = Bind("x")
SHIFTED = Made(("subtract",), (X, Row(Made(("max",), (X,), axes=AXES))), name="shifted")
"""x less the largest of its row."""
_POWERS = "exponentials"
_TOTAL = Made(("sum",), (Bind(_POWERS),), axes=AXES)


def inverse_of(operand: Pattern) -> Either:
    """Return the reciprocal of an operand, as a division or as a power."""
    return Either(
        (Made(("divide",), (Number(1.0), operand)), Made(("power",), (operand, Number(-1.0))))
    )


def square_of(operand: Pattern) -> Either:
    """Return the square of an operand or of its size: one op, a product with itself, a power."""
    size = Either((operand, Made(("abs",), (operand,))))
    return Either(
        (
            Made(("square",), (size,)),
            Made(("multiply",), (size, size)),
            Made(("power",), (size, Number(2.0))),
        )
    )


def over_row(operand: Pattern, divisor: Pattern) -> Either:
    """Return an operand over one element of each row, or times its reciprocal."""
    return Either(
        (
            Made(("divide",), (operand, Row(divisor))),
            Made(("multiply",), (operand, Row(inverse_of(divisor)))),
            Made(("multiply",), (operand, inverse_of(Row(divisor)))),
        )
    )


_ROUNDED = 1e-6
"""How far people round the logarithm of two."""
LOG2_E, LOG_2 = Number(math.log2(math.e), _ROUNDED), Number(math.log(2.0), _ROUNDED)
_SCALED = Made(("multiply",), (X, LOG2_E))
_SCALED_PEAK = Either(
    (
        Row(Made(("max",), (_SCALED,), axes=AXES)),
        Row(Made(("multiply",), (Made(("max",), (X,), axes=AXES), LOG2_E))),
    )
)
SHIFTED_IN_BITS = Made(("subtract",), (_SCALED, _SCALED_PEAK))
"""x less the largest of its row, both times the logarithm of e to base two."""


def powers_of(operand: Pattern, in_bits: tuple[Pattern, ...] = ()) -> tuple[Made, ...]:
    """Return the exponentials of an operand, which may be powers of two.

    Args:
        operand: What e is raised to.
        in_bits: What two may be raised to instead, beside the operand times its factor.
    """
    exponents = (Made(("multiply",), (operand, LOG2_E)), *in_bits)
    return (
        Made(("exp",), (operand,), name=_POWERS),
        *(Made(("power",), (Number(2.0), exponent), name=_POWERS) for exponent in exponents),
    )


def softmax_of(operand: Pattern, in_bits: tuple[Pattern, ...] = ()) -> Either:
    """Return exponentials of an operand over their sum."""
    powers = powers_of(operand, in_bits)
    return Either(tuple(way for p in powers for way in over_row(p, _TOTAL).patterns))


def logsumexp_of(operand: Pattern, in_bits: tuple[Pattern, ...] = ()) -> Either:
    """Return the logarithm of the sum of the exponentials of an operand."""
    totals = [Made(("sum",), (p,), axes=AXES) for p in powers_of(operand, in_bits)]
    bits = Either(tuple(Made(("log2",), (total,)) for total in totals))
    return Either(
        (
            *(Made(("log",), (total,)) for total in totals),
            Made(("multiply",), (bits, LOG_2)),
            Made(("divide",), (bits, LOG2_E)),
        )
    )


SHIFTED_SOFTMAX = softmax_of(SHIFTED, (SHIFTED_IN_BITS,))
SHIFTED_LOGSUMEXP = logsumexp_of(SHIFTED, (SHIFTED_IN_BITS,))
LOGSUMEXP = Made(("logsumexp",), (X,))
LOG_SOFTMAX = Made(("subtract",), (X, Row(LOGSUMEXP)))
"""x less the log-sum-exp of its row."""

_ANY = Either((SHIFTED, X))
_PEAK = Row(Made(("max",), (X,), axes=AXES))
_SOFTMAX = (
    Made(("softmax",), (X,), axes=AXES),
    *softmax_of(_ANY, (SHIFTED_IN_BITS,)).patterns,
)
_SHIFTED_LOGSUMEXP = Either((Made(("logsumexp",), (SHIFTED,), axes=AXES), SHIFTED_LOGSUMEXP))
_HELD = Either(
    (
        Made(("maximum",), (_TOTAL, Row(Bind(LEAST)))),
        Made(("add",), (_TOTAL, Row(Bind(ADDED)))),
    )
)
HELD_SOFTMAX = Either(
    tuple(
        Made(("divide",), (powers, Row(_HELD))) for powers in powers_of(SHIFTED, (SHIFTED_IN_BITS,))
    )
)
"""A softmax whose sum, which is at least one, is kept from zero all the same."""
ANY_LOGSUMEXP = Either(
    (
        Made(("logsumexp",), (X,), axes=AXES),
        Made(("add",), (_SHIFTED_LOGSUMEXP, _PEAK)),
        logsumexp_of(X),
    )
)
"""As one op or written out, with the largest added again where it was subtracted."""
_LOG_SOFTMAX = Made(("subtract",), (X, Row(ANY_LOGSUMEXP)))
SOFTMAX = Either((*_SOFTMAX, Made(("exp",), (_LOG_SOFTMAX,))))
"""As one op or written out, shifted or not, or as the exponential of its logarithm."""
ANY_LOG_SOFTMAX = Either((_LOG_SOFTMAX, Made(("log",), (Either(_SOFTMAX),))))


_IS_TARGET = Made(("equal",), (Bind(COUNTED), Bind("target")))
"""Where a row's places, which are counted, are the target of the row."""


def _picked_from(scores: Pattern) -> Either:
    """Return one element of each row: by an index a row, by pairs of places, by adding zeros."""
    others_zero = Either(
        (
            Made(("select",), (_IS_TARGET, scores, Number(0.0))),
            Made(("multiply",), (_IS_TARGET, scores)),
        )
    )
    counted = Made(("arange",), (), attributes=(("start", 0.0), ("step", 1.0)))
    return Either(
        (
            Made(("gather_axis",), (scores, Bind("target")), axes=AXES),
            Made(
                ("gather",),
                (scores, counted, Bind("target")),
                name=BY_PLACES,
                attributes=(("axes", (0, 1)),),
            ),
            Made(("sum",), (others_zero,), axes=AXES),
        )
    )


CROSS_ENTROPY = Either(
    (
        Made(("subtract",), (Row(ANY_LOGSUMEXP), _picked_from(X))),
        Made(("negative",), (_picked_from(ANY_LOG_SOFTMAX),)),
        Made(
            ("subtract",),
            (Row(_SHIFTED_LOGSUMEXP), Made(("subtract",), (_picked_from(X), _PEAK))),
        ),
    )
)
"""A row's log-sum-exp less the score at its target."""
LOG_LIKELIHOOD = Either(
    (
        Made(("subtract",), (_picked_from(X), Row(ANY_LOGSUMEXP))),
        _picked_from(ANY_LOG_SOFTMAX),
        Made(
            ("subtract",),
            (Made(("subtract",), (_picked_from(X), _PEAK)), Row(_SHIFTED_LOGSUMEXP)),
        ),
    )
)
"""The same the other way round, as it stands in a loss that is negated behind its mean."""
MIDDLE = Made(("mean",), (X,), axes=AXES, attributes=(("ddof", 0),))
CENTRED = Made(("subtract",), (X, Row(MIDDLE)), name="centred")
"""x less the mean of its row."""
VARIANCE = Made(("mean",), (square_of(CENTRED),), axes=AXES)
MEAN_SQUARE = Made(("mean",), (square_of(X),), axes=AXES, attributes=(("ddof", 0),))
ANY_MEAN_SQUARE = Either(
    (
        MEAN_SQUARE,
        Made(
            ("add",),
            (
                Row(Made(("mean",), (square_of(CENTRED),), axes=AXES, attributes=(("ddof", 0),))),
                square_of(Row(MIDDLE)),
            ),
        ),
    )
)
"""As it is defined, or as the variance and the square of the mean."""
SUM_OF_SQUARES = Made(("sum",), (square_of(X),), axes=AXES)
SPREAD = Either((VARIANCE, Made(("subtract",), (Row(MEAN_SQUARE), square_of(Row(MIDDLE))))))
"""The variance as it is defined, or as the mean of squares less the square of the mean."""
