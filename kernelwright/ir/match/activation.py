"""The logistic function and what stands on one op, as patterns."""

from kernelwright.ir.match.pattern import Bind, Either, Made, Number, Pattern
from kernelwright.ir.match.row import square_of

X = Bind("x")
ONE_AND_POWER = Made(("add",), (Made(("exp",), (Made(("negative",), (X,)),)), Number(1.0)))
"""`1 + exp(-x)`, below which a logistic function's numerator stands."""
OVER_SIGMOID = Made(("divide",), (Bind("above"), ONE_AND_POWER))
"""Anything times the logistic function, written as a division."""
_SIZE = Made(("abs",), (X,))
_OPPOSITE_SIZE = Made(("negative",), (_SIZE,))
_ABOVE, _BELOW = ("greater", "greater_equal"), ("less", "less_equal")
POSITIVE, NEGATIVE = (
    Either((Made(one, (X, Number(0.0))), Made(other, (Number(0.0), X))))
    for one, other in ((_ABOVE, _BELOW), (_BELOW, _ABOVE))
)
_OF_POSITIVE, _OF_NEGATIVE = (Made(("sigmoid",), (x,)) for x in (_SIZE, _OPPOSITE_SIZE))
STABLE_LOGISTIC = Either(
    (
        Made(("select",), (POSITIVE, _OF_POSITIVE, _OF_NEGATIVE)),
        Made(("select",), (NEGATIVE, _OF_NEGATIVE, _OF_POSITIVE)),
    )
)
"""The logistic function by the exponential of no positive number, which never overflows.

What it chooses from are logistic functions already, of a size and of its opposite.
"""
_TWICE = Made(("add",), (X, Made(("abs",), (X,))))
"""Twice what is positive of x."""


def _chosen(positive: Pattern) -> Either:
    """Return a pattern where x is positive, and zero elsewhere."""
    return Either(
        (
            Made(("select",), (POSITIVE, positive, Number(0.0))),
            Made(("select",), (NEGATIVE, Number(0.0), positive)),
        )
    )


_OPPOSITE = Made(("negative",), (X,))
BELOW_IS_ZERO = Made(("select",), (NEGATIVE, Number(0.0), X))
"""Zero where x is below zero, and else x, which may be NaN."""
_IS_FROM_ZERO_ON = Either(
    (
        Made(("greater_equal",), (X, Number(0.0))),
        Made(("less_equal",), (Number(0.0), X)),
    )
)
FROM_ZERO_ON = Made(("select",), (_IS_FROM_ZERO_ON, X, Number(0.0)))
"""x from zero on, and else zero, of NaN too."""
BELOW_IS_OPPOSITE = Either(
    (
        Made(("maximum",), (X, _OPPOSITE)),
        Made(("select",), (POSITIVE, X, _OPPOSITE)),
        Made(("select",), (NEGATIVE, _OPPOSITE, X)),
    )
)
"""The size of x as a choice between it and its opposite."""
RELU = Either(
    (
        Made(("maximum",), (X, Number(0.0))),
        *_chosen(X).patterns,
        Made(("multiply",), (X, POSITIVE)),
        Made(("multiply",), (Number(0.5), _TWICE)),
        Made(("divide",), (_TWICE, Number(2.0))),
        Made(("negative",), (Made(("minimum",), (Made(("negative",), (X,)), Number(0.0))),)),
        Made(("subtract",), (X, Made(("minimum",), (X, Number(0.0))))),
    )
)
SQUARED_RELU = Either(
    (
        *square_of(RELU).patterns,
        *_chosen(square_of(X)).patterns,
        Made(("multiply",), (X, RELU)),
        Made(("multiply",), (square_of(X), POSITIVE)),
    )
)


def _softplus_of(operand: Pattern, opposite: Pattern) -> tuple[Pattern, ...]:
    """Return ways to write the logarithm of one and the exponential of an operand."""
    power = Made(("exp",), (operand,))
    rest = Made(("subtract",), (Number(1.0), Made(("sigmoid",), (operand,))))
    return (
        Made(("logaddexp",), (operand, Number(0.0))),
        Made(("logaddexp",), (Number(0.0), operand)),
        Made(("log1p",), (power,)),
        Made(("log",), (Made(("add",), (power, Number(1.0))),)),
        Made(("negative",), (Made(("log",), (Made(("sigmoid",), (opposite,)),)),)),
        Made(("negative",), (Made(("log",), (rest,)),)),
    )


SOFTPLUS = Either(
    (
        *_softplus_of(X, _OPPOSITE),
        Made(("add",), (RELU, Either(_softplus_of(_OPPOSITE_SIZE, _SIZE)))),
        Made(("subtract",), (RELU, Made(("log",), (Made(("sigmoid",), (_SIZE,)),)))),
    )
)
"""As it is defined, or by the exponential of no positive number, which never overflows."""
