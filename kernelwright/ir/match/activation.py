"""The logistic function and what stands on one op, as patterns."""

from kernelwright.ir.match.pattern import Bind, Either, Made, Number
from kernelwright.ir.match.row import inverse_of, square_of

X = Bind("x")
ONE_AND_POWER = Made(("add",), (Made(("exp",), (Made(("negative",), (X,)),)), Number(1.0)))
"""`1 + exp(-x)`, below which a logistic function's numerator stands."""
SIGMOID = Either((Made(("sigmoid",), (X,)), inverse_of(ONE_AND_POWER)))
OVER_SIGMOID = Made(("divide",), (Bind("above"), ONE_AND_POWER))
"""Anything times the logistic function, written as a division."""
RELU = Made(("maximum",), (X, Number(0.0)))
SQUARED_RELU = square_of(RELU)
SOFTPLUS = Made(("logaddexp",), (X, Number(0.0)))
