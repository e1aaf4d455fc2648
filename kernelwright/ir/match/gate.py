"""Gates of mixtures of experts, as patterns: scores of all, the best few, and their shares."""

from kernelwright.ir.match.pattern import Bind, Either, Made, Pattern, Row
from kernelwright.ir.match.row import AXES, X, over_row

CHOSEN, BIAS, EPSILON = "chosen", "bias", "epsilon"
_PICKED, _FEW = "picked", "axes of the few"
SCORES = Made(("softmax", "sigmoid"), (X,), name="scores", axes=AXES)
"""What each expert is worth to a row."""


def _best_of(scores: Pattern) -> Made:
    """Return the places of a few of each row's scores, which a bias may balance."""
    ranked = Either((scores, Made(("add",), (scores, Bind(BIAS)))))
    ordered = Either((Made(("negative",), (ranked,), name="opposite"), ranked))
    return Made(("argsorted_slice",), (ordered,), name=CHOSEN, axes=AXES, attributes=(("step", 1),))


def _picked_from(scores: Pattern) -> Made:
    return Made(("gather_axis",), (scores, _best_of(scores)), name=_PICKED, axes=AXES)


_TOTAL = Made(("sum",), (Bind(_PICKED),), axes=_FEW)
SHARES = over_row(
    _picked_from(SCORES), Either((_TOTAL, Made(("add",), (_TOTAL, Row(Bind(EPSILON))))))
)
"""The best scores of each row over their sum."""
_SOFTMAX = Made(("softmax",), (_picked_from(X),), axes=_FEW)
GATE = Either((*SHARES.patterns, _SOFTMAX, _picked_from(SCORES)))
"""Shares of the best experts: of their scores, as the softmax of their own logits, or scores."""
