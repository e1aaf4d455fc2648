"""Which variables of threads a text declares without a value."""

from collections.abc import Iterable, Iterator

from kernelwright.metal.msl.structure import Declarator, Structure, Variable

_SET_OR_SHARED = frozenset(
    (
        *("device", "threadgroup", "threadgroup_imageblock", "constant"),
        *("const", "constexpr", "static", "extern", "auto"),
    )
)
"""Words of declarations whose variables have a value or belong to no thread."""


def unset_declarators(
    structure: Structure, variables: Iterable[Variable]
) -> Iterator[tuple[Variable, Declarator]]:
    """Yield what statements declare without setting it; pointers are left out."""
    for variable in variables:
        words = (
            structure.hidden.get(i, structure.spelling(i)) for i in structure.qualifiers(variable)
        )
        if not variable.is_statement or any(_SET_OR_SHARED & set(w.split()) for w in words):
            continue
        # A value may set what stands before it.
        last = max((n for n, d in enumerate(variable.declarators) if d.value), default=-1)
        for declarator in variable.declarators[last + 1 :]:
            if _is_plain(structure, declarator):
                yield variable, declarator


def _is_plain(structure: Structure, declarator: Declarator) -> bool:
    """Say whether a declarator is a name with array bounds at most, no constructor's call."""
    is_named = structure.spelling(declarator.name_at) != ""
    follows = structure.spelling(declarator.name_at + 1) in (";", ",", "[")
    ends = structure.spelling(declarator.end + 1) in (";", ",")
    return is_named and follows and ends and not declarator.marks
