"""Pointers and references that do not say which memory they point to."""

from collections.abc import Iterator

from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.msl.signature import declared_parameters
from kernelwright.metal.msl.structure import ADDRESS_SPACES, Structure
from kernelwright.metal.msl.token import TokenKind
from kernelwright.metal.msl.types import is_builtin_type

_MARKS = {
    "*": "pointer type must have explicit address space qualifier",
    "&": "reference type must have explicit address space qualifier",
    "&&": "reference type must have explicit address space qualifier",
}
_STATEMENT_EDGES = (";", "{", "}")
_TYPE_WORDS = frozenset({"const", "volatile", "unsigned", "signed", "struct", "typename"})
_BEFORE_CASTS = frozenset({"return", "case", "else"})
_NO_TYPES = frozenset({"return", "auto", "case", "else", "using", "typedef", "delete", "goto"})


def unqualified_pointers(structure: Structure) -> Iterator[Diagnostic]:
    """Yield every pointer or reference without an address space, at its `*` or `&`."""
    for index in sorted({*_parameters(structure), *_declarations(structure), *_casts(structure)}):
        token = structure.code[index]
        yield Diagnostic(message=_MARKS[token.spelling], line=token.line, column=token.column)


def _parameters(structure: Structure) -> Iterator[int]:
    for function in structure.functions:
        is_constructor = function.in_class and function.name == function.scope[-1]
        if function.body is None and function.name_at == function.start and not is_constructor:
            continue
        for parameter in declared_parameters(structure, function):
            words = [structure.spelling(i) for i in parameter.type_tokens]
            if "(" in words or "auto" in words or ADDRESS_SPACES & set(words):
                continue
            if _may_be_macro(structure, parameter.type_tokens):
                continue
            yield from (i for i in parameter.type_tokens[:-1] if _is_mark(structure, i))
            last = parameter.type_tokens[-1] if parameter.type_tokens else -1
            if last > parameter.start and _is_mark(structure, last):
                yield last


def _may_be_macro(structure: Structure, tokens: tuple[int, ...]) -> bool:
    """Say whether a word stands where only a qualifier can: `MY_SPACE float* p`."""
    words = [
        i
        for i in tokens
        if structure.code[i].kind is TokenKind.IDENTIFIER
        and structure.spelling(i) not in _TYPE_WORDS
        and structure.spelling(i - 1) not in ("::", "<", ",")
    ]
    return len(words) > 1


def _is_mark(structure: Structure, index: int) -> bool:
    return structure.spelling(index) in _MARKS


def _declarations(structure: Structure) -> Iterator[int]:
    """Marks of `T* p = …;` at the start of a statement, in functions and classes."""
    for index, token in enumerate(structure.code):
        if token.kind is not TokenKind.IDENTIFIER:
            continue
        if index == 0 or not _begins_statement(structure, index):
            continue
        mark = _after_type(structure, index)
        if mark is None or not _is_mark(structure, mark):
            continue
        name = mark + 1
        while structure.spelling(name) in ("const", "*", "thread", "restrict"):
            name += 1
        is_name = name < len(structure.code) and structure.code[name].kind is TokenKind.IDENTIFIER
        if is_name and structure.spelling(name + 1) in ("=", ";", ",", "[", "{"):
            yield mark


def _begins_statement(structure: Structure, index: int) -> bool:
    """Say whether a declaration may begin at a place; a list of values holds products there."""
    before = structure.spelling(index - 1)
    return before in _STATEMENT_EDGES and not (before == "{" and _is_list(structure, index - 1))


def _is_list(structure: Structure, brace: int) -> bool:
    """Say whether braces hold values, which unlike statements end at no semicolon."""
    close = structure.partner.get(brace)
    place = brace + 1
    while close is not None and place < close:
        if structure.spelling(place) == ";":
            return False
        place = max(structure.partner.get(place, place), place) + 1
    return close is not None


def _after_type(structure: Structure, place: int) -> int | None:
    """Return where a type without address space that starts at `place` ends, if one does."""
    names = 0
    while place < len(structure.code):
        word = structure.spelling(place)
        if word in _TYPE_WORDS:
            place += 1
        elif word in _NO_TYPES or word in ADDRESS_SPACES or names > 1:
            return None
        elif structure.code[place].kind is TokenKind.IDENTIFIER:
            names += structure.spelling(place - 1) != "::"
            place += 1
        elif word == "::":
            place += 1
        elif word == "<":
            close = _angle(structure, place)
            if close is None:
                return None
            place = close + 1
        else:
            return place if names == 1 else None
    return None


def _angle(structure: Structure, place: int) -> int | None:
    depth = 0
    for index in range(place, min(place + 60, len(structure.code))):
        word = structure.spelling(index)
        if word in (";", "{", "}", "&&", "||"):
            return None
        depth += (word == "<") - (word == ">") - 2 * (word == ">>")
        if depth <= 0:
            return index
    return None


def _casts(structure: Structure) -> Iterator[int]:
    """Marks of `(T*)x` and `reinterpret_cast<T*>(x)`."""
    for index, token in enumerate(structure.code):
        before = structure.spelling(index - 1)
        is_c = token.spelling == "(" and (
            before in _BEFORE_CASTS
            or index == 0
            or structure.code[index - 1].kind is not TokenKind.IDENTIFIER
        )
        is_named = token.spelling == "<" and before in ("reinterpret_cast", "static_cast")
        if not (is_c or is_named):
            continue
        mark = _after_type(structure, index + 1)
        if mark is None or not _is_mark(structure, mark):
            continue
        closes = structure.spelling(mark + 1) == (")" if is_c else ">")
        type_word = structure.spelling(mark - 1)
        is_type = is_builtin_type(type_word) or type_word in structure.types
        if closes and is_type:
            yield mark
