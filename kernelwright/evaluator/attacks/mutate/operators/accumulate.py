"""Mistakes in sums and in roundings: accumulators, sentinels, casts."""

from collections.abc import Iterator

from kernelwright.evaluator.attacks.mutate.record import TextOperator
from kernelwright.evaluator.attacks.mutate.text import Change, MetalText
from kernelwright.metal.msl.token import TokenKind

_SENTINELS = ("INFINITY", "HUGE_VALF", "FLT_MAX", "HALF_MAX", "MAXFLOAT")
_FINITE = ("0.0f", "1e9f", "65504.0f", "3.4028235e38f", "INFINITY")
_LARGE = 1e3
_KEPT_BITS = {"half": "0xFFFFE000u", "bfloat16_t": "0xFFFF0000u", "bfloat": "0xFFFF0000u"}
"""What is left of a float's bits where it is cut to the format."""


def _accumulators(text: MetalText) -> frozenset[str]:
    """Return the names that are added to."""
    return frozenset(
        text.words[place - 1]
        for place, word in enumerate(text.words)
        if word in ("+=", "-=") and text.is_name(place - 1)
    )


def _is_number(text: MetalText, place: int) -> bool:
    return text.tokens[place].kind is TokenKind.NUMBER


def _initial_value_changed(text: MetalText) -> Iterator[Change]:
    for kind, name, value in text.declarations():
        is_constant = value.first == value.last and _is_number(text, value.first)
        is_float = text.words[kind] in ("float", "half", "auto")
        if is_constant and is_float and text.words[name] in _accumulators(text):
            for other in ("1.0f", "1e-3f"):
                yield text.change(value.first, value.last, other)


def _never_reset(text: MetalText) -> Iterator[Change]:
    """Declare what a loop's body starts afresh before the loop."""
    for kind, _, value in text.declarations():
        opening = text.around[kind]
        if opening < 0 or text.word(opening - 1) != ")":
            continue
        head = text.partner.get(opening - 1, 0)
        first = kind
        while text.word(first - 1) in ("const", "threadgroup"):
            first -= 1
        last = text.statement(value.last).last
        is_constant = all(_is_number(text, p) for p in range(value.first, value.last + 1))
        if text.word(head - 1) in ("for", "while") and is_constant:
            loop, declaration = text.tokens[head - 1].offset, text.text(first, last)
            between = text.source[loop : text.tokens[first].offset]
            yield Change(loop, text.tokens[last].end, f"{declaration} {between}")


def _accumulation_replaced(text: MetalText) -> Iterator[Change]:
    for place, word in enumerate(text.words):
        if word in ("+=", "-=", "*=") and not text.is_in_loop_header(place):
            for other in sorted({"=", "+=", "-="} - {word}):
                yield text.change(place, place, other)


def _sum_for_maximum(text: MetalText) -> Iterator[Change]:
    for place, word in enumerate(text.words):
        if word != "+=" or text.is_in_loop_header(place):
            continue
        statement = text.statement(place)
        target = text.text(statement.first, place - 1)
        value = text.text(place + 1, statement.last - 1)
        new = f"{target} = metal::max(float({target}), float({value}));"
        yield text.change(statement.first, statement.last, new)


def _sentinel_changed(text: MetalText) -> Iterator[Change]:
    for place, word in enumerate(text.words):
        if word in _SENTINELS or (word.endswith("_MAX") and text.is_name(place)):
            for other in _FINITE:
                if other != word:
                    yield text.change(place, place, other)
        is_large = text.tokens[place].kind is TokenKind.NUMBER and _value(word) >= _LARGE
        if is_large and ("e" in word or "." in word) and not word.startswith("0x"):
            for other in ("0.0f", "INFINITY"):
                yield text.change(place, place, other)


def _value(word: str) -> float:
    try:
        return float(word.rstrip("fFhHuU"))
    except ValueError:
        return 0.0


def _rounded_on_the_way(text: MetalText) -> Iterator[Change]:
    for kind, _, value in text.declarations():
        if text.words[kind] == "float" and value.first != value.last:
            for narrow in ("half", "bfloat16_t"):
                new = f"float({narrow}({text.operand_text(value)}))"
                yield text.change(value.first, value.last, new)


def _narrow_accumulator(text: MetalText) -> Iterator[Change]:
    known = _accumulators(text)
    for kind, name, _ in text.declarations():
        if text.words[kind] == "float" and text.words[name] in known:
            for narrow in ("half", "bfloat16_t"):
                yield text.change(kind, kind, narrow)


def _narrow_memory(text: MetalText) -> Iterator[Change]:
    """Keep a thread's or threadgroup's array of floats in halves."""
    for place, word in enumerate(text.words[:-2]):
        if word == "float" and text.is_name(place + 1) and text.words[place + 2] == "[":
            yield text.change(place, place, "half")


def _truncated(text: MetalText) -> Iterator[Change]:
    for name, arguments in text.calls(*_KEPT_BITS):
        if len(arguments) == 1:
            bits = f"as_type<uint>(float({text.operand_text(arguments[0])}))"
            kept = f"as_type<float>({bits} & {_KEPT_BITS[text.words[name]]})"
            yield text.change(arguments[0].first, arguments[0].last, kept)


def _cast_changed(text: MetalText) -> Iterator[Change]:
    for name, arguments in text.calls("half", "bfloat16_t", "float", "int", "uint"):
        if len(arguments) == 1:
            inner = text.operand_text(arguments[0])
            yield text.change(name, text.partner[name + 1], f"({inner})")
            if text.words[name] == "float":
                yield text.change(name, text.partner[name + 1], f"float(int({inner}))")
                yield text.change(name, text.partner[name + 1], f"float(bfloat16_t({inner}))")


def _uninitialised(text: MetalText) -> Iterator[Change]:
    for kind, name, value in text.declarations():
        is_first = text.word(kind - 1) in ("", ";", "{", "}")
        if is_first and text.words[kind] != "auto":
            yield text.change(name, value.last, text.words[name])


OPERATORS = (
    TextOperator(
        "initial value changed",
        "accumulators",
        "a sum starts at 1, or 1e-3",
        _initial_value_changed,
    ),
    TextOperator(
        "never reset",
        "accumulators",
        "a loop's own variable lives on in the next turn",
        _never_reset,
    ),
    TextOperator(
        "accumulation replaced", "accumulators", "`+=` becomes `=` or `-=`", _accumulation_replaced
    ),
    TextOperator("maximum for sum", "accumulators", "`+=` becomes a maximum", _sum_for_maximum),
    TextOperator(
        "narrow accumulator",
        "accumulators",
        "a float that is added to is a half",
        _narrow_accumulator,
    ),
    TextOperator("narrow memory", "casts", "an array of floats is one of halves", _narrow_memory),
    TextOperator(
        "sentinel changed", "sentinels", "0, 1e9, 65504 or FLT_MAX for INFINITY", _sentinel_changed
    ),
    TextOperator(
        "rounded on the way", "casts", "a float goes through half or bfloat16", _rounded_on_the_way
    ),
    TextOperator("truncated", "casts", "a result is cut instead of rounded", _truncated),
    TextOperator("cast changed", "casts", "a cast is gone, or another", _cast_changed),
    TextOperator(
        "uninitialised",
        "accumulators",
        "`float s = 0;` becomes `float s;`",
        _uninitialised,
        shows_in_code=False,
    ),
)
