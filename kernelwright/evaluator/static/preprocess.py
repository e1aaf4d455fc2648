"""A preprocessor that knows Metal's macros and the text's own, and nothing of any compiler's.

Every build of a kernel, on every device, compiles what comes out of it: no text can tell one
build, host or compiler from another. Lines stay where they are.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kernelwright.evaluator.static import vocabulary as words
from kernelwright.evaluator.static.condition import Unanswerable, evaluate
from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.msl.token import Token, TokenKind, tokenize, without_comments

MAXIMUM_STEPS = 1 << 18
"""Tokens that are looked at; a text within its length has far fewer, but for macros."""
_DEEPEST = 100
"""Macros within macros."""
_TARGETS = ("TARGET_OS_", "TARGET_CPU_", "TARGET_RT_", "TARGET_IPHONE")
"""Macros that Apple's compilers predefine."""
_BLANK = frozenset({TokenKind.SPACE, TokenKind.NEWLINE})


class Refusal(Exception):  # noqa: N818 (what is found, on its way to the rules)
    """The text cannot be preprocessed; the diagnostic says where and why."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


@dataclass(frozen=True)
class Expanded:
    """A kernel's texts without comments, conditions and macros."""

    header: str
    source: str


class _Piece(NamedTuple):
    """A token on its way through the macros."""

    kind: TokenKind
    text: str
    line: int
    hidden: frozenset[str] = frozenset()
    """Macros that it comes from, which it cannot call again."""


@dataclass(frozen=True)
class _Macro:
    body: tuple[_Piece, ...]
    parameters: tuple[str, ...] | None = None
    """None for a macro without parentheses."""
    is_variadic: bool = False


@dataclass
class _Condition:
    """An `#if` that is open."""

    is_taken: bool
    has_been_taken: bool
    is_reached: bool
    """What is around it is compiled."""


def preprocess(header: str, source: str) -> Expanded:
    """Expand a kernel's header and source, in this order, with one set of macros.

    Raises:
        Refusal: a directive makes no sense, asks what no text may know, or the text means
            something else in another version of Metal.
    """
    plain = without_comments(header), without_comments(source)
    results = [_preprocess(*plain, version) for version in _versions(plain)]
    if any(r != results[0] for r in results):
        raise Refusal(
            Diagnostic(
                message="this text means something else in another version of Metal; write one "
                "text for all.",
                rule="condition",
            )
        )
    return results[0]


def _versions(texts: Iterable[str]) -> tuple[int, ...]:
    asks = any("__METAL_VERSION__" in text.replace("\\\n", "") for text in texts)
    return words.METAL_VERSIONS if asks else words.METAL_VERSIONS[1:2]


def _preprocess(header: str, source: str, version: int) -> Expanded:
    known = {"__METAL__": 1, "__METAL_MACOS__": 1, "__METAL_VERSION__": version}
    macros = {
        name: _Macro((_Piece(TokenKind.NUMBER, str(value), 0),)) for name, value in known.items()
    }
    budget = _Budget()
    return Expanded(
        _File("header", header, macros, budget).run(), _File("source", source, macros, budget).run()
    )


@dataclass
class _Budget:
    steps: int = MAXIMUM_STEPS


@dataclass
class _File:
    """One text and the macros that are defined so far."""

    file: str
    text: str
    macros: dict[str, _Macro]
    budget: _Budget
    conditions: list[_Condition] = field(default_factory=list)
    output: list[str] = field(default_factory=list)

    def run(self) -> str:
        for is_directive, tokens in _runs(tokenize(self.text)):
            ends = "\n" * sum(t.text.count("\n") for t in tokens)
            if is_directive:
                kept = self.directive([t for t in tokens if t.is_code])
                self.output.append(kept + ends)
            elif self.is_compiled:
                pieces = [_Piece(t.kind, _spelled(t), t.line) for t in tokens]
                self.output += [p.text for p in self.expand(pieces)]
            else:
                self.output.append(ends)
        if self.conditions:
            raise self.refusal(self.text.count("\n") + 1, "an #if has no #endif; close it.")
        return "".join(self.output)

    @property
    def is_compiled(self) -> bool:
        return all(c.is_taken for c in self.conditions[-1:])

    def refusal(self, line: int, message: str, rule: str = "directive") -> Refusal:
        lines = self.text.split("\n")
        quoted = lines[line - 1] if 0 < line <= len(lines) else ""
        return Refusal(
            Diagnostic(message=message, file=self.file, line=line, rule=rule, source_line=quoted)
        )

    def directive(self, tokens: Sequence[Token]) -> str:
        """Obey a directive; return what the compiler gets of it."""
        name, rest = (tokens[1].spelling if len(tokens) > 1 else ""), tokens[2:]
        if name in ("if", "ifdef", "ifndef", "elif", "else", "endif"):
            self.condition(name, tokens[1], rest)
        elif self.is_compiled and name == "define" and rest:
            self.define(rest)
        elif self.is_compiled and name == "undef" and rest:
            self.macros.pop(rest[0].spelling, None)
        elif self.is_compiled and name == "error":
            text = " ".join(t.text for t in rest)
            raise self.refusal(tokens[0].line, f"#error {text}")
        elif self.is_compiled and name == "include":
            return "#include " + "".join(t.spelling for t in rest)
        elif self.is_compiled and name == "pragma":
            pieces = [_Piece(t.kind, f"{_spelled(t)} ", t.line) for t in rest]
            named = [p._replace(text=p.text.strip()) for p in pieces]
            return "#pragma " + " ".join(p.text for p in self.expand(named))
        return ""

    def condition(self, name: str, place: Token, rest: Sequence[Token]) -> None:
        if name in ("if", "ifdef", "ifndef"):
            reached = self.is_compiled
            is_true = reached and self.is_true(name, place, rest)
            self.conditions.append(_Condition(is_true, is_true, reached))
            return
        if not self.conditions:
            raise self.refusal(place.line, f"#{name} has no #if before it; remove it.")
        last = self.conditions[-1]
        if name == "endif":
            self.conditions.pop()
        elif name == "else":
            last.is_taken = last.is_reached and not last.has_been_taken
            last.has_been_taken = True
        else:
            asks = last.is_reached and not last.has_been_taken
            last.is_taken = asks and self.is_true("if", place, rest)
            last.has_been_taken |= last.is_taken

    def is_true(self, name: str, place: Token, rest: Sequence[Token]) -> bool:
        if name in ("ifdef", "ifndef"):
            if not rest:
                raise self.refusal(place.line, f"#{name} names no macro; name one.")
            return self.is_defined(rest[0]) == (name == "ifdef")
        answered = self.without_defined(rest)
        tokens = [p.text for p in self.expand(answered) if p.kind not in _BLANK]
        if unknown := next((t for t in tokens if t in words.PUBLIC_MACROS), ""):
            message = f"#if cannot compare {unknown}, which the compiler defines."
            raise self.refusal(place.line, message, "condition")
        try:
            return evaluate(tokens) != 0
        except Unanswerable as e:
            raise self.refusal(place.line, f"#if: {e}", "condition") from e

    def without_defined(self, tokens: Sequence[Token]) -> list[_Piece]:
        """Answer each `defined X`, and ask of each name whether a text may know it."""
        pieces, place = [], 0
        while place < len(tokens):
            token = tokens[place]
            if token.spelling != "defined":
                self.may_know(token)
                pieces.append(_Piece(token.kind, _spelled(token), token.line))
                place += 1
                continue
            has_brackets = place + 1 < len(tokens) and tokens[place + 1].spelling == "("
            at = place + 1 + has_brackets
            if at >= len(tokens) or tokens[at].kind is not TokenKind.IDENTIFIER:
                raise self.refusal(token.line, "defined names no macro; name one.")
            answer = str(int(self.is_defined(tokens[at])))
            pieces.append(_Piece(TokenKind.NUMBER, answer, token.line))
            place = at + 1 + has_brackets
        return pieces

    def is_defined(self, token: Token) -> bool:
        self.may_know(token)
        return token.spelling in self.macros or token.spelling in words.PUBLIC_MACROS

    def may_know(self, token: Token) -> None:
        name = token.spelling
        if token.kind is not TokenKind.IDENTIFIER or name in self.macros:
            return
        if words.is_internal(name) or name.startswith(_TARGETS) or name.startswith("METAL_"):
            if name in words.PUBLIC_MACROS:
                return
            message = f"{name!r} tells one compiler from another; a kernel is one text for all."
            raise self.refusal(token.line, message, "condition")

    def define(self, rest: Sequence[Token]) -> None:
        name, tokens = rest[0], list(rest[1:])
        parameters: tuple[str, ...] | None = None
        is_variadic = False
        if tokens and tokens[0].spelling == "(" and tokens[0].offset == name.end:
            close = next((i for i, t in enumerate(tokens) if t.spelling == ")"), None)
            if close is None:
                raise self.refusal(name.line, "the macro's parameters have no end; close them.")
            named = [t.spelling for t in tokens[1:close] if t.spelling != ","]
            is_variadic = named[-1:] == ["..."]
            parameters = tuple(named[:-1] if is_variadic else named)
            tokens = tokens[close + 1 :]
        self.macros[name.spelling] = _Macro(tuple(_spaced(tokens)), parameters, is_variadic)

    def expand(self, pieces: Sequence[_Piece]) -> list[_Piece]:
        """Replace every macro until none is left."""
        done: list[_Piece] = []
        pending = list(reversed(pieces))
        while pending:
            piece = pending.pop()
            self.budget.steps -= 1
            if self.budget.steps < 0:
                message = f"macros make more than {MAXIMUM_STEPS} tokens of this text; use fewer."
                raise self.refusal(piece.line, message, "macro")
            macro = self.macros.get(piece.text) if piece.kind is TokenKind.IDENTIFIER else None
            if macro is None or piece.text in piece.hidden:
                done.append(piece)
                continue
            if len(piece.hidden) > _DEEPEST:
                message = f"macros nest more than {_DEEPEST} deep; write it out."
                raise self.refusal(piece.line, message, "macro")
            replaced = self.replaced(macro, piece, pending)
            if replaced is None:
                done.append(piece)
            else:
                pending.extend(reversed(replaced))
        return done

    def replaced(self, macro: _Macro, piece: _Piece, pending: list[_Piece]) -> list[_Piece] | None:
        """Return what stands for a macro's call, whose arguments are taken from `pending`."""
        hidden = piece.hidden | {piece.text}
        space = _Piece(TokenKind.SPACE, " ", piece.line)
        if macro.parameters is None:
            body = [p._replace(line=piece.line, hidden=hidden) for p in macro.body]
            return [space, *body, space]
        taken = self.arguments(piece, pending)
        if taken is None:
            return None
        arguments, ends = taken
        given = self.matched(macro, piece, arguments)
        body = [
            p if p.text in given and not p.hidden else p._replace(line=piece.line)
            for p in macro.body
        ]
        made = [
            q._replace(hidden=q.hidden | hidden) for q in _substituted(body, given, self.expand)
        ]
        lines = [_Piece(TokenKind.NEWLINE, "\n", piece.line)] * ends
        return [space, *made, space, *lines]

    def arguments(
        self, piece: _Piece, pending: list[_Piece]
    ) -> tuple[list[list[_Piece]], int] | None:
        """Take a call's arguments; None where no parenthesis follows."""
        place = len(pending) - 1
        while place >= 0 and pending[place].kind in _BLANK:
            place -= 1
        if place < 0 or pending[place].text != "(":
            return None
        before = pending[place + 1 :]
        del pending[place:]
        arguments, depth = [list[_Piece]()], 1
        ends = sum(p.text.count("\n") for p in before)
        while pending:
            taken = pending.pop()
            self.budget.steps -= 1
            ends += taken.text.count("\n") if taken.kind in _BLANK else 0
            depth += (taken.text == "(") - (taken.text == ")")
            if depth == 0 and taken.text == ")":
                return arguments, ends
            if taken.text == "," and depth == 1:
                arguments.append([])
            elif taken.kind is TokenKind.NEWLINE:
                arguments[-1].append(_Piece(TokenKind.SPACE, " ", taken.line))
            else:
                arguments[-1].append(taken._replace(text=taken.text.replace("\n", " ")))
        raise self.refusal(piece.line, f"the call of {piece.text!r} never ends.", "macro")

    def matched(
        self, macro: _Macro, piece: _Piece, arguments: list[list[_Piece]]
    ) -> dict[str, list[_Piece]]:
        """Give each parameter its argument."""
        names = macro.parameters or ()
        if macro.is_variadic:
            kept, more = arguments[: len(names)], arguments[len(names) :]
            comma = _Piece(TokenKind.PUNCTUATOR, ",", piece.line)
            joined: list[_Piece] = []
            for number, argument in enumerate(more):
                joined += [comma, *argument] if number else argument
            names, arguments = (*names, "__VA_ARGS__"), [*kept, joined]
        if not names and all(p.kind in _BLANK for a in arguments for p in a):
            return {}
        if len(arguments) != len(names):
            message = f"{piece.text!r} takes {len(names)} arguments, found {len(arguments)}."
            raise self.refusal(piece.line, message, "macro")
        return dict(zip(names, arguments, strict=True))


def _substituted(
    body: Sequence[_Piece],
    given: Mapping[str, list[_Piece]],
    expand: Callable[[Sequence[_Piece]], list[_Piece]],
) -> Iterator[_Piece]:
    """Yield a macro's body with each parameter replaced by its argument, itself expanded."""
    expanded: dict[str, list[_Piece]] = {}
    place = 0
    while place < len(body):
        piece = body[place]
        place += 1
        if piece.text == "__VA_OPT__" and "__VA_ARGS__" in given:
            stop = _closing(body, place)
            if any(p.kind not in _BLANK for p in given["__VA_ARGS__"]):
                yield from _substituted(body[place + 1 : stop], given, expand)
            place = stop + 1
        elif piece.kind is TokenKind.IDENTIFIER and piece.text in given:
            if piece.text not in expanded:
                expanded[piece.text] = expand(given[piece.text])
            yield from expanded[piece.text]
        else:
            yield piece


def _closing(body: Sequence[_Piece], opening: int) -> int:
    depth = 0
    for place in range(opening, len(body)):
        depth += (body[place].text == "(") - (body[place].text == ")")
        if depth == 0 and body[place].text == ")":
            return place
    return len(body)


def _spelled(token: Token) -> str:
    """Return a token's text as the compiler reads it; blanks keep their line ends."""
    if token.kind is TokenKind.SPACE:
        return token.text.replace("\\", "") if "\n" in token.text else token.text
    return token.spelling


def _spaced(tokens: Sequence[Token]) -> Iterator[_Piece]:
    """Yield a macro's body, with one blank where there are any."""
    previous: Token | None = None
    for token in tokens:
        if previous is not None and token.offset > previous.end:
            yield _Piece(TokenKind.SPACE, " ", token.line)
        yield _Piece(token.kind, _spelled(token), token.line)
        previous = token


def _runs(tokens: Sequence[Token]) -> Iterator[tuple[bool, list[Token]]]:
    """Yield directives, each with the end of its line, and the code between them."""
    run: list[Token] = []
    in_directive = False
    for token in tokens:
        starts = bool(token.directive) and not in_directive
        if starts and run:
            yield False, run
            run = []
        in_directive = in_directive or starts
        run.append(token)
        if in_directive and token.kind is TokenKind.NEWLINE:
            yield True, run
            run, in_directive = [], False
    if run:
        yield in_directive, run
