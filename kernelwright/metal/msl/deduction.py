"""Template arguments that an explicit instantiation leaves to its parameter types."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.metal.msl.entry import is_kernel, template_names
from kernelwright.metal.msl.structure import Declared, Function, Instantiation, Structure, split

_QUALIFIERS = frozenset(
    {"device", "constant", "threadgroup", "thread", "const", "volatile", "coherent"}
)
"""Words that stand in any order, and are the same in both signatures."""
_OPEN, _CLOSE = frozenset("(<["), frozenset(")>]")
Words = tuple[str, ...]


def argument_texts(
    templates: Structure, structure: Structure, found: Instantiation
) -> tuple[str, ...] | None:
    """Return the template arguments of `template … name(types);`, written and deduced ones.

    Args:
        templates: The text, of which the kernel is a template.
        structure: The text, or a macro's body in it, where the instantiation stands.
        found: The instantiation.

    Returns:
        None where no kernel's template has such parameters. Trailing arguments that nothing tells
        have defaults, and are left out.
    """
    name = structure.spelling(found.name_at)
    for function in templates.functions:
        if function.name == name and function.template is not None:
            pattern = _Template(templates, function, function.template)
            texts = _arguments(pattern, structure, found)
            if texts is not None:
                return texts
    return None


@dataclass(frozen=True)
class _Template:
    structure: Structure
    function: Function
    header: tuple[int, int]


def _arguments(
    template: _Template, structure: Structure, found: Instantiation
) -> tuple[str, ...] | None:
    function = template.function
    names = list(template_names(template.structure, template.header))
    is_alike = len(function.declared) == len(found.declared)
    is_alike = is_alike and is_kernel(template.structure, function)
    if not is_alike or any(name.endswith("...") for name in names):
        return None
    bound: dict[str, Words] = {}
    if found.arguments is not None:
        begin, end = found.arguments
        written = [tuple(map(structure.spelling, p)) for p in split(structure, begin + 1, end)]
        if written and structure.spelling(end) == ">>":
            written[-1] += (">",)
        bound = dict(zip(names, written, strict=False))
    for pattern, given in zip(function.declared, found.declared, strict=True):
        wanted = _words(template.structure, pattern)
        unified = _unified(wanted, _words(structure, given), names, bound)
        if unified is None:
            return None
        bound = unified
    known = [name in bound for name in names]
    count = sum(known)
    return None if any(known[count:]) else tuple(" ".join(bound[n]) for n in names[:count])


def _words(structure: Structure, parameter: Declared) -> Words:
    words = map(structure.spelling, parameter.type_tokens)
    return tuple(word for word in words if word not in _QUALIFIERS)


def _unified(
    pattern: Words, given: Words, names: Sequence[str], bound: dict[str, Words]
) -> dict[str, Words] | None:
    """Return `bound` and what else makes a parameter's type the given one; None if nothing does."""
    if not pattern:
        return None if given else bound
    first, rest = pattern[0], pattern[1:]
    if first not in names:
        same = bool(given) and given[0] == first
        return _unified(rest, given[1:], names, bound) if same else None
    if first in bound:
        words = bound[first]
        same = given[: len(words)] == words
        return _unified(rest, given[len(words) :], names, bound) if same else None
    depth = 0
    for end, word in enumerate(given, 1):
        depth += (word in _OPEN) - (word in _CLOSE)
        if depth < 0:
            return None
        if depth == 0:
            unified = _unified(rest, given[end:], names, {**bound, first: given[:end]})
            if unified is not None:
                return unified
    return None
