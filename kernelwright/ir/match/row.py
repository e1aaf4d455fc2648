"""What works on rows, as patterns: softmax, log-sum-exp and log-softmax written out."""

from kernelwright.ir.match.pattern import Bind, Either, Made, Number, Row

AXES = "axes"
X = Bind("x")
SHIFTED = Made(("subtract",), (X, Row(Made(("max",), (X,), axes=AXES))), name="shifted")
"""x less the largest of its row."""
_POWERS = "exponentials"
_TOTAL = Made(("sum",), (Bind(_POWERS),), axes=AXES)


def softmax_of(operand: Either | Made) -> Either:
    """Return exponentials of an operand over their sum, or times its reciprocal."""
    powers = Made(("exp",), (operand,), name=_POWERS)
    inverse = Made(("divide",), (Number(1.0), _TOTAL))
    return Either(
        (Made(("divide",), (powers, Row(_TOTAL))), Made(("multiply",), (powers, Row(inverse))))
    )


def logsumexp_of(operand: Either | Made) -> Made:
    """Return the logarithm of the sum of the exponentials of an operand."""
    powers = Made(("exp",), (operand,))
    return Made(("log",), (Made(("sum",), (powers,), axes=AXES),))


SHIFTED_SOFTMAX = softmax_of(SHIFTED)
SHIFTED_LOGSUMEXP = logsumexp_of(SHIFTED)
LOGSUMEXP = Made(("logsumexp",), (X,))
LOG_SOFTMAX = Made(("subtract",), (X, Row(LOGSUMEXP)))
"""x less the log-sum-exp of its row."""
