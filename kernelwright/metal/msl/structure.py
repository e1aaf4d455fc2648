"""What a Metal text declares, casts and calls, in places among its tokens."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kernelwright.metal.msl.bracket import OPEN
from kernelwright.metal.msl.token import Token, TokenKind

ADDRESS_SPACES = frozenset(
    {"device", "constant", "threadgroup", "thread", "threadgroup_imageblock", "ray_data"}
)


Scope = Literal["namespace", "class", "function", "unclear"]
"""What surrounds a declaration most closely; it is unclear where a text follows no grammar."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One parameter as written: indices into `Structure.code`."""

    type_tokens: tuple[int, ...]
    """Specifiers and declarator marks, the name and attributes left out."""
    name_at: int
    """-1 where it has no name."""
    attributes: tuple[tuple[str, str, int], ...]
    """Name, argument text and token of each attribute."""
    start: int


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
    begin: int
    """First token of the outermost template header, `start` without one."""
    declared: tuple[Declared, ...] = ()
    """The parameters."""


@dataclass(frozen=True, slots=True)
class Instantiation:
    """`template <attributes> … name<arguments>(types);`: an explicit instantiation."""

    start: int
    name_at: int
    arguments: tuple[int, int] | None
    """From `<` to `>`; None where the types tell them."""
    attributes: tuple[tuple[int, int], ...]
    end: int
    declared: tuple[Declared, ...] = ()
    """The parameters, where it repeats the signature."""


@dataclass(frozen=True, slots=True)
class Declarator:
    """One name of a declaration: `*a[3] = x` in `float b, *a[3] = x;`."""

    name_at: int
    """-1 where there is no name, as in a cast."""
    marks: tuple[int, ...]
    """Each `*`, `&` and `&&` of the declarator."""
    start: int
    end: int
    """Last token of the declarator, without its initializer."""
    is_array: bool
    value: tuple[int, int] | None
    """First and last token of the initializer."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A declaration of variables or members, up to its `;`."""

    start: int
    end: int
    scope: tuple[str, ...]
    surroundings: Scope
    declarators: tuple[Declarator, ...]
    blocks: tuple[int, ...] = ()
    """The braces of the function that are open here."""
    is_statement: bool = False
    """It stands among statements, not in the head of a loop or a condition."""

    @property
    def in_class(self) -> bool:
        """True for members."""
        return self.surroundings == "class"

    @property
    def specifiers(self) -> range:
        """The tokens before the first declarator."""
        return range(self.start, min((d.start for d in self.declarators), default=self.end))


@dataclass(frozen=True, slots=True)
class Cast:
    """`(T*)x` or `static_cast<T*>(x)`: the type written out."""

    start: int
    end: int
    marks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """`name(arguments)`, where the name stands alone."""

    name_at: int
    arguments: tuple[tuple[int, int], ...]
    """First and last token of each."""


@dataclass(frozen=True, slots=True)
class Access:
    """`object.name` or `object->name`."""

    start: int
    end: int
    """Last token of the object."""
    name_at: int


@dataclass
class Structure:
    """What `declaration.analyze` found, in the text's order."""

    code: Sequence[Token]
    words: Sequence[str]
    """The spelling of each token."""
    partner: dict[int, int]
    """Matching bracket of each bracket, both ways."""
    functions: list[Function] = field(default_factory=list)
    instantiations: list[Instantiation] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    """Those at namespace and class scope."""
    locals: list[Variable] = field(default_factory=list)
    """Those of functions, and of what surrounds nothing clearly."""
    casts: list[Cast] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    lambdas: list[tuple[int, int]] = field(default_factory=list)
    """First and last token of each."""
    types: set[str] = field(default_factory=set)
    """Names that the text declares as types, template parameters among them."""
    hidden: dict[int, str] = field(default_factory=dict)
    """Macros that stand for qualifiers, with what they stand for."""
    is_doubtful: bool = False
    """Parts of the text follow no grammar before its macros are expanded."""

    def spelling(self, index: int) -> str:
        """The token's spelling, empty beyond either end."""
        return self.words[index] if 0 <= index < len(self.words) else ""

    @property
    def members(self) -> frozenset[str]:
        """The names of the members that the text's classes have."""
        declared = (d.name_at for v in self.variables if v.in_class for d in v.declarators)
        return frozenset(map(self.spelling, declared))

    def qualifiers(self, variable: Variable) -> Iterator[int]:
        """Yield a variable's own specifiers.

        Members of a class that stands among them are left out, and what a template is given, as
        in `Span<threadgroup float*> s`.
        """
        index, depth = variable.specifiers.start, 0
        while index < variable.specifiers.stop:
            word = self.spelling(index)
            depth += word.count("<") if word in ("<", "<<") else 0
            if depth == 0:
                yield index
            depth = max(depth - word.count(">"), 0) if word in (">", ">>", ">>>") else depth
            is_skipped = word == "{" or (depth > 0 and word in OPEN)
            index = self.partner.get(index, index) + 1 if is_skipped else index + 1

    def locals_of(self, function: Function) -> Sequence[Variable]:
        """The variables that a function's body declares."""
        start, end = function.body or (0, 0)
        first = bisect_left(self.locals, start, key=lambda v: v.start)
        return self.locals[first : bisect_left(self.locals, end, key=lambda v: v.start)]

    def calls_of(self, function: Function) -> Sequence[Call]:
        """The calls in a function's body."""
        start, end = function.body or (0, 0)
        first = bisect_left(self.calls, start, key=lambda c: c.name_at)
        return self.calls[first : bisect_left(self.calls, end, key=lambda c: c.name_at)]

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
