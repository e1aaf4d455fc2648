"""Constructors that do not keep a class from being initialised by a list of its members."""

from collections.abc import Iterator

from kernelwright.metal.msl.structure import Function, Structure


def idle_constructors(structure: Structure) -> Iterator[Function]:
    """Yield each `S() = default;` of a class that declares no other constructor.

    C++20 takes a class with any declared constructor for no aggregate. Metal's C++ asks only for
    none that the text defines, and without the declaration the compiler makes the same one.
    """
    by_class: dict[tuple[str, ...], list[Function]] = {}
    for function in structure.functions:
        if function.in_class and function.scope and function.name == function.scope[-1]:
            by_class.setdefault(function.scope, []).append(function)
    for constructors in by_class.values():
        if all(_is_defaulted(structure, f) for f in constructors):
            yield from constructors


def _is_defaulted(structure: Structure, function: Function) -> bool:
    opening, closing = function.parameters
    end = function.tail_end
    written = (structure.spelling(end), structure.spelling(end + 1))
    return closing == opening + 1 and written == ("=", "default")
