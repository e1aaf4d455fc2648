"""Gives integer arithmetic that has no value one, before an optimiser concludes anything from it.

LLVM takes for granted that no divisor is zero, that no quotient overflows and that no shift is as
wide as its operand: where it finds one, it drops what hangs on the result, a store too. On a GPU
the store happens. So a quotient and a remainder without a value are 0 here, and of a shift's
amount the lowest bits count, in every build.

The listing is that of clang's front end, in which each operation is still what the text says.
"""

import re
from collections.abc import Iterator

GUARD = "%kw.sound."
"""With this begin the names of what is added; the text does none of it."""
_OPERAND = r"(?:[A-Za-z_(~!+-]|0(?!\.)|\.\.\.)"
_WORDS = re.compile(
    r"%|#\s*include\s*\"|##|\belem_to_loc|\bLoopedElemToLoc\b"
    rf"|(?<![/*])/(?![/*])=?\s*{_OPERAND}"
    r"|<<=?+\s*+(?!(?:[0-9]|[12][0-9]|3[01])\b(?!\s*[-+*/%.]))"
    r"|>>=?+\s*+(?!(?:[0-9]|[12][0-9]|3[01])\b(?!\s*[-+*/%.])|[>)(,;{&*:]|\w+\s*[({=;,)])"
    r"|>>\s*\("
)
_OPERATION = re.compile(
    r"^  (?P<result>%\S+) = (?P<operation>[su](?:div|rem)|shl|[la]shr) "
    r"(?:(?:nuw|nsw|exact) )*(?P<type>i(?P<bits>\d+)|<\d+ x i(?P<lane_bits>\d+)>) "
    r"(?P<left>\S+), (?P<right>[^,\s]+)(?P<rest>(?:, .*)?)$"
)
_POISON = re.compile(r"\b(i\d+|half|bfloat|float|double) poison\b")
_SECOND_POISON = re.compile(r"^(  %\S+ = \w+ (?:(?:nuw|nsw|exact|disjoint) )*i\d+ \S+, )poison\b")


def may_lack_value(text: str) -> bool:
    """Return whether a text may divide, or shift by more than a small number, or includes what may.

    Quotients of floats look alike where no literal tells them.
    """
    return _WORDS.search(text) is not None


def with_sound_arithmetic(listing: str) -> str:
    """Return a listing, not optimised yet, in which every integer operation has a value."""
    lines = listing.split("\n")
    return "\n".join(new for n, line in enumerate(lines) for new in _made_sound(line, n))


def _made_sound(line: str, number: int) -> Iterator[str]:
    found = _OPERATION.match(line)
    if found is None:
        if " poison" in line:
            line = _SECOND_POISON.sub(r"\g<1>0", _POISON.sub(_zero, line))
        yield line
    elif found["operation"].endswith(("l", "shr")):
        yield from _shifted(line, found, number)
    else:
        yield from _divided(line, found, number)


def _zero(found: re.Match[str]) -> str:
    return f"{found[1]} {'0' if found[1][0] == 'i' else '0.0'}"


def _shifted(line: str, found: re.Match[str], number: int) -> Iterator[str]:
    bits = _bits(found)
    if found["right"].isdigit() and int(found["right"]) < bits:
        yield line
        return
    amount = f"{GUARD}amount{number}"
    yield f"  {amount} = and {found['type']} {found['right']}, {_all(found, bits - 1)}"
    yield _with(found, amount, found["result"])


def _divided(line: str, found: re.Match[str], number: int) -> Iterator[str]:
    if found["right"].lstrip("-").isdigit() and found["right"] not in ("0", "-1"):
        yield line
        return
    type_, one = found["type"], _all(found, 1)
    condition = type_.replace(f"i{_bits(found)}", "i1")
    none, divisor = f"{GUARD}none{number}", f"{GUARD}divisor{number}"
    yield f"  {none} = icmp eq {type_} {found['right']}, {_all(found, 0)}"
    if found["operation"][0] == "s":
        least, minus, over = (f"{GUARD}{part}{number}" for part in ("least", "minus", "over"))
        lowest = _all(found, -(1 << (_bits(found) - 1)))
        yield f"  {least} = icmp eq {type_} {found['left']}, {lowest}"
        yield f"  {minus} = icmp eq {type_} {found['right']}, {_all(found, -1)}"
        yield f"  {over} = and {condition} {least}, {minus}"
        yield f"  {none}.either = or {condition} {none}, {over}"
        none = f"{none}.either"
    yield f"  {divisor} = select {condition} {none}, {type_} {one}, {type_} {found['right']}"
    if found["operation"].endswith("rem"):
        # Divided by one, nothing remains.
        yield _with(found, divisor, found["result"])
        return
    # LLVM has numbered what has no name, so that the result keeps its number.
    quotient = f"%kw.quotient{number}"
    yield _with(found, divisor, quotient)
    chosen = f"select {condition} {none}, {type_} {_all(found, 0)}, {type_} {quotient}"
    yield f"  {found['result']} = {chosen}{found['rest']}"


def _with(found: re.Match[str], right: str, result: str) -> str:
    return (
        f"  {result} = {found['operation']} {found['type']} {found['left']}, {right}{found['rest']}"
    )


def _bits(found: re.Match[str]) -> int:
    return int(found["bits"] or found["lane_bits"])


def _all(found: re.Match[str], value: int) -> str:
    """Return a constant of an operation's type, in each lane of a vector."""
    return str(value) if found["bits"] else f"splat (i{_bits(found)} {value})"
