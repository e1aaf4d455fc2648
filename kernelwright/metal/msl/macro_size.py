"""How many tokens a text has once its macros stand for what they stand for.

It is found without expanding them, so that a text that grows without bound is told by its size,
which is the same on every machine, and not by how long a compiler took to give up.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.msl.structure import Structure
from kernelwright.metal.msl.token import Token, TokenKind

MOST_TOKENS = 1 << 20
"""Of a text; MLX's largest, with hundreds of kernels from macros, has a quarter of it."""
MOST_IN_A_FUNCTION = 1 << 15
"""The sanitizing build of a function of twice as many takes most of a minute."""
_MOST_STEPS = 1 << 20
_DEEPEST = 200


class _Argument(NamedTuple):
    """What a macro's parameter stands for."""

    size: int
    macro: str = ""
    """The macro that it names, if that is all."""


@dataclass(frozen=True)
class _Macro:
    parameters: tuple[str, ...] | None
    body: Sequence[Token]


@dataclass
class MacroSizes:
    """Sizes of what stands in a text, by the macros that it defines anywhere."""

    macros: Mapping[str, Sequence[_Macro]]
    _known: dict[tuple[str, tuple[_Argument, ...]], int] = field(default_factory=dict)
    _steps: int = 0

    @classmethod
    def of(cls, tokens: Sequence[Token]) -> "MacroSizes":
        """Read the definitions of a text."""
        macros: dict[str, list[_Macro]] = {}
        for line in _definitions(tokens):
            macros.setdefault(line[0].spelling, []).append(_macro(line))
        return cls(macros)

    def size(self, tokens: Sequence[Token]) -> int:
        """Return how many tokens others expand to, or a number beyond every bound."""
        return self._size(tokens, {}, 0)

    def _size(self, tokens: Sequence[Token], given: Mapping[str, _Argument], depth: int) -> int:
        total, place = 0, 0
        while place < len(tokens) and total <= MOST_TOKENS:
            self._steps += 1
            token = tokens[place]
            place += 1
            name, argument = token.spelling, None
            if token.kind is TokenKind.IDENTIFIER and (argument := given.get(name)) is not None:
                name = argument.macro
            if name not in self.macros or token.kind is not TokenKind.IDENTIFIER:
                total += 1 if argument is None else argument.size
                continue
            stop, texts = _call(tokens, place)
            arguments = tuple(self._argument(text, given, depth) for text in texts)
            if not texts and argument is not None:
                # Counted where it was given.
                total += argument.size
                continue
            total += self._expanded(name, arguments, bool(texts), depth)
            if texts and any(m.parameters is not None for m in self.macros[name]):
                place = stop
        return total

    def _argument(
        self, text: Sequence[Token], given: Mapping[str, _Argument], depth: int
    ) -> _Argument:
        name = text[0].spelling if len(text) == 1 else ""
        name = given[name].macro if name in given else name
        return _Argument(self._size(text, given, depth), name if name in self.macros else "")

    def _expanded(
        self, name: str, arguments: tuple[_Argument, ...], is_called: bool, depth: int
    ) -> int:
        if depth > _DEEPEST or self._steps > _MOST_STEPS:
            return MOST_TOKENS + 1
        key = name, arguments
        if key not in self._known:
            # A macro is not expanded within itself.
            self._known[key] = 1
            # One of nothing takes its time too.
            self._known[key] = max(
                self._size(m.body, _bound(m, arguments), depth + 1)
                if m.parameters is None or is_called
                else 1
                for m in self.macros[name]
            )
            self._known[key] = max(self._known[key], 1)
        return self._known[key]


def excessive_sizes(
    tokens: Sequence[Token], structure: Structure, others: Sequence[Sequence[Token]] = ()
) -> Iterator[Diagnostic]:
    """Yield what is too large to compile: a function, or all of a text.

    `others` are the tokens of the files that the text includes, whose macros it has too.
    """
    sizes = MacroSizes.of([*(t for file in others for t in file), *tokens])
    code = [t for t in tokens if t.is_code and not t.directive]
    if code and sizes.size(code) > MOST_TOKENS:
        yield _excess(code[0], "the text", MOST_TOKENS)
        return
    for function in structure.functions:
        body = structure.code[function.start : function.end + 1]
        if sizes.size(body) > MOST_IN_A_FUNCTION:
            name = structure.code[function.name_at]
            yield _excess(name, f"the function '{name.spelling}'", MOST_IN_A_FUNCTION)


def _excess(token: Token, what: str, most: int) -> Diagnostic:
    message = f"{what} has more than {most} tokens once its macros are expanded; write loops"
    return Diagnostic(message=message, line=token.line, column=token.column)


def _definitions(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the tokens behind each `#define`."""
    line: list[Token] | None = None
    for token in tokens:
        if token.directive != "define" or token.kind is TokenKind.NEWLINE:
            if line:
                yield line
            line = None
        elif token.is_code or (line is not None and len(line) == 1):
            is_name = token.spelling == "define" and (line is None)
            line = [] if is_name else line if line is None else [*line, token]
    if line:
        yield line


def _macro(line: Sequence[Token]) -> _Macro:
    rest = line[1:]
    if not rest or rest[0].spelling != "(":
        return _Macro(None, [t for t in rest if t.is_code])
    names = list[str]()
    for place, token in enumerate(rest[1:], 1):
        if token.spelling == ")":
            body = [t for t in rest[place + 1 :] if t.is_code]
            return _Macro(tuple(n.replace("...", "__VA_ARGS__") for n in names), body)
        if token.is_code and token.spelling != ",":
            names.append(token.spelling)
    return _Macro((), [])


def _bound(macro: _Macro, arguments: Sequence[_Argument]) -> dict[str, _Argument]:
    if not macro.parameters:
        return {}
    fixed = len(macro.parameters) - (macro.parameters[-1] == "__VA_ARGS__")
    bound = dict(zip(macro.parameters[:fixed], arguments, strict=False))
    if fixed < len(macro.parameters):
        bound["__VA_ARGS__"] = _Argument(sum(a.size + 1 for a in arguments[fixed:]))
    return bound


def _call(tokens: Sequence[Token], place: int) -> tuple[int, list[Sequence[Token]]]:
    """Return where the brackets at a place end, and the arguments in them; none without."""
    if place >= len(tokens) or tokens[place].spelling != "(":
        return place, []
    depth, start, found = 0, place + 1, list[Sequence[Token]]()
    for at in range(place, len(tokens)):
        word = tokens[at].spelling
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth == 0 or (depth == 1 and word == ","):
            found.append(tokens[start:at])
            start = at + 1
        if depth == 0:
            return at + 1, found
    return place, []
