"""Whose member a function is, and what that class inherits."""

from collections.abc import Iterator, Mapping

from kernelwright.metal.msl.structure import Function, Structure

_CLASSES = frozenset({"struct", "class"})
_END = frozenset({"{", ";", "(", ")", "=", ""})


def owner(structure: Structure, function: Function) -> tuple[str, ...] | None:
    """Return the class of a member, with what surrounds it; None for a free function.

    A member that is defined outside of its class, as `S<T>::get`, is named behind it.
    """
    if function.in_class:
        return function.scope
    path = [structure.spelling(i) for i in qualifiers(structure, function.name_at)]
    return (*function.scope, *path) if path else None


def qualifiers(structure: Structure, name_at: int) -> tuple[int, ...]:
    """Return the tokens of `A`, `B` before a name `A::B<T>::name`."""
    found: list[int] = []
    index = name_at - 1
    while structure.spelling(index) == "::":
        index = _before_arguments(structure, index - 1)
        found.insert(0, index)
        index -= 1
    return tuple(found)


def bases(structure: Structure) -> Mapping[str, tuple[str, ...]]:
    """Return the classes that each class inherits from, all by their last names."""
    found: dict[str, tuple[str, ...]] = {}
    for index, word in enumerate(structure.words):
        if word in _CLASSES and structure.spelling(index - 1) not in ("<", ",", "enum"):
            name, inherited = _head(structure, index)
            if inherited:
                found[name] = (*found.get(name, ()), *inherited)
    return found


def lineage(class_: str, inherited: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield a class and all that it inherits from, by their last names."""
    waiting, seen = [class_], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            yield name
            waiting += inherited.get(name, ())


def _head(structure: Structure, index: int) -> tuple[str, tuple[str, ...]]:
    """Return the name and the bases of the class whose keyword stands at a token."""
    name, inherited, last, depth = "", list[str](), "", 0
    while (word := structure.spelling(index := index + 1)) not in _END or depth:
        if word == "" or word == "{":
            break
        if word in ("[", "("):
            index = structure.partner.get(index, index)
        depth += word.count("<") - word.count(">") if set(word) <= {"<", ">"} else 0
        if depth == 0 and word == ":":
            name, last = last, ""
        elif depth == 0 and word == "," and name:
            inherited.append(last)
        elif depth == 0 and word.isidentifier() and word != "final":
            last = word
    return (name, (*inherited, last)) if name and word == "{" else ("", ())


def _before_arguments(structure: Structure, index: int) -> int:
    """Return the token of a class's name, of which `index` is the last, arguments included."""
    depth = 0
    while index >= 0:
        word = structure.spelling(index)
        depth += word.count(">") if set(word) <= {">"} and word else 0
        depth -= word.count("<") if set(word) <= {"<"} and word else 0
        if depth <= 0:
            break
        index -= 1
    return index - 1 if structure.spelling(index) == "<" else index
