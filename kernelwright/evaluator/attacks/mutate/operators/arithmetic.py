"""Mistakes in formulas: operands, terms, constants, and functions that are like others."""

import re
from collections.abc import Iterator

from kernelwright.evaluator.attacks.mutate.record import TextOperator
from kernelwright.evaluator.attacks.mutate.text import Change, MetalText
from kernelwright.metal.msl.token import TokenKind

_REAL = re.compile(r"(\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+)([fh]?)$", re.IGNORECASE)
_WHOLE = re.compile(r"(\d+)([uU]?)$")
_OTHER_FUNCTION = {
    "exp": "exp2",
    "exp2": "exp",
    "log": "log2",
    "log2": "log",
    "sqrt": "rsqrt",
    "rsqrt": "sqrt",
    "sin": "cos",
    "cos": "sin",
    "tanh": "tan",
    "floor": "ceil",
    "ceil": "floor",
    "rint": "floor",
    "round": "trunc",
    "trunc": "rint",
    "max": "min",
    "min": "max",
    "fmax": "fmin",
    "fmin": "fmax",
    "larger": "smaller",
    "abs": "",
    "fabs": "",
    "clamp": "",
    "isnan": "isinf",
    "isinf": "isnan",
}
"""Where nothing stands, the function's first argument takes its place."""
_ORDERED = ("pow", "powr", "atan2", "fmod", "divide", "copysign", "ldexp", "step", "select")
_PRECISE = ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "sqrt", "rsqrt", "divide", "pow")


def _operands_swapped(text: MetalText) -> Iterator[Change]:
    for place in text.binaries("-", "/"):
        left, right = text.left_operand(place), text.right_operand(place)
        a, b = text.operand_text(left), text.operand_text(right)
        yield text.change(left.first, right.last, f"(({b}) {text.words[place]} ({a}))")
    for _, arguments in text.calls(*_ORDERED):
        if len(arguments) >= 2:
            first, second = arguments[0], arguments[1]
            a, b = text.operand_text(first), text.operand_text(second)
            yield text.change(first.first, second.last, f"{b}, {a}")


def _term_dropped(text: MetalText) -> Iterator[Change]:
    for place in text.binaries("+", "-"):
        if text.is_index(place):
            continue
        left, right = text.left_operand(place), text.right_operand(place)
        yield text.change(left.first, right.last, text.operand_text(left))
        sign = "-" if text.words[place] == "-" else ""
        yield text.change(left.first, right.last, f"({sign}({text.operand_text(right)}))")


def _factor_dropped(text: MetalText) -> Iterator[Change]:
    for place in text.binaries("*", "/"):
        if text.is_index(place):
            continue
        left, right = text.left_operand(place), text.right_operand(place)
        yield text.change(left.first, right.last, text.operand_text(left))
        if text.words[place] == "*":
            yield text.change(left.first, right.last, text.operand_text(right))


def _fused_term_dropped(text: MetalText) -> Iterator[Change]:
    for name, arguments in text.calls("fma"):
        if len(arguments) != 3:
            continue
        a, b, c = map(text.operand_text, arguments)
        start, end = text.call_start(name), text.partner[name + 1]
        for new in (f"(({a}) * ({b}))", f"({c})", f"(({c}) - ({a}) * ({b}))"):
            yield text.change(start, end, new)


def _sign_changed(text: MetalText) -> Iterator[Change]:
    for place in text.binaries("+", "-"):
        if not text.is_index(place):
            yield text.change(place, place, "-" if text.words[place] == "+" else "+")
    binaries = set(text.binaries("-"))
    for place, word in enumerate(text.words):
        if word == "-" and place not in binaries:
            yield text.change(place, place, "")


def _product_for_quotient(text: MetalText) -> Iterator[Change]:
    for place in text.binaries("*", "/"):
        if not text.is_index(place):
            yield text.change(place, place, "/" if text.words[place] == "*" else "*")


def _reals(text: MetalText) -> Iterator[tuple[int, str, str]]:
    """Yield place, digits and suffix of every constant with a fraction or an exponent."""
    for place, token in enumerate(text.tokens):
        if token.kind is TokenKind.NUMBER and (match := _REAL.match(token.text)):
            yield place, match[1], match[2]


def _constant_scaled(text: MetalText) -> Iterator[Change]:
    for place, digits, suffix in _reals(text):
        for factor in (1.01, 0.0, -1.0):
            value = float(digits) * factor
            if value != float(digits):
                yield text.change(place, place, _literal(value, suffix))
        if float(digits) == 0.0:
            yield text.change(place, place, _literal(1.0, suffix))


def _literal(value: float, suffix: str) -> str:
    text = repr(value)
    text = text if "." in text or "e" in text else f"{text}.0"
    return f"({text}{suffix})" if value < 0 or text.startswith("-") else f"{text}{suffix}"


def _last_digit_changed(text: MetalText) -> Iterator[Change]:
    for place, digits, suffix in _reals(text):
        mantissa, mark, exponent = digits.partition("e")
        if 4 <= len(mantissa.replace(".", "").lstrip("0")) <= 7 and mantissa[-1].isdigit():
            last = str((int(mantissa[-1]) + 3) % 10)
            yield text.change(place, place, f"{mantissa[:-1]}{last}{mark}{exponent}{suffix}")


def _whole_constant_moved(text: MetalText) -> Iterator[Change]:
    for place, token in enumerate(text.tokens):
        if token.kind is TokenKind.NUMBER and (match := _WHOLE.match(token.text)):
            value = int(match[1])
            for other in (value + 1, value - 1, value // 2):
                if other >= 0 and other != value:
                    yield text.change(place, place, f"{other}{match[2]}")


def _other_function(text: MetalText) -> Iterator[Change]:
    for name, arguments in text.calls(*_OTHER_FUNCTION):
        other = _OTHER_FUNCTION[text.words[name]]
        if other:
            yield text.change(name, name, other)
        elif arguments:
            start, end = text.call_start(name), text.partner[name + 1]
            yield text.change(start, end, f"({text.operand_text(arguments[0])})")


def _clamp_dropped(text: MetalText) -> Iterator[Change]:
    """Put an argument of a maximum or minimum in its place."""
    for name, arguments in text.calls("max", "min", "fmax", "fmin", "larger", "smaller", "clamp"):
        start, end = text.call_start(name), text.partner[name + 1]
        for argument in arguments[:2]:
            yield text.change(start, end, f"({text.operand_text(argument)})")


def _fast_function(text: MetalText) -> Iterator[Change]:
    for name, _ in text.calls(*_PRECISE):
        if text.word(name - 2) == "precise":
            yield text.change(name - 2, name - 2, "fast")
        elif text.word(name - 2) == "metal":
            yield text.change(name, name, f"fast::{text.words[name]}")


def _approximation(text: MetalText) -> Iterator[Change]:
    """Replace a function by one that is right to two or three digits."""
    for name, arguments in text.calls("exp", "log", "tanh", "rsqrt", "sqrt", "erf"):
        if len(arguments) != 1:
            continue
        x = text.operand_text(arguments[0])
        close = {
            "exp": f"metal::exp2(1.4427f * float({x}))",
            "log": f"(0.6931f * metal::log2(float({x})))",
            "rsqrt": f"float(half(metal::rsqrt(float({x}))))",
            "sqrt": f"float(half(metal::sqrt(float({x}))))",
            "tanh": f"float(half(metal::tanh(float({x}))))",
            "erf": f"metal::tanh(1.1284f * float({x}))",
        }[text.words[name]]
        yield text.change(text.call_start(name), text.partner[name + 1], close)


OPERATORS = (
    TextOperator("operands swapped", "operands", "`a - b` becomes `b - a`", _operands_swapped),
    TextOperator("sign changed", "operands", "`+` becomes `-`, `-x` becomes `x`", _sign_changed),
    TextOperator(
        "product for quotient", "operands", "`*` becomes `/`, and back", _product_for_quotient
    ),
    TextOperator("term dropped", "terms", "one side of a sum is gone: a bias, eps", _term_dropped),
    TextOperator("factor dropped", "terms", "one side of a product is gone", _factor_dropped),
    TextOperator("fused term dropped", "terms", "a part of an fma is gone", _fused_term_dropped),
    TextOperator("constant scaled", "constants", "times 1.01, 0 or -1", _constant_scaled),
    TextOperator("last digit changed", "constants", "the last digit of many", _last_digit_changed),
    TextOperator(
        "whole constant moved", "constants", "one more, one less, half", _whole_constant_moved
    ),
    TextOperator("other function", "functions", "exp2 for exp, min for max", _other_function),
    TextOperator("clamp dropped", "guards", "max(a, b) becomes a, or b", _clamp_dropped),
    TextOperator(
        "fast function",
        "functions",
        "`fast::exp` for `precise::exp`",
        _fast_function,
        is_choice=True,
    ),
    TextOperator("approximated function", "functions", "right to three digits", _approximation),
)
