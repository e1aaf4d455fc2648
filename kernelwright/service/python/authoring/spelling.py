"""Metal's spelling of an expression as Python's, each character with the place it came from."""

import re
from dataclasses import dataclass

from kernelwright.errors import InputError
from kernelwright.service.python.authoring.wording import quoted, quoted_at

_LITERAL = re.compile(r"(?<![\w.])((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFhH](?!\w)")
_LIMIT = 10_000
"""Characters; an expression is a line, and Python's parser recurses over it."""
_TYPE = r"(?:(?:float|half|bfloat|bool|u?char|u?short|u?int|u?long)\d?)"
_REFUSED = (
    (re.compile(r"\+\+|--"), "found {found!r}; write + + or - - with a space, or one sign"),
    (re.compile(r"~"), "found '~'; write !x or not x of truths"),
    (re.compile(rf"\(\s*({_TYPE})\s*\)(?=\s*[\w.!+-])"), "found {found!r}; write {type}(x)"),
    (re.compile(rf"\w+\s*<\s*({_TYPE})\s*>\s*\("), "found {found!r}; write {type}(x)"),
    (re.compile(r";"), "found ';' with more behind it; write one expression"),
)
"""What Metal would read otherwise than Python, or Python not at all, and what to write."""


@dataclass(frozen=True)
class Spelled:
    """Text that Python parses, and for each of its characters the column in the original."""

    text: str
    columns: tuple[int, ...]

    def __getitem__(self, part: slice) -> "Spelled":
        return Spelled(self.text[part], self.columns[part])

    def __add__(self, other: "Spelled") -> "Spelled":
        return Spelled(self.text + other.text, self.columns + other.columns)

    def column(self, place: int) -> int:
        """Return the column of the original, from 1, at a place of the text."""
        if not self.columns:
            return 1
        return self.columns[min(max(place, 0), len(self.columns) - 1)] + 1


def spelled(text: str) -> Spelled:
    """Return `c ? a : b`, `&&`, `||`, `metal::exp` and `1.0f` as Python writes them.

    `!` becomes `~`, which binds as it does in Metal: `!x == y` is `(!x) == y`.

    Raises:
        InputError: parentheses or a `?` stand alone, or the two languages differ over a part; the
            sentence names the place.
    """
    if len(text) > _LIMIT:
        raise InputError(
            f"expected an expression of at most {_LIMIT} characters, found {len(text)}: "
            f"{quoted(text)}; split it into the lines of a function under @kernelwright.kernel."
        )
    text = re.sub(r"[\t\r\n]|;(?=[;\s]*\Z)", " ", text)
    _check_spelling(text)
    plain = Spelled(text, tuple(range(len(text))))
    for pattern, word in (
        (_LITERAL, r"\1"),
        (re.compile(r"::"), "."),
        (re.compile(r"&&"), " and "),
        (re.compile(r"\|\|"), " or "),
        (re.compile(r"!(?!=)"), "~"),
    ):
        plain = _replaced(plain, pattern, word)
    _check_parentheses(plain, text)
    return _ternaries(plain, text)


def _check_spelling(text: str) -> None:
    for pattern, words in _REFUSED:
        if match := pattern.search(text):
            column = match.start() + 1
            said = words.format(found=match[0], type=match[1] if pattern.groups else "")
            raise InputError(
                "expected an expression that Python and Metal read alike, "
                f"{said}, at column {column} of {quoted_at(text, column)}."
            )


def _replaced(given: Spelled, pattern: re.Pattern[str], word: str) -> Spelled:
    made, last = Spelled("", ()), 0
    for match in pattern.finditer(given.text):
        new = match.expand(word)
        first = given.columns[match.start()]
        columns = tuple(first + min(i, len(match[0]) - 1) for i in range(len(new)))
        made += given[last : match.start()] + Spelled(new, columns)
        last = match.end()
    return made + given[last:]


def _check_parentheses(given: Spelled, text: str) -> None:
    opened: list[int] = []
    for place, character in enumerate(given.text):
        if character == "(":
            opened.append(place)
        elif character == ")" and not opened:
            column = given.column(place)
            raise InputError(
                f"expected an opening parenthesis for the ')' at column {column} of "
                f"{quoted_at(text, column)}."
            )
        elif character == ")":
            opened.pop()
    if opened:
        column = given.column(opened[-1])
        raise InputError(
            f"expected a closing parenthesis for the '(' at column {column} of "
            f"{quoted_at(text, column)}."
        )


def _ternaries(given: Spelled, text: str) -> Spelled:
    """Turn each `c ? a : b` into `((a) if (c) else (b))`, inner ones first."""
    if "?" not in given.text:
        return given
    pieces = _split(given, ",")
    if len(pieces) > 1:
        made = _ternaries(pieces[0], text)
        for piece in pieces[1:]:
            made += _mark(",", piece) + _ternaries(piece, text)
        return made
    asked = _split(given, "?", most=1)
    if len(asked) == 1:
        return _inside(given, text)
    condition, rest = asked
    chosen = _branches(rest)
    if chosen is None:
        column = rest.column(0) - 1
        raise InputError(
            f"expected ':' after the '?' at column {column} of {quoted_at(text, column)}."
        )
    parts = [("((", chosen[0]), (") if (", condition), (") else (", chosen[1])]
    made = Spelled("", ())
    for mark, part in parts:
        made += _mark(mark, part) + _ternaries(part, text)
    return made + _mark("))", chosen[1])


def _mark(mark: str, near: Spelled) -> Spelled:
    column = near.columns[0] if near.columns else 0
    return Spelled(mark, (column,) * len(mark))


def _inside(given: Spelled, text: str) -> Spelled:
    """Look into the parentheses of a part that has no `?` outside of them."""
    made, depth, start = Spelled("", ()), 0, 0
    for place, character in enumerate(given.text):
        if character == "(":
            if depth == 0:
                made, start = made + given[start : place + 1], place + 1
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                made, start = made + _ternaries(given[start:place], text), place
    return made + given[start:]


def _split(given: Spelled, mark: str, most: int | None = None) -> list[Spelled]:
    """Split at marks that no parenthesis encloses."""
    parts: list[Spelled] = []
    depth = start = 0
    for place, character in enumerate(given.text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == mark and depth == 0 and (most is None or len(parts) < most):
            parts.append(given[start:place])
            start = place + 1
    return [*parts, given[start:]]


def _branches(given: Spelled) -> tuple[Spelled, Spelled] | None:
    """Split `a : b` at the colon that belongs to the question before it."""
    depth = questions = 0
    for place, character in enumerate(given.text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth:
            continue
        if character == "?":
            questions += 1
        elif character == ":" and questions:
            questions -= 1
        elif character == ":":
            return given[:place], given[place + 1 :]
    return None
