"""Reads declarations from tokens, as far as a grammar without types can."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.metal.msl.bracket import OPEN, pair_brackets
from kernelwright.metal.msl.structure import (
    ADDRESS_SPACES,
    Function,
    Instantiation,
    Structure,
    Variable,
)
from kernelwright.metal.msl.token import Token, TokenKind

_CLASS_KEYS = frozenset({"struct", "class", "union"})
_QUALIFIERS = frozenset({"const", "volatile", "noexcept", "override", "final", "&", "&&"})
_CONTROL = frozenset({"if", "for", "while", "switch", "return", "sizeof"})
_HEAD_CALLS = frozenset({"decltype", "__attribute__", "alignas", "typeof", "__declspec"})


def analyze(tokens: Sequence[Token]) -> Structure:
    """Find the functions, instantiations, variables and types that a text declares."""
    structure = Structure(*pair_brackets(tokens))
    _Parser(structure).declarations(0, len(structure.code), ())
    return structure


@dataclass
class _Parser:
    structure: Structure

    def __post_init__(self) -> None:
        self.code = self.structure.code
        self.partner = self.structure.partner
        self.spelling = self.structure.spelling

    def declarations(
        self, place: int, end: int, scope: tuple[str, ...], in_class: bool = False
    ) -> None:
        """Read declarations from `place` until `end`."""
        while place < end:
            place = self.declaration(place, end, scope, in_class)

    def declaration(self, place: int, end: int, scope: tuple[str, ...], in_class: bool) -> int:
        """Read one declaration and return where the next begins."""
        word = self.spelling(place)
        if word in (";", "}", ")"):
            return place + 1
        if in_class and word in ("public", "private", "protected"):
            return place + 2
        if word == "extern" and self.code[min(place + 1, end - 1)].kind is TokenKind.STRING:
            if self.spelling(place + 2) == "{":
                return self.block(place + 2, end, scope)
            return place + 2
        if word == "inline" and self.spelling(place + 1) == "namespace":
            place, word = place + 1, "namespace"
        if word == "namespace":
            return self.namespace(place, end, scope)
        if word in ("using", "typedef", "static_assert", "friend", "asm"):
            return self.alias(place, end, scope)
        return self.entity(place, end, scope, in_class)

    def block(self, brace: int, end: int, scope: tuple[str, ...]) -> int:
        close = self.partner.get(brace, end)
        self.declarations(brace + 1, min(close, end), scope)
        return close + 1

    def namespace(self, place: int, end: int, scope: tuple[str, ...]) -> int:
        names, place = [], place + 1
        while place < end and self.spelling(place) not in ("{", ";", "="):
            if self.code[place].kind is TokenKind.IDENTIFIER:
                names.append(self.spelling(place))
            place += 1
        if self.spelling(place) != "{":
            return self.until_semicolon(place, end)
        return self.block(place, end, (*scope, *names))

    def alias(self, place: int, end: int, scope: tuple[str, ...]) -> int:
        stop = self.until_semicolon(place, end)
        words = range(place, stop)
        if self.spelling(place) == "using" and self.spelling(place + 2) == "=":
            self.structure.types.add(self.spelling(place + 1))
        if self.spelling(place) == "typedef":
            names = [i for i in words if self.code[i].kind is TokenKind.IDENTIFIER]
            self.structure.types.update(self.spelling(i) for i in names[-1:])
        for index in words:
            if self.spelling(index) == "{" and self.class_key(place, index) is not None:
                self.declarations(index + 1, self.partner.get(index, end), (*scope, ""), True)
        return stop

    def class_key(self, start: int, brace: int) -> int | None:
        """Return the index of the class keyword whose body opens at `brace`."""
        return next(
            (i for i in range(brace - 1, start - 1, -1) if self.spelling(i) in _CLASS_KEYS), None
        )

    def until_semicolon(self, place: int, end: int) -> int:
        while place < end:
            word = self.spelling(place)
            if word == ";":
                return place + 1
            if word == "}" and self.partner.get(place, place) < place:
                return place
            place = self.partner.get(place, place) + 1 if word in OPEN else place + 1
        return end

    def angle(self, place: int, end: int) -> int:
        """Return the index of the `>` that closes the `<` at `place`, or `place`."""
        depth, index = 0, place
        while index < end:
            word = self.spelling(index)
            if word in ("(", "[", "{"):
                index = self.partner.get(index, index) + 1
                continue
            if word in (";", "}", ")", "]"):
                return place
            depth += (word == "<") - (word == ">") - 2 * (word == ">>")
            if depth <= 0:
                return index
            index += 1
        return place

    def entity(self, place: int, end: int, scope: tuple[str, ...], in_class: bool) -> int:
        """Read a template, class, function or variable."""
        first, template = place, None
        after = self.after_attributes(place, end)
        place = after if self.spelling(after) == "template" else place
        while self.spelling(place) == "template":
            if self.spelling(place + 1) != "<":
                return self.instantiation(first, end)
            close = self.angle(place + 1, end)
            template = (place + 1, close)
            self.note_template_parameters(place + 1, close)
            place = close + 1
            if self.spelling(place) == "requires":
                place += 1
        return _Entity(self, place, end, scope, in_class, template).read()

    def after_attributes(self, place: int, end: int) -> int:
        while self.spelling(place) == "[" and self.spelling(place + 1) == "[":
            place = self.partner.get(place, end) + 1
        return place

    def note_template_parameters(self, start: int, end: int) -> None:
        for index in range(start, end):
            if self.spelling(index) in ("typename", "class"):
                name = index + 2 if self.spelling(index + 1) == "..." else index + 1
                self.structure.types.add(self.spelling(name))

    def instantiation(self, start: int, end: int) -> int:
        stop = self.until_semicolon(start, end)
        attributes, place = [], start + 1
        opens = None
        while place < stop - 1:
            word = self.spelling(place)
            if word == "[" and self.spelling(place + 1) == "[":
                attributes.append((place, self.partner.get(place, place)))
                place = attributes[-1][1] + 1
                continue
            if word == "(":
                if opens is not None:
                    break
                place = self.partner.get(place, place) + 1
                continue
            if word == "<":
                close = self.angle(place, stop)
                opens = (place, close)
                place = close
            place += 1
        if opens is not None and opens[1] > opens[0]:
            found = Instantiation(start, opens[0] - 1, opens, tuple(attributes), stop - 1)
            self.structure.instantiations.append(found)
        return stop


@dataclass
class _Entity:
    """The reading of one class, function or variable after its template header."""

    parser: _Parser
    start: int
    end: int
    scope: tuple[str, ...]
    in_class: bool
    template: tuple[int, int] | None

    def read(self) -> int:
        """Record what stands here and return where the next declaration begins."""
        parser, place = self.parser, self.start
        attributes: list[tuple[int, int]] = []
        while place < self.end:
            word = parser.spelling(place)
            if word == "[" and parser.spelling(place + 1) == "[":
                attributes.append((place, parser.partner.get(place, place)))
                place = attributes[-1][1] + 1
            elif word in _CLASS_KEYS or word == "enum":
                brace = self.class_body(place)
                if brace is None:
                    place += 1
                    continue
                return self.class_(place, brace)
            elif word in _HEAD_CALLS and parser.spelling(place + 1) == "(":
                place = parser.partner.get(place + 1, place + 1) + 1
            elif word == "operator":
                return self.operator(place, attributes)
            elif word == "(":
                if (name_at := self.declarator(place)) is not None:
                    return self.function(name_at, place, attributes)
                place = parser.partner.get(place, place) + 1
            elif word in ("=", "{", ";", ":"):
                return self.variable(place)
            elif word == "<":
                close = parser.angle(place, self.end)
                if self.is_specialization and parser.spelling(close + 1) == "(":
                    return self.function(place - 1, close + 1, attributes)
                place = max(close, place) + 1
            elif word == "}":
                return place
            else:
                place += 1
        return self.end

    @property
    def is_specialization(self) -> bool:
        """True behind `template <>`."""
        return self.template is not None and self.template[1] == self.template[0] + 1

    def declarator(self, paren: int) -> int | None:
        """Return the name whose parameters open at `paren`; attributes may stand between."""
        parser, name = self.parser, paren - 1
        while parser.spelling(name) == "]" and name in parser.partner:
            name = parser.partner[name] - 1
        is_name = name >= self.start and parser.code[name].kind is TokenKind.IDENTIFIER
        return name if is_name and parser.spelling(name) not in _CONTROL else None

    def class_body(self, key: int) -> int | None:
        """Return the `{` of the class whose keyword is at `key`, None when it has none here."""
        parser, place = self.parser, key + 1
        while place < self.end:
            word = parser.spelling(place)
            if word == "{":
                return place
            if word in (";", "=", ")", "*", "&"):
                return None
            if word == "(":
                if parser.spelling(place - 1) not in ("alignas", "__attribute__"):
                    return None
                place = parser.partner.get(place, place)
            elif word == "[":
                place = parser.partner.get(place, place)
            elif word == "<":
                place = max(parser.angle(place, self.end), place)
            place += 1
        return None

    def class_(self, key: int, brace: int) -> int:
        parser = self.parser
        name = next(
            (
                parser.spelling(i)
                for i in range(key + 1, brace)
                if parser.code[i].kind is TokenKind.IDENTIFIER
                and parser.spelling(i) not in ("class", "struct", "alignas", "final")
            ),
            "",
        )
        parser.structure.types.add(name)
        close = parser.partner.get(brace, self.end)
        if parser.spelling(key) != "enum":
            parser.declarations(brace + 1, min(close, self.end), (*self.scope, name), True)
        return parser.until_semicolon(close + 1, self.end)

    def operator(self, place: int, attributes: list[tuple[int, int]]) -> int:
        parser = self.parser
        paren = place + 1
        if parser.spelling(paren) == "(" and parser.spelling(paren + 1) == ")":
            paren += 2
        while paren < self.end and parser.spelling(paren) not in ("(", ";", "{"):
            paren += 1
        if parser.spelling(paren) != "(":
            return self.variable(paren)
        return self.function(place, paren, attributes)

    def function(self, name_at: int, paren: int, attributes: list[tuple[int, int]]) -> int:
        parser = self.parser
        close = parser.partner.get(paren, self.end)
        tail = close + 1
        while parser.spelling(tail) in _QUALIFIERS:
            tail += 1
        place = tail
        while place < self.end:
            word = parser.spelling(place)
            if word in ADDRESS_SPACES or word in _QUALIFIERS:
                place += 1
            elif word == "[" or word == "(":
                place = parser.partner.get(place, place) + 1
            elif word == "->":
                place = self.trailing_type(place)
            elif word in ("{", ";", "=", ":", ","):
                break
            elif place == tail and self.is_macro_call(name_at):
                # `instantiate(...)` without a semicolon, before the next declaration.
                return tail
            else:
                place += 1
        return self.finish(name_at, (paren, close), tail, place, attributes)

    def is_macro_call(self, name_at: int) -> bool:
        return name_at == self.start

    def trailing_type(self, place: int) -> int:
        parser = self.parser
        while place < self.end and parser.spelling(place) not in ("{", ";"):
            place += 1
        return place

    def finish(
        self,
        name_at: int,
        parameters: tuple[int, int],
        tail: int,
        place: int,
        attributes: list[tuple[int, int]],
    ) -> int:
        parser, body, tail_end = self.parser, None, place
        if parser.spelling(place) == ":":
            place = self.constructor_body(place + 1)
        if parser.spelling(place) == "{":
            close = parser.partner.get(place)
            # A body without an end is none: clang says so at the end of the text.
            body = None if close is None else (place, min(close, self.end - 1))
            last = self.end - 1 if body is None else body[1]
        else:
            last = parser.until_semicolon(place, self.end) - 1
        name = parser.spelling(name_at)
        if name == "operator":
            name = parser.structure.text(name_at, parameters[0] - 1)
        parser.structure.functions.append(
            Function(
                name=name,
                scope=self.scope,
                in_class=self.in_class,
                template=self.template,
                attributes=tuple(attributes),
                start=self.start,
                name_at=name_at,
                parameters=parameters,
                tail=tail,
                tail_end=tail_end,
                body=body,
                end=last,
            )
        )
        if body is not None:
            self.local_classes(body)
        return last + 1

    def local_classes(self, body: tuple[int, int]) -> None:
        parser = self.parser
        for index in range(body[0] + 1, body[1]):
            if parser.spelling(index) in _CLASS_KEYS:
                local = _Entity(parser, index, body[1], self.scope, False, None)
                brace = local.class_body(index)
                if brace is not None:
                    local.class_(index, brace)

    def constructor_body(self, place: int) -> int:
        """Skip `a(x), b{y}` and return the `{` of the body."""
        parser = self.parser
        while place < self.end:
            while place < self.end and parser.spelling(place) not in ("(", "{", ";"):
                place += 1
            if parser.spelling(place) == ";":
                return place
            place = parser.partner.get(place, self.end) + 1
            if parser.spelling(place) == "...":
                place += 1
            if parser.spelling(place) != ",":
                return place
            place += 1
        return place

    def variable(self, place: int) -> int:
        parser = self.parser
        stop = parser.until_semicolon(place, self.end)
        if stop > self.start + 1:
            parser.structure.variables.append(
                Variable(self.start, stop - 1, self.scope, self.in_class)
            )
        return max(stop, self.start + 1)
