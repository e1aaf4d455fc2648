"""Further activations and losses of one element, as patterns: bent, clipped or put together."""

import math

from kernelwright.ir.match.activation import (
    BELOW_IS_OPPOSITE,
    NEGATIVE,
    POSITIVE,
    RELU,
    SOFTPLUS,
    X,
)
from kernelwright.ir.match.pattern import Bind, Either, Made, Number, Pattern
from kernelwright.ir.match.row import LOG_2, square_of

ALPHA, GAIN, BOTH = "alpha", "gain", "gain times alpha"
"""What is below zero is multiplied by, what all is, and both of it."""
WIDTH, HALF_WIDTH, SLOPE = "width", "half of the width", "slope"
"""Where a loss begins to be straight, and how steep it is from there on."""
NUMBERS = frozenset({ALPHA, GAIN, BOTH, WIDTH, HALF_WIDTH, SLOPE})
"""Names that have to be bound to numbers."""
GATE = "gate"
_ROUNDED = 1e-6
_BELOW = Either(
    (Made(("minimum",), (X, Number(0.0))), Made(("select",), (NEGATIVE, X, Number(0.0))))
)
_SIZE = Either((Made(("abs",), (X,)), *BELOW_IS_OPPOSITE.patterns))
_ANY_SIZE = Either((_SIZE, Made(("abs",), (_SIZE,))))


def _times(factor: Pattern, operand: Pattern) -> Made:
    return Made(("multiply",), (factor, operand))


def _over(operand: Pattern, number: float) -> tuple[Made, Made]:
    """Return a number below an operand, or its reciprocal beside it."""
    return (
        Made(("divide",), (operand, Number(number))),
        _times(Number(1.0 / number, _ROUNDED), operand),
    )


def _power_less_one(operand: Pattern) -> Either:
    power = Made(("exp",), (operand,))
    return Either(
        (
            Made(("expm1",), (operand,)),
            Made(("subtract",), (power, Number(1.0))),
            Made(("add",), (power, Number(-1.0))),
        )
    )


def _bent(above: Pattern, rectified: Pattern, below: Pattern, at_most_zero: Pattern) -> Either:
    """Return one curve above zero and another below it, chosen or added up.

    Args:
        above: The one from zero on.
        rectified: The same, and zero below it.
        below: The other up to zero, whatever it is above.
        at_most_zero: The same, and zero above it.
    """
    return Either(
        (
            Made(("select",), (POSITIVE, above, below)),
            Made(("select",), (NEGATIVE, below, above)),
            Made(
                ("add",),
                (Either((at_most_zero, Made(("minimum",), (below, Number(0.0))))), rectified),
            ),
        )
    )


def _elu(factor: str) -> Either:
    """Return `x` above zero, and `factor * (exp(x) - 1)` below it."""
    low, kept = (_power_less_one(x) for x in (Either((X, _BELOW)), _BELOW))
    return _bent(X, RELU, _times(Bind(factor), low), _times(Bind(factor), kept))


ELU = Either(
    (
        *_elu(ALPHA).patterns,
        *_bent(X, RELU, _power_less_one(Either((X, _BELOW))), _power_less_one(_BELOW)).patterns,
    )
)
_GAINED = tuple(_times(Bind(GAIN), x) for x in (X, RELU))
_BOTH = tuple(
    Either((_times(Bind(BOTH), low), _times(Bind(GAIN), _times(Bind(ALPHA), low))))
    for low in (_power_less_one(Either((X, _BELOW))), _power_less_one(_BELOW))
)
SELU = Either((_times(Bind(GAIN), _elu(ALPHA)), *_bent(*_GAINED, *_BOTH).patterns))
_SHRUNK = Made(("divide",), (X, Bind(ALPHA)))
_SHRUNK_BELOW = Either(
    (Made(("divide",), (_BELOW, Bind(ALPHA))), Made(("minimum",), (_SHRUNK, Number(0.0))))
)
CELU = _bent(
    X,
    RELU,
    _times(Bind(ALPHA), _power_less_one(Either((_SHRUNK, _SHRUNK_BELOW)))),
    _times(Bind(ALPHA), _power_less_one(_SHRUNK_BELOW)),
)
MISH = _times(X, Made(("tanh",), (SOFTPLUS,)))
SOFTSIGN = Made(("divide",), (X, Made(("add",), (_SIZE, Number(1.0)))))


def _clipped(operand: Pattern, least: float, most: float) -> Either:
    return Either(
        (
            Made(("minimum",), (Made(("maximum",), (operand, Number(least))), Number(most))),
            Made(("maximum",), (Made(("minimum",), (operand, Number(most))), Number(least))),
        )
    )


HARD_TANH = _clipped(X, -1.0, 1.0)
_RAMP = _clipped(Made(("add",), (X, Number(3.0))), 0.0, 6.0)
_UNIT_RAMP = Either(
    (
        *_over(_RAMP, 6.0),
        *(
            way
            for slope in _over(X, 6.0)
            for way in _clipped(Made(("add",), (slope, Number(0.5))), 0.0, 1.0).patterns
        ),
    )
)
HARD_SWISH = Either(
    (
        *_over(_times(X, _RAMP), 6.0),
        _times(X, _UNIT_RAMP),
        _times(Either(_over(X, 6.0)), _RAMP),
    )
)
_ONE, _OTHER = Bind("one"), Bind("other")
_OPPOSITES = (
    (X, Made(("negative",), (X,))),
    (Made(("subtract",), (_ONE, _OTHER), name="x"), Made(("subtract",), (_OTHER, _ONE))),
)
"""x and its opposite, which of a difference is read as the difference the other way round."""
_LOG_COSH_TWICE = Either(
    tuple(Made(("logaddexp",), way) for pair in _OPPOSITES for way in (pair, pair[::-1]))
)
LOG_COSH = Either(
    (
        Made(("log",), (Made(("cosh",), (X,)),)),
        Made(("subtract",), (_LOG_COSH_TWICE, LOG_2)),
        Made(("add",), (_LOG_COSH_TWICE, Number(-math.log(2.0), _ROUNDED))),
    )
)


def _half_square(operand: Pattern) -> Either:
    square = square_of(operand)
    return Either(
        (
            *_over(square, 2.0),
            _times(operand, Either(_over(operand, 2.0))),
        )
    )


_NEAR = Either(
    tuple(Made((op,), (_ANY_SIZE, Bind(WIDTH))) for op in ("less", "less_equal"))
    + tuple(Made((op,), (Bind(WIDTH), _ANY_SIZE)) for op in ("greater", "greater_equal"))
)
_FAR = Either(
    tuple(Made((op,), (_ANY_SIZE, Bind(WIDTH))) for op in ("greater", "greater_equal"))
    + tuple(Made((op,), (Bind(WIDTH), _ANY_SIZE)) for op in ("less", "less_equal"))
)
_PAST_HALF = Made(("subtract",), (_ANY_SIZE, Bind(HALF_WIDTH)))


def _by_distance(near: Pattern, far: Pattern) -> tuple[Made, Made]:
    return Made(("select",), (_NEAR, near, far)), Made(("select",), (_FAR, far, near))


_HALF_SQUARE = _half_square(Either((X, _ANY_SIZE)))
_CUT = Made(("minimum",), (_SIZE, Bind(WIDTH)))
HUBER = Either(
    (
        *_by_distance(_HALF_SQUARE, _times(Bind(SLOPE), _PAST_HALF)),
        Made(
            ("add",),
            (_half_square(_CUT), _times(Bind(SLOPE), Made(("subtract",), (_SIZE, _CUT)))),
        ),
    )
)
"""Half a square up to a width, and from there on a line as steep as the square is there."""
SMOOTH_L1 = Either(
    (
        *_by_distance(Made(("divide",), (_HALF_SQUARE, Bind(SLOPE))), _PAST_HALF),
        *_by_distance(_HALF_SQUARE, _PAST_HALF),
    )
)
"""The same over its width, so that lines are as steep as the size itself."""
GLU = Either(
    (
        _times(X, Made(("sigmoid",), (Bind(GATE),))),
        Made(
            ("divide",),
            (
                X,
                Made(
                    ("add",), (Made(("exp",), (Made(("negative",), (Bind(GATE),)),)), Number(1.0))
                ),
            ),
        ),
    )
)
