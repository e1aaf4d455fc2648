"""A Metal text with its tokens, brackets and statements, as mutation operators look at it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from kernelwright.metal.msl.bracket import pair_brackets
from kernelwright.metal.msl.token import Token, TokenKind, tokenize

INTEGER_TYPES = frozenset(
    f"{sign}{size}{lanes}"
    for sign in ("", "u")
    for size in ("char", "short", "int", "long")
    for lanes in ("", "2", "3", "4")
) | {"size_t", "uint8_t", "int8_t", "uint16_t", "int16_t", "uint32_t", "int32_t", "uint64_t"}
FLOAT_TYPES = frozenset({"float", "half", "bfloat", "bfloat16_t", "float16_t"})
_TYPE = re.compile(
    r"(?:packed_)?(?:u?(?:char|short|int|long)|half|float|bool|bfloat|bfloat16_t)[234]?$"
    r"|size_t$|u?int(?:8|16|32|64)_t$|auto$|void$|vec$|simdgroup_\w+$|atomic_\w+$|[TUVWIO]$"
)
_QUALIFIERS = frozenset(
    {"const", "constexpr", "device", "constant", "threadgroup", "thread", "inline", "static"}
)
_SPACES = frozenset({"device", "constant", "threadgroup", "thread"})
_KEYWORDS = frozenset(
    {"if", "else", "for", "while", "do", "return", "switch", "case", "break", "continue"}
    | {"template", "typename", "struct", "using", "namespace", "default", "sizeof"}
)
_PRECEDENCE = {
    **dict.fromkeys(("*", "/", "%"), 10),
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("<<", ">>"), 8),
    **dict.fromkeys(("<", ">", "<=", ">="), 7),
    **dict.fromkeys(("==", "!="), 6),
    "&": 5,
    "^": 4,
    "|": 3,
    "&&": 2,
    "||": 1,
}
COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")
ASSIGNMENTS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})


@dataclass(frozen=True, slots=True)
class Change:
    """Characters `start` to `stop` of a text become `new`."""

    start: int
    stop: int
    new: str


@dataclass(frozen=True)
class Operand:
    """Tokens `first` to `last`, both included."""

    first: int
    last: int


@dataclass(frozen=True)
class Loop:
    """A `for` or `while`: the first tokens of its parts are token numbers."""

    word: int
    opening: int
    closing: int
    semicolons: tuple[int, ...]
    """Two for a `for`, none for a `while`."""

    def part(self, place: int) -> int:
        """Return which part of the header a token is in: start 0, condition 1, step 2."""
        if not self.semicolons:
            return 1
        return sum(place > semicolon for semicolon in self.semicolons)


@dataclass(frozen=True)
class MetalText:
    """One of a kernel's texts; `arrays` are the kernel's parameters, by what may stand for what."""

    source: str
    inputs: tuple[tuple[str, str], ...] = ()
    """Name and type of each array that the kernel reads."""
    outputs: tuple[str, ...] = ()
    is_body: bool = True
    """False for a header, which holds functions."""

    @cached_property
    def _paired(self) -> tuple[list[Token], dict[int, int]]:
        return pair_brackets(tokenize(self.source))

    @property
    def tokens(self) -> Sequence[Token]:
        """The text's tokens without comments, white space and directives."""
        return self._paired[0]

    @property
    def partner(self) -> dict[int, int]:
        """The matching bracket of each bracket, both ways."""
        return self._paired[1]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The tokens' spellings."""
        return tuple(token.spelling for token in self.tokens)

    @cached_property
    def around(self) -> tuple[int, ...]:
        """For each token the bracket that it is directly inside of, -1 for none."""
        found, stack = list[int](), [-1]
        for place, word in enumerate(self.words):
            if word in ")]}" and len(stack) > 1:
                stack.pop()
            found.append(stack[-1])
            if word in ("(", "[", "{") and place in self.partner:
                stack.append(place)
        return tuple(found)

    @cached_property
    def angles(self) -> frozenset[int]:
        """The `<` and `>` that enclose template arguments."""
        found = set[int]()
        for place, word in enumerate(self.words):
            if word == "<" and (closing := self._closing_angle(place)) is not None:
                found |= {place, closing}
        return frozenset(found)

    def _closing_angle(self, opening: int) -> int | None:
        before = self.words[opening - 1] if opening else ""
        if before != "template" and not self.is_name(opening - 1):
            return None
        for place in range(opening + 1, min(opening + 12, len(self.words))):
            word = self.words[place]
            if word == ">":
                after = self.words[place + 1] if place + 1 < len(self.words) else ""
                closes = after in ("(", "::", ">", ",", "{") or _TYPE.match(after) is not None
                is_apart = self.tokens[place].offset > self.tokens[place - 1].end
                closes_name = before == "template" or (not is_apart and after.isidentifier())
                return place if (closes and not is_apart) or closes_name else None
            if not (word in (",", "::", "*") or self.tokens[place].kind in _IN_ARGUMENTS):
                return None
        return None

    def word(self, place: int) -> str:
        """Return a token's spelling, empty beyond either end."""
        return self.words[place] if 0 <= place < len(self.words) else ""

    def is_name(self, place: int) -> bool:
        """Say whether a token is an identifier and no keyword."""
        return (
            0 <= place < len(self.tokens)
            and self.tokens[place].kind is TokenKind.IDENTIFIER
            and self.words[place] not in _KEYWORDS
        )

    def is_type(self, place: int) -> bool:
        """Say whether a token looks like a type's name."""
        return self.is_name(place) and _TYPE.match(self.words[place]) is not None

    def text(self, first: int, last: int) -> str:
        """Return the source of the tokens `first` to `last`."""
        return self.source[self.tokens[first].offset : self.tokens[last].end]

    def operand_text(self, operand: Operand) -> str:
        """Return an operand's source."""
        return self.text(operand.first, operand.last)

    def change(self, first: int, last: int, new: str) -> Change:
        """Put `new` in place of the tokens `first` to `last`."""
        return Change(self.tokens[first].offset, self.tokens[last].end, new)

    def insert(self, place: int, new: str) -> Change:
        """Put `new` before a token."""
        return Change(self.tokens[place].offset, self.tokens[place].offset, new)

    def with_change(self, change: Change) -> str:
        """Return the changed source."""
        return self.source[: change.start] + change.new + self.source[change.stop :]

    def binaries(self, *operators: str) -> Iterator[int]:
        """Yield the places of binary operators, template brackets and pointers left out."""
        for place, word in enumerate(self.words):
            if word in operators and place not in self.angles and self._is_binary(place):
                yield place

    def _is_binary(self, place: int) -> bool:
        if not 0 < place < len(self.words) - 1:
            return False
        before, kind = self.words[place - 1], self.tokens[place - 1].kind
        if self.words[place] in ("*", "&") and self._is_declarator(place):
            return False
        is_value = before in (")", "]") or kind is TokenKind.NUMBER or self.is_name(place - 1)
        return is_value and not self.is_type(place - 1)

    def _is_declarator(self, place: int) -> bool:
        """Say whether a star or ampersand belongs to a type."""
        if self.is_type(place - 1) or self.words[place + 1] in (")", ">", ","):
            return True
        return self.word(place - 2) in _SPACES

    def left_operand(self, operator: int) -> Operand:
        """Return what stands left of a binary operator; `a - b` in `a - b - c`."""
        level, first = _PRECEDENCE[self.words[operator]], operator
        place = operator - 1
        while place >= 0:
            word = self.words[place]
            if word in (")", "]") and place in self.partner:
                place = self.partner[place]
            elif place in self.angles and word == ">":
                place = self._opening_angle(place)
            elif word in _PRECEDENCE and self._is_binary(place):
                if _PRECEDENCE[word] < level:
                    break
            elif word in _STOPS or word in ASSIGNMENTS or word in _KEYWORDS:
                break
            first, place = place, place - 1
        return Operand(first, operator - 1)

    def _opening_angle(self, closing: int) -> int:
        return max(p for p in self.angles if p < closing and self.words[p] == "<")

    def right_operand(self, operator: int) -> Operand:
        """Return what stands right of a binary operator; `b` in `a - b - c`."""
        level, place = _PRECEDENCE[self.words[operator]], operator + 1
        last = operator
        while place < len(self.words):
            word = self.words[place]
            if word in ("(", "[", "{") and place in self.partner:
                place = self.partner[place]
            elif place not in self.angles and word in _PRECEDENCE and place > operator + 1:
                if self._is_binary(place) and _PRECEDENCE[word] <= level:
                    break
            elif word in _STOPS or word in ASSIGNMENTS:
                break
            last, place = place, place + 1
        return Operand(operator + 1, last)

    def statement(self, place: int) -> Operand:
        """Return the statement around a token, with its semicolon; a block's header alone."""
        first = place
        while first > 0 and not self._ends_statement(first - 1):
            before = first - 1
            first = self.partner.get(before, before) if self.words[before] in (")", "]") else before
        last = place
        while last < len(self.words) - 1 and self.words[last] not in (";", "{", "}"):
            is_open = self.words[last] in ("(", "[") and last in self.partner
            last = self.partner[last] if is_open else last + 1
            if is_open and self.words[last] not in (";", "{", "}"):
                last = min(last + 1, len(self.words) - 1)
        return Operand(first, last)

    def _ends_statement(self, place: int) -> bool:
        word = self.words[place]
        if word in (";", "{", "}"):
            return True
        if word == ")":
            opening = self.partner.get(place, 0)
            return opening > 0 and self.words[opening - 1] in ("for", "if", "while")
        return word in ("else", "do") or (word == "(" and place in self.partner)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Return every loop."""
        found = []
        for place, word in enumerate(self.words[:-1]):
            opening = place + 1
            if word in ("for", "while") and self.words[opening] == "(" and opening in self.partner:
                closing = self.partner[opening]
                parts = tuple(
                    p
                    for p in range(opening, closing)
                    if self.words[p] == ";" and self.around[p] == opening
                )
                if word == "while" or len(parts) == 2:
                    found.append(Loop(place, opening, closing, parts))
        return tuple(found)

    def is_in_loop_header(self, place: int) -> bool:
        """Say whether a token stands between the parentheses of a loop."""
        return any(loop.opening < place < loop.closing for loop in self.loops)

    @cached_property
    def conditions(self) -> tuple[Operand, ...]:
        """Return what stands between the parentheses of every `if`."""
        return tuple(
            Operand(place + 2, self.partner[place + 1] - 1)
            for place, word in enumerate(self.words[:-1])
            if word == "if" and place + 1 in self.partner
        )

    @cached_property
    def choices(self) -> tuple[tuple[Operand, Operand, Operand], ...]:
        """Return condition, first and second value of every `?:`."""
        found = []
        for place, word in enumerate(self.words):
            if word != "?":
                continue
            first = self._expression_start(place)
            colon = self._colon(place)
            if colon is not None and first < place:
                last = self._expression_end(colon + 1)
                chosen = Operand(place + 1, colon - 1), Operand(colon + 1, last)
                found.append((Operand(first, place - 1), *chosen))
        return tuple(found)

    def _expression_start(self, place: int) -> int:
        while place > 0:
            before = place - 1
            word = self.words[before]
            if word in (")", "]") and before in self.partner:
                place = self.partner[before]
                continue
            if word in _STOPS or word in ASSIGNMENTS or word in _KEYWORDS:
                break
            place = before
        return place

    def _colon(self, place: int) -> int | None:
        depth, level = 0, self.around[place]
        for other in range(place + 1, len(self.words)):
            if self.around[other] != level or self.words[other] == ";":
                if self.words[other] == ";" or self.around[other] < level:
                    return None
                continue
            depth += self.words[other] == "?"
            if self.words[other] == ":":
                if depth == 0:
                    return other
                depth -= 1
        return None

    def _expression_end(self, place: int) -> int:
        while place < len(self.words) - 1:
            if self.words[place] in ("(", "[", "{") and place in self.partner:
                place = self.partner[place]
            if self.words[place + 1] in (";", ",", ")", "]", "}"):
                break
            place += 1
        return place

    def calls(self, *names: str) -> Iterator[tuple[int, tuple[Operand, ...]]]:
        """Yield the place of each call's name, and its arguments; any name where none is given."""
        for place, word in enumerate(self.words[:-1]):
            opening = place + 1
            is_call = self.words[opening] == "(" and opening in self.partner and self.is_name(place)
            if is_call and (word in names or not names):
                yield place, self.arguments(opening)

    def arguments(self, opening: int) -> tuple[Operand, ...]:
        """Return what stands between the commas of a pair of parentheses."""
        closing = self.partner[opening]
        commas = [
            p
            for p in range(opening + 1, closing)
            if self.words[p] == "," and self.around[p] == opening
        ]
        if closing == opening + 1:
            return ()
        edges = [opening, *commas, closing]
        return tuple(Operand(a + 1, b - 1) for a, b in pairwise(edges))

    def call_start(self, name: int) -> int:
        """Return the first token of a qualified name such as `metal::fast::exp`."""
        while name >= 2 and self.words[name - 1] == "::":
            name -= 2
        return name

    @cached_property
    def pointers(self) -> frozenset[str]:
        """The names that stand for memory: arrays, and what is declared from them."""
        found = {*(name for name, _ in self.inputs), *self.outputs}
        for place, word in enumerate(self.words[:-3]):
            if word == "*" and self._is_declarator(place) and self.is_name(place + 1):
                found.add(self.words[place + 1])
            is_auto = word == "auto" and self.words[place + 2] == "="
            if is_auto and self.words[place + 3] in found:
                found.add(self.words[place + 1])
        return frozenset(found)

    def is_index(self, place: int) -> bool:
        """Say whether a token is part of the arithmetic of places in memory."""
        bracket = self.around[place]
        while bracket >= 0 and self.words[bracket] != "{":
            if self.words[bracket] == "[":
                return True
            if self.words[bracket] == "(" and self.word(bracket + 1) in self.pointers:
                return True
            bracket = self.around[bracket]
        statement = self.statement(place)
        if place < len(self.words) and self.words[statement.last] == "{":
            return self._declares_integer(statement)
        start = statement.first
        is_pointer = self.words[start] == "auto" and self.word(start + 3) in self.pointers
        return is_pointer or self._declares_integer(statement)

    def _declares_integer(self, statement: Operand) -> bool:
        start = statement.first
        while self.words[start] in _QUALIFIERS and start < statement.last:
            start += 1
        return self.words[start] in INTEGER_TYPES

    def declarations(self) -> Iterator[tuple[int, int, Operand]]:
        """Yield type, name and value of each `TYPE NAME = VALUE;` outside of loop headers."""
        for place, word in enumerate(self.words):
            is_declaration = (
                word == "="
                and place >= 2
                and self.is_name(place - 1)
                and self.is_type(place - 2)
                and not (self.around[place] >= 0 and self.words[self.around[place]] == "(")
            )
            if is_declaration:
                last = self.statement(place).last
                if self.words[last] == ";" and last > place + 1:
                    yield place - 2, place - 1, Operand(place + 1, last - 1)


_IN_ARGUMENTS = (TokenKind.IDENTIFIER, TokenKind.NUMBER)
_STOPS = frozenset({"(", "[", "{", "}", ")", "]", ",", ";", "?", ":", "return"})
