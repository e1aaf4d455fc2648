"""Members that a member function names without `this`, in the address space of its object."""

from collections.abc import Iterator

from kernelwright.metal.msl.structure import Function, Structure

_QUALIFIED = frozenset((".", "->", "::", "~"))


def implicit_members(
    structure: Structure, function: Function, spaces: frozenset[str]
) -> Iterator[int]:
    """Yield the tokens in a body that stand for a member of `*this`.

    Those are the variables of the function's own class, and its functions that have one of
    `spaces`, where no parameter and no local variable has the same name.
    """
    if function.body is None:
        return
    variables = (v for v in structure.variables if v.in_class and v.scope == function.scope)
    names = {
        structure.spelling(d.name_at)
        for v in variables
        if not any(structure.spelling(i) == "static" for i in structure.qualifiers(v))
        for d in v.declarators
    }
    names |= {
        f.name
        for f in structure.functions
        if f.in_class and f.scope == function.scope and structure.spelling(f.tail) in spaces
    }
    names -= {structure.spelling(d.name_at) for d in function.declared}
    names -= {
        structure.spelling(d.name_at) for v in structure.locals_of(function) for d in v.declarators
    }
    for index in range(function.body[0], function.body[1]):
        if structure.spelling(index) in names and structure.spelling(index - 1) not in _QUALIFIED:
            yield index
