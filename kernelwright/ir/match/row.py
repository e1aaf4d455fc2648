"""What works on rows, as patterns: softmax, log-sum-exp and log-softmax written out."""

from kernelwright.ir.match.pattern import Bind, Either, Made, Number, Pattern, Row

AXES = "axes"
X = Bind("x")
SHIFTED = Made(("subtract",), (X, Row(Made(("max",), (X,), axes=AXES))), name="shifted")
"""x less the largest of its row."""
_POWERS = "exponentials"
_TOTAL = Made(("sum",), (Bind(_POWERS),), axes=AXES)


def softmax_of(operand: Pattern) -> Either:
    """Return exponentials of an operand over their sum, or times its reciprocal."""
    powers = Made(("exp",), (operand,), name=_POWERS)
    inverse = Made(("divide",), (Number(1.0), _TOTAL))
    return Either(
        (Made(("divide",), (powers, Row(_TOTAL))), Made(("multiply",), (powers, Row(inverse))))
    )


def logsumexp_of(operand: Pattern) -> Made:
    """Return the logarithm of the sum of the exponentials of an operand."""
    powers = Made(("exp",), (operand,))
    return Made(("log",), (Made(("sum",), (powers,), axes=AXES),))


SHIFTED_SOFTMAX = softmax_of(SHIFTED)
SHIFTED_LOGSUMEXP = logsumexp_of(SHIFTED)
LOGSUMEXP = Made(("logsumexp",), (X,))
LOG_SOFTMAX = Made(("subtract",), (X, Row(LOGSUMEXP)))
"""x less the log-sum-exp of its row."""

_ANY = Either((SHIFTED, X))
_PEAK = Row(Made(("max",), (X,), axes=AXES))
SOFTMAX = Either((Made(("softmax",), (X,), axes=AXES), *softmax_of(_ANY).patterns))
"""As one op or written out, shifted or not."""
ANY_LOGSUMEXP = Either(
    (
        Made(("logsumexp",), (X,), axes=AXES),
        Made(("add",), (SHIFTED_LOGSUMEXP, _PEAK)),
        logsumexp_of(X),
    )
)
"""As one op or written out, with the largest added again where it was subtracted."""
ANY_LOG_SOFTMAX = Made(("subtract",), (X, Row(ANY_LOGSUMEXP)))
CROSS_ENTROPY = Made(
    ("subtract",), (Row(ANY_LOGSUMEXP), Made(("gather_axis",), (X, Bind("target"))))
)
"""A row's log-sum-exp less the score at its target."""
_MIDDLE = Made(("mean",), (X,), axes=AXES, attributes=(("ddof", 0),))
CENTRED = Made(("subtract",), (X, Row(_MIDDLE)), name="centred")
"""x less the mean of its row."""
VARIANCE = Made(("mean",), (Made(("square",), (CENTRED,)),), axes=AXES)
MEAN_SQUARE = Made(
    ("mean",), (Either((Made(("square",), (X,)), Made(("multiply",), (X, X)))),), axes=AXES
)
