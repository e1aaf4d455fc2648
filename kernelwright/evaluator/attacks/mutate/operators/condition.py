"""Mistakes in masks and choices: inverted, moved, ties the other way, guards of NaN and zero."""

from collections.abc import Iterator

from kernelwright.evaluator.attacks.mutate.record import TextOperator
from kernelwright.evaluator.attacks.mutate.text import COMPARISONS, Change, MetalText, Operand

_OTHER_STRICTNESS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_TESTS = ("isnan", "isinf", "isfinite")


def _masks(text: MetalText) -> Iterator[tuple[int, bool]]:
    """Yield the comparisons that are no loop's and no `if`'s."""
    ifs = (*text.conditions, *(Operand(loop.opening, loop.closing) for loop in text.loops))
    for place in text.binaries(*COMPARISONS):
        if not any(c.first <= place <= c.last for c in ifs):
            yield place, any(c[0].first <= place <= c[0].last for c in text.choices)


def _mask_strictness(text: MetalText) -> Iterator[Change]:
    for place, _ in _masks(text):
        if other := _OTHER_STRICTNESS.get(text.words[place]):
            yield text.change(place, place, other)


def _mask_moved(text: MetalText) -> Iterator[Change]:
    for place, _ in _masks(text):
        bound = text.right_operand(place)
        for move in ("+ 1", "- 1"):
            new = f"({text.operand_text(bound)} {move})"
            yield text.change(bound.first, bound.last, new)


def _condition_inverted(text: MetalText) -> Iterator[Change]:
    for condition in (*text.conditions, *(c for c, _, _ in text.choices)):
        new = f"!({text.operand_text(condition)})"
        yield text.change(condition.first, condition.last, new)


def _choice_made(text: MetalText) -> Iterator[Change]:
    """Take one side of a choice always."""
    for condition, first, second in text.choices:
        for kept in (first, second):
            new = f"({text.operand_text(kept)})"
            yield text.change(condition.first, second.last, new)


def _or_for_and(text: MetalText) -> Iterator[Change]:
    for place in text.binaries("&&", "||"):
        yield text.change(place, place, "||" if text.words[place] == "&&" else "&&")


def _equality_changed(text: MetalText) -> Iterator[Change]:
    for place in text.binaries("==", "!="):
        for other in sorted({"==", "!=", "<=", ">="} - {text.words[place]}):
            yield text.change(place, place, other)


def _nan_guard_dropped(text: MetalText) -> Iterator[Change]:
    for name, _ in text.calls(*_TESTS):
        new = "true" if text.words[name] == "isfinite" else "false"
        yield text.change(text.call_start(name), text.partner[name + 1], new)


OPERATORS = (
    TextOperator(
        "tie the other way", "conditions", "`>` becomes `>=` in a choice", _mask_strictness
    ),
    TextOperator("mask moved", "conditions", "a mask is one wider or narrower", _mask_moved),
    TextOperator("condition inverted", "conditions", "`c` becomes `!c`", _condition_inverted),
    TextOperator("choice made", "conditions", "one side of `?:` always", _choice_made),
    TextOperator("or for and", "conditions", "`&&` becomes `||`, and back", _or_for_and),
    TextOperator(
        "equality changed", "conditions", "`==` becomes `!=`, `<=` or `>=`", _equality_changed
    ),
    TextOperator("NaN guard dropped", "guards", "`isnan(x)` becomes `false`", _nan_guard_dropped),
)
