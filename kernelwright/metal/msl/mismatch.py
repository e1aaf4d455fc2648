"""Pointers into other memory that are used as `thread` pointers.

clang finds every other mixture of address spaces; in its SYCL mode, though, `thread` is the
default space, to which all others convert.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.msl.structure import Call, Declared, Function, Structure

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
    for d in function.declared:
        words = [structure.spelling(i) for i in d.type_tokens]
        space = next((w for w in words if w in _OTHER_SPACES), None)
        if space is not None and words.count("*") == 1 and d.name_at >= 0:
            found[structure.spelling(d.name_at)] = _Pointer(space, _pointee(words))
    return found


def _locals(structure: Structure, function: Function) -> dict[str, _Pointer]:
    """Variables such as `device float* p = …;`."""
    found = {}
    for variable in structure.locals_of(function):
        words = [structure.spelling(i) for i in variable.specifiers]
        space = next((w for w in words if w in _OTHER_SPACES), None)
        for declarator in variable.declarators:
            marks = [structure.spelling(i) for i in declarator.marks]
            if space is not None and marks == ["*"] and declarator.value is not None:
                found[structure.spelling(declarator.name_at)] = _Pointer(space, _pointee(words))
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
    for variable in structure.locals_of(function):
        words = [structure.spelling(i) for i in variable.specifiers]
        for declarator in variable.declarators:
            marks = [structure.spelling(i) for i in declarator.marks]
            if "thread" not in words or marks != ["*"] or declarator.value is None:
                continue
            found = _pointer_at(structure, declarator.value[0], pointers)
            if found is not None:
                pointer, category = found
                wanted = " ".join(w for w in words if w != "thread")
                yield _at(
                    structure,
                    declarator.name_at,
                    f"cannot initialize a variable of type 'thread {wanted} *' with an "
                    f"{category} of type '{pointer.space} {pointer.type} *'",
                )


def _functions_that_take_thread_pointers(
    structure: Structure,
) -> dict[str, list[tuple[Declared, ...]]]:
    found: dict[str, list[tuple[Declared, ...]]] = {}
    for function in structure.functions:
        found.setdefault(function.name, []).append(function.declared)
    return found


def _calls(
    structure: Structure,
    function: Function,
    pointers: dict[str, _Pointer],
    takers: dict[str, list[tuple[Declared, ...]]],
) -> Iterator[Diagnostic]:
    for call in structure.calls_of(function):
        name = structure.spelling(call.name_at)
        overloads = takers.get(name)
        if overloads and all(_refuses(structure, o, call, pointers) for o in overloads):
            yield _at(structure, call.name_at, f"no matching function for call to '{name}'")


def _refuses(
    structure: Structure,
    parameters: tuple[Declared, ...],
    call: Call,
    pointers: dict[str, _Pointer],
) -> bool:
    """Say whether an overload takes a `thread` pointer where another one is given."""
    for parameter, argument in zip(parameters, call.arguments, strict=False):
        words = [structure.spelling(i) for i in parameter.type_tokens]
        is_thread = "thread" in words and "*" in words
        if is_thread and _pointer_at(structure, argument[0], pointers) is not None:
            return True
    return False


def _at(structure: Structure, index: int, message: str) -> Diagnostic:
    token = structure.code[index]
    return Diagnostic(message=message, line=token.line, column=token.column)
