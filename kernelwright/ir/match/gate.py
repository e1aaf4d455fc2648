"""Gates of mixtures of experts, as patterns: scores of all, the best few, and their shares."""

from dataclasses import replace

from kernelwright.ir.match.activation import SOFTPLUS
from kernelwright.ir.match.pattern import Bind, Either, Made, Number, Pattern, Row
from kernelwright.ir.match.row import AXES, SHIFTED_SOFTMAX, X, over_row

CHOSEN, PICKED, BIAS, EPSILON = "chosen", "picked", "bias", "epsilon"
_FEW, _SCORES = "axes of the few", "scores"


def _named(ways: Either) -> tuple[Made, ...]:
    return tuple(replace(way, name=_SCORES) for way in ways.patterns if isinstance(way, Made))


SCORES = Either(
    (
        Made(("softmax", "sigmoid"), (X,), name=_SCORES, axes=AXES),
        Made(("sqrt",), (SOFTPLUS,), name=_SCORES),
        *_named(SHIFTED_SOFTMAX),
    )
)
"""What each expert is worth to a row."""


def _best_of(scores: Pattern) -> Either:
    """Return the places of a few of each row's scores, which a bias may balance.

    Scores rise with what they are of, so that both have one order.
    """
    ranked = Either((scores, X, Made(("add",), (scores, Bind(BIAS)))))
    ordered = Either(
        (
            Made(("negative",), (ranked,), name="opposite"),
            Made(("multiply",), (ranked, Number(-1.0)), name="opposite"),
            ranked,
        )
    )
    return Either(
        (
            Made(("argsorted_slice",), (ordered,), name=CHOSEN, axes=AXES),
            Made(("argmax",), (ranked,), name=CHOSEN, axes=AXES),
        )
    )


def _picked_from(scores: Pattern) -> Either:
    return Either(
        (
            Made(("gather_axis",), (scores, _best_of(scores)), name=PICKED, axes=AXES),
            Made(("sorted_slice",), (scores,), name=PICKED, axes=AXES),
        )
    )


_TOTAL = Made(("sum",), (Bind(PICKED),), axes=_FEW)
SHARES = over_row(
    _picked_from(SCORES), Either((_TOTAL, Made(("add",), (_TOTAL, Row(Bind(EPSILON))))))
)
"""The best scores of each row over their sum."""
_SHIFTED_FEW = Made(
    ("subtract",), (_picked_from(X), Row(Made(("max",), (Bind(PICKED),), axes=_FEW)))
)
_POWERS = "exponentials"
_WRITTEN_OWN = over_row(
    Made(("exp",), (_SHIFTED_FEW,), name=_POWERS), Made(("sum",), (Bind(_POWERS),), axes=_FEW)
)
_LESS_ITS_LOG = Made(
    ("subtract",), (_picked_from(X), Row(Made(("logsumexp",), (Bind(PICKED),), axes=_FEW)))
)
_OWN = (
    Made(("softmax", "sigmoid"), (_picked_from(X),), name=_SCORES, axes=_FEW),
    *_named(_WRITTEN_OWN),
    Made(("exp",), (_LESS_ITS_LOG,), name=_SCORES),
)
GATE = Either((*SHARES.patterns, *_OWN, _picked_from(SCORES)))
"""Shares of the best experts: of their scores, as scores of their own logits, or the scores."""
