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
_NUMBER = r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?[fh]?"
_TYPE = "(?:float|half|bfloat)"
_FLOAT = rf"(?:{_NUMBER}|{_TYPE}[234]?\s*\(|\(\s*{_TYPE}\s*\)|static_cast<{_TYPE}>)"
_SUM = rf"\(\s*{_NUMBER}\s*[-+*/](?:[^<>=!&|^%?,;()]|\([^<>=!&|^%?;()]*\))*\)"
_OF_FLOATS = re.compile(rf"(?<![\w.]){_NUMBER}\s*/(?![/*=])|(?<![/*])/=?(?=\s*(?:{_FLOAT}|{_SUM}))")
"""Divisions of which the text shows one side to be a float."""
_OPERAND = r"(?:[A-Za-z_(~!+-]|0(?!\.)|\.\.\.)"
_WORDS = re.compile(
    r"%(?!=?\s*[1-9][0-9]*u?\b)|#\s*include\s*\"|##|\belem_to_loc|\bLoopedElemToLoc\b"
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

    Quotients of floats look alike where neither a literal nor a cast tells them.
    """
    return _WORDS.search(_OF_FLOATS.sub(" ", text)) is not None


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
    type_, right, one = found["type"], found["right"], _all(found, 1)
    condition = type_.replace(f"i{_bits(found)}", "i1")
    special, divisor = f"{GUARD}special{number}", f"{GUARD}divisor{number}"
    # It hangs on the divisor alone, which most loops over threads share.
    if is_signed := found["operation"][0] == "s":
        yield f"  {special}.next = add {type_} {right}, {one}"
        yield f"  {special} = icmp ult {type_} {special}.next, {_all(found, 2)}"
    else:
        yield f"  {special} = icmp eq {type_} {right}, {_all(found, 0)}"
    yield f"  {divisor} = select {condition} {special}, {type_} {one}, {type_} {right}"
    if found["operation"].endswith("rem"):
        # Divided by one, nothing remains.
        yield _with(found, divisor, found["result"])
        return
    # LLVM has numbered what has no name, so that the result keeps its number.
    quotient, instead = f"%kw.quotient{number}", _all(found, 0)
    yield _with(found, divisor, quotient)
    if is_signed:
        instead = f"{GUARD}instead{number}"
        yield from _by_none_or_minus_one(found, condition, instead)
    chosen = f"select {condition} {special}, {type_} {instead}, {type_} {quotient}"
    yield f"  {found['result']} = {chosen}{found['rest']}"


def _by_none_or_minus_one(found: re.Match[str], condition: str, result: str) -> Iterator[str]:
    """Write 0 for a divisor of 0, the opposite for -1 unless that is out of range, 0 then."""
    type_, left = found["type"], found["left"]
    lowest = _all(found, -(1 << (_bits(found) - 1)))
    yield f"  {result}.least = icmp eq {type_} {left}, {lowest}"
    yield f"  {result}.product = mul {type_} {left}, {found['right']}"
    zero, product = _all(found, 0), f"{result}.product"
    yield f"  {result} = select {condition} {result}.least, {type_} {zero}, {type_} {product}"


def _with(found: re.Match[str], right: str, result: str) -> str:
    return (
        f"  {result} = {found['operation']} {found['type']} {found['left']}, {right}{found['rest']}"
    )


def _bits(found: re.Match[str]) -> int:
    return int(found["bits"] or found["lane_bits"])


def _all(found: re.Match[str], value: int) -> str:
    """Return a constant of an operation's type, in each lane of a vector."""
    return str(value) if found["bits"] else f"splat (i{_bits(found)} {value})"
