"""Pointers into other memory that are used as `thread` pointers.

clang finds every other mixture of address spaces; in its SYCL mode, though, `thread` is the
default space, to which all others convert.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.msl.signature import Declared, declared_parameters
from kernelwright.metal.msl.structure import Function, Structure, split
from kernelwright.metal.msl.token import TokenKind

_OTHER_SPACES = ("device", "constant", "threadgroup")
_ENDS = (";", ",", ")", "+", "-")


@dataclass(frozen=True, slots=True)
class _Pointer:
    """A variable that points into memory of another space than `thread`."""

    space: str
    type: str


def mixed_thread_pointers(structure: Structure) -> Iterator[Diagnostic]:
    """Yield initialisations and calls that make a `thread` pointer of another one."""
    takers = _functions_that_take_thread_pointers(structure)
    for function in structure.functions:
        if function.body is None:
            continue
        pointers = _parameters(structure, function) | _locals(structure, function)
        if pointers:
            yield from _initialisations(structure, function, pointers)
            yield from _calls(structure, function, pointers, takers)


def _parameters(structure: Structure, function: Function) -> dict[str, _Pointer]:
    found = {}
    for d in declared_parameters(structure, function):
        words = [structure.spelling(i) for i in d.type_tokens]
        space = next((w for w in words if w in _OTHER_SPACES), None)
        if space is not None and words.count("*") == 1 and d.name_at >= 0:
            found[structure.spelling(d.name_at)] = _Pointer(space, _pointee(words))
    return found


def _locals(structure: Structure, function: Function) -> dict[str, _Pointer]:
    """Variables such as `device float* p = …;`."""
    assert function.body is not None
    found = {}
    for index in range(function.body[0] + 1, function.body[1]):
        if structure.spelling(index) not in _OTHER_SPACES:
            continue
        stop = index
        while structure.spelling(stop) not in ("*", ";", "(", ")", "=", "{", "&", ""):
            stop += 1
        name = stop + 1
        is_name = structure.spelling(stop) == "*" and structure.spelling(name + 1) == "="
        if is_name and structure.code[name].kind is TokenKind.IDENTIFIER:
            words = [structure.spelling(i) for i in range(index, stop + 1)]
            found[structure.spelling(name)] = _Pointer(words[0], _pointee(words))
    return found


def _pointee(words: list[str]) -> str:
    dropped = (*_OTHER_SPACES, "const", "*", "volatile", "restrict")
    return " ".join(w for w in words if w not in dropped)


def _pointer_at(
    structure: Structure, place: int, pointers: dict[str, _Pointer]
) -> tuple[_Pointer, str] | None:
    """Return the pointer that an expression at `place` plainly is, and its value category."""
    if structure.spelling(place) == "&":
        pointer = pointers.get(structure.spelling(place + 1))
        after = structure.spelling(place + 2)
        return (pointer, "rvalue") if pointer is not None and after in ("[", "->") else None
    pointer = pointers.get(structure.spelling(place))
    after = structure.spelling(place + 1)
    if pointer is None or after not in _ENDS:
        return None
    return pointer, "rvalue" if after in ("+", "-") else "lvalue"


def _initialisations(
    structure: Structure, function: Function, pointers: dict[str, _Pointer]
) -> Iterator[Diagnostic]:
    assert function.body is not None
    for index in range(function.body[0] + 1, function.body[1]):
        if structure.spelling(index) != "thread":
            continue
        stop = index
        while structure.spelling(stop) not in ("*", ";", "(", ")", "=", "{", "&", ""):
            stop += 1
        if structure.spelling(stop) != "*" or structure.spelling(stop + 2) != "=":
            continue
        found = _pointer_at(structure, stop + 3, pointers)
        if found is not None:
            pointer, category = found
            wanted = " ".join(structure.spelling(i) for i in range(index + 1, stop))
            yield _at(
                structure,
                stop + 1,
                f"cannot initialize a variable of type 'thread {wanted} *' with an "
                f"{category} of type '{pointer.space} {pointer.type} *'",
            )


def _functions_that_take_thread_pointers(
    structure: Structure,
) -> dict[str, list[list[Declared]]]:
    found: dict[str, list[list[Declared]]] = {}
    for function in structure.functions:
        found.setdefault(function.name, []).append(declared_parameters(structure, function))
    return found


def _calls(
    structure: Structure,
    function: Function,
    pointers: dict[str, _Pointer],
    takers: dict[str, list[list[Declared]]],
) -> Iterator[Diagnostic]:
    assert function.body is not None
    for index in range(function.body[0] + 1, function.body[1]):
        name = structure.spelling(index)
        overloads = takers.get(name)
        is_call = structure.spelling(index + 1) == "(" and index + 1 in structure.partner
        if overloads is None or not is_call:
            continue
        if structure.spelling(index - 1) in (".", "->", "::"):
            continue
        close = structure.partner[index + 1]
        arguments = list(split(structure, index + 2, close))
        if all(_refuses(structure, o, arguments, pointers) for o in overloads):
            yield _at(structure, index, f"no matching function for call to '{name}'")


def _refuses(
    structure: Structure,
    parameters: list[Declared],
    arguments: list[range],
    pointers: dict[str, _Pointer],
) -> bool:
    """Say whether an overload takes a `thread` pointer where another one is given."""
    for parameter, argument in zip(parameters, arguments, strict=False):
        words = [structure.spelling(i) for i in parameter.type_tokens]
        is_thread = "thread" in words and "*" in words
        if is_thread and _pointer_at(structure, argument.start, pointers) is not None:
            return True
    return False


def _at(structure: Structure, index: int, message: str) -> Diagnostic:
    token = structure.code[index]
    return Diagnostic(message=message, line=token.line, column=token.column)
