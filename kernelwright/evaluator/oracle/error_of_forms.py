"""What kernels lose that write a formula in its other usual form, rounded at other places."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernelwright.evaluator.oracle.float_format import Reals, half_spacing
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, Op
from kernelwright.ir.ops.op import Array

_LOGISTIC_ULPS = 8.0
"""Of `1 / (1 + exp(-x))`: an exponential, a sum and a quotient."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a value is, where kernels may compute what reads it in another way.

    `size` is the factor before `tanh`; of a maximum with a logarithm added to it, a bound of the
    logarithm. Weights of a softmax may be divided by their sum after they were rounded, which is
    then another share of them.
    """

    kind: Literal["tanh", "max", "log", "logsumexp", "softmax", "exp"]
    size: float = 1.0


_PLAIN = {"tanh": Form("tanh"), "max": Form("max"), "softmax": Form("softmax"), "exp": Form("exp")}


def form_of(
    op: Op, call: Call, forms: Sequence[Form | None], values: Sequence[Array], made: Array
) -> Form | None:
    """Recognise a value by the op that makes it and by what that reads."""
    if op.name in _PLAIN:
        return _PLAIN[op.name]
    if op.name == "cast":
        return forms[0] if forms[0] in (_PLAIN["softmax"], _PLAIN["exp"]) else None
    if op.name == "log":
        return Form("log", float(np.max(np.abs(made), initial=0.0, where=np.isfinite(made))))
    if op.name == "logsumexp":
        return Form("logsumexp", math.log(max(call.inputs[0].shape[-1], 1)))
    known = {form.kind: form for form in forms if form is not None}
    if op.name == "add" and known.keys() == {"max", "log"}:
        return Form("logsumexp", known["log"].size)
    if op.name == "negative":
        return forms[0]
    if op.name == "multiply" and known.keys() == {"tanh"} and None in forms:
        factor = _uniform(values[forms.index(None)])
        return None if factor is None else Form("tanh", abs(factor) * known["tanh"].size)
    return None


def error_of_other_form(
    op: Op, forms: Sequence[Form | None], values: Sequence[Array], made: Array
) -> Reals | None:
    """Bound what the other form of a sum or a difference loses.

    `1 + tanh(x)` may be `2 / (1 + exp(-2 x))`, and `x - (peak + log(sum))` be
    `(x - peak) - log(sum)`: the first rounds three times where a sum rounds once, the second
    rounds the distance of a value and the largest one.
    """
    if op.name not in ("add", "subtract") or made.dtype.kind != "f" or len(forms) != 2:
        return None
    for form, other in zip(forms, reversed(values), strict=True):
        if form is None:
            continue
        if form.kind == "logsumexp":
            return half_spacing(np.abs(made) + form.size, Dtype.FLOAT32)
        if form.kind == "tanh" and abs(_uniform(other) or 0.0) == form.size:
            return 2 * _LOGISTIC_ULPS * half_spacing(made, Dtype.FLOAT32)
    return None


def _uniform(values: Array) -> float | None:
    """Return the number that all elements are, if there is one."""
    if not values.size:
        return None
    first = values.flat[0]
    return float(first) if first == values.flat[-1] and bool((values == first).all()) else None
