"""The logistic function and what stands on one op, as patterns."""

from kernelwright.ir.match.pattern import Bind, Either, Made, Number
from kernelwright.ir.match.row import inverse_of, square_of

X = Bind("x")
ONE_AND_POWER = Made(("add",), (Made(("exp",), (Made(("negative",), (X,)),)), Number(1.0)))
"""`1 + exp(-x)`, below which a logistic function's numerator stands."""
SIGMOID = Either((Made(("sigmoid",), (X,)), inverse_of(ONE_AND_POWER)))
OVER_SIGMOID = Made(("divide",), (Bind("above"), ONE_AND_POWER))
"""Anything times the logistic function, written as a division."""
_POSITIVE = Either(
    (
        Made(("greater", "greater_equal"), (X, Number(0.0))),
        Made(("less", "less_equal"), (Number(0.0), X)),
    )
)
RELU = Either(
    (
        Made(("maximum",), (X, Number(0.0))),
        Made(("select",), (_POSITIVE, X, Number(0.0))),
        Made(("multiply",), (X, _POSITIVE)),
        Made(("multiply",), (Number(0.5), Made(("add",), (X, Made(("abs",), (X,)))))),
    )
)
SQUARED_RELU = square_of(RELU)
_POWER = Made(("exp",), (X,))
_SMALL_POWER = Made(("exp",), (Made(("negative",), (Made(("abs",), (X,)),)),))
SOFTPLUS = Either(
    (
        Made(("logaddexp",), (X, Number(0.0))),
        Made(("log1p",), (_POWER,)),
        Made(("log",), (Made(("add",), (_POWER, Number(1.0))),)),
        Made(("add",), (RELU, Made(("log1p",), (_SMALL_POWER,)))),
    )
)
