"""Pointers and references that do not say which memory they point to."""

from collections.abc import Iterable, Iterator

from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.msl.structure import ADDRESS_SPACES, Function, Structure, Variable
from kernelwright.metal.msl.token import TokenKind
from kernelwright.metal.msl.types import is_builtin_type

_MARKS = {
    "*": "pointer type must have explicit address space qualifier",
    "&": "reference type must have explicit address space qualifier",
    "&&": "reference type must have explicit address space qualifier",
}
_TYPE_WORDS = frozenset({"const", "volatile", "unsigned", "signed", "struct", "typename"})
_SETTLED = ADDRESS_SPACES | {"auto", "decltype"}


def unqualified_pointers(structure: Structure) -> Iterator[Diagnostic]:
    """Yield every pointer or reference without an address space, at its `*` or `&`."""
    found = {*_parameters(structure), *_results(structure), *_variables(structure)}
    for index in sorted(found | {*_casts(structure)}):
        token = structure.code[index]
        yield Diagnostic(message=_MARKS[token.spelling], line=token.line, column=token.column)


def _says_where(structure: Structure, places: Iterable[int]) -> bool:
    """Say whether an address space is among tokens, or what may bring one."""
    for i in places:
        if structure.spelling(i) in _SETTLED:
            return True
        if ADDRESS_SPACES & set(structure.hidden.get(i, "").split()):
            return True
    return False


def _parameters(structure: Structure) -> Iterator[int]:
    for function in structure.functions:
        if not _is_function(function):
            continue
        for parameter in function.declared:
            written = parameter.type_tokens
            if "(" in (structure.spelling(i) for i in written) or _says_where(structure, written):
                continue
            if not _may_be_macro(structure, written):
                yield from (i for i in written if i > written[0] and _is_mark(structure, i))


def _results(structure: Structure) -> Iterator[int]:
    for function in structure.functions:
        mark = function.name_at - 1
        words = range(function.start, function.name_at)
        is_plain = _is_function(function) and not _says_where(structure, words)
        if is_plain and mark > function.start and _is_mark(structure, mark):
            yield mark


def _is_function(function: Function) -> bool:
    """Tell a function from a macro's call, which has no type before its name either."""
    is_constructor = function.in_class and function.name == function.scope[-1]
    return function.body is not None or function.name_at != function.start or is_constructor


def _may_be_macro(structure: Structure, tokens: tuple[int, ...]) -> bool:
    """Say whether a word stands where only a qualifier can: `MY_SPACE float* p`."""
    words = [
        i
        for i in tokens
        if structure.code[i].kind is TokenKind.IDENTIFIER
        and structure.spelling(i) not in _TYPE_WORDS
        and i not in structure.hidden
        and structure.spelling(i - 1) not in ("::", "<", ",")
    ]
    return len(words) > 1


def _is_mark(structure: Structure, index: int) -> bool:
    return structure.spelling(index) in _MARKS


def _variables(structure: Structure) -> Iterator[int]:
    for variable in (*structure.variables, *structure.locals):
        if _says_where(structure, structure.qualifiers(variable)):
            continue
        for declarator in variable.declarators:
            written = range(declarator.start, declarator.end + 1)
            if not declarator.marks or _says_where(structure, written):
                continue
            is_certain = declarator.value is not None or declarator.is_array
            if is_certain or _names_type(structure, variable):
                yield declarator.marks[0]


def _names_type(structure: Structure, variable: Variable) -> bool:
    """Tell `T* p;` from the product `a * b;`."""
    return any(_is_type(structure, i) for i in variable.specifiers) or variable.in_class


def _is_type(structure: Structure, index: int) -> bool:
    word = structure.spelling(index)
    return is_builtin_type(word) or word in structure.types


def _casts(structure: Structure) -> Iterator[int]:
    for cast in structure.casts:
        written = range(cast.start, cast.end + 1)
        if not cast.marks or _says_where(structure, written):
            continue
        if _is_type(structure, cast.marks[0] - 1):
            yield cast.marks[0]
