"""Where a Metal text declares functions, kernels, classes and variables, found from its tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kernelwright.metal.msl.bracket import OPEN
from kernelwright.metal.msl.token import Token, TokenKind

ADDRESS_SPACES = frozenset(
    {"device", "constant", "threadgroup", "thread", "threadgroup_imageblock", "ray_data"}
)


@dataclass(frozen=True, slots=True)
class Function:
    """A function's declaration or definition; numbers index `Structure.code`."""

    name: str
    scope: tuple[str, ...]
    """Namespaces and classes around it."""
    in_class: bool
    template: tuple[int, int] | None
    """From `<` to `>` of the innermost template header."""
    attributes: tuple[tuple[int, int], ...]
    """Each `[[ … ]]` before the declarator, outer brackets included."""
    start: int
    """First token of the declaration after its template header."""
    name_at: int
    parameters: tuple[int, int]
    """The parentheses."""
    tail: int
    """First token after the parentheses and `const`-like qualifiers."""
    tail_end: int
    """What ends the declarator: `{`, `;`, `=` or the `:` of an initialiser list."""
    body: tuple[int, int] | None
    """The braces."""
    end: int
    """Last token."""


@dataclass(frozen=True, slots=True)
class Instantiation:
    """`template <attributes> … name<arguments>;`: an explicit instantiation."""

    start: int
    name_at: int
    arguments: tuple[int, int]
    attributes: tuple[tuple[int, int], ...]
    end: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A declaration at namespace or class scope that is no function, up to its `;`."""

    start: int
    end: int
    scope: tuple[str, ...]
    in_class: bool


@dataclass
class Structure:
    """What `declaration.analyze` found, in the text's order."""

    code: Sequence[Token]
    partner: dict[int, int]
    """Matching bracket of each bracket, both ways."""
    functions: list[Function] = field(default_factory=list)
    instantiations: list[Instantiation] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    types: set[str] = field(default_factory=set)
    """Names that the text declares as types, template parameters among them."""

    def spelling(self, index: int) -> str:
        """The token's spelling, empty beyond either end."""
        return self.code[index].spelling if 0 <= index < len(self.code) else ""

    def text(self, start: int, end: int) -> str:
        """Tokens `start` to `end`, both included, as one line."""
        return join(self.code[start : end + 1])


def join(tokens: Sequence[Token]) -> str:
    """Write tokens as one line, with blanks where they need them."""
    parts: list[str] = []
    for before, token in zip((None, *tokens), tokens, strict=False):
        if before is not None and _needs_blank(before, token):
            parts.append(" ")
        parts.append(token.spelling)
    return "".join(parts)


def _needs_blank(before: Token, token: Token) -> bool:
    words = (TokenKind.IDENTIFIER, TokenKind.NUMBER)
    if token.kind in words:
        return before.kind in words or before.spelling in (",", "*", "&", ">")
    if token.kind is TokenKind.PUNCTUATOR and before.kind is TokenKind.PUNCTUATOR:
        # Two punctuators that were apart must not become one, such as `> >`.
        return before.end != token.offset
    return False


def split(structure: Structure, start: int, end: int, separator: str = ",") -> Iterator[range]:
    """Yield the ranges between top-level separators among the tokens `start` to `end` - 1."""
    first, place, depth = start, start, 0
    while place < end:
        word = structure.spelling(place)
        if word in OPEN and place in structure.partner:
            place = structure.partner[place] + 1
            continue
        depth += (word == "<") - (word == ">" and depth > 0) - min(depth, 2) * (word == ">>")
        if word == separator and depth == 0:
            yield range(first, place)
            first = place + 1
        place += 1
    if first < end:
        yield range(first, end)
