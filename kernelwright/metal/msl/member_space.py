"""Members that a member function names without `this`, in the address space of its object."""

from collections.abc import Iterator

from kernelwright.metal.msl.owner import bases, lineage, owner, qualifiers
from kernelwright.metal.msl.structure import Function, Structure

_QUALIFIED = frozenset((".", "->", "::", "~"))


def implicit_members(
    structure: Structure, function: Function, spaces: frozenset[str] | None
) -> Iterator[int]:
    """Yield the tokens in a body that stand for a member of `*this`.

    Those are the variables of the function's own class and of those it inherits from, and their
    functions that have one of `spaces` (None: all that have an object), where no parameter and no
    local variable has the same name.
    """
    class_ = owner(structure, function)
    if function.body is None or class_ is None:
        return
    known = set(lineage(class_[-1], bases(structure)))
    names = {*_variables(structure, known), *_functions(structure, known, spaces)}
    hidden = list(_hidden(structure, function))
    for index in range(function.body[0], function.body[1]):
        name = structure.spelling(index)
        if name not in names or any(name == other and index in where for other, where in hidden):
            continue
        # The name of one that a class has inherited may stand behind that class's.
        path = qualifiers(structure, index)
        first = path[0] if path and structure.spelling(path[0]) in known else index
        if structure.spelling(first - 1) not in _QUALIFIED:
            yield first


def _hidden(structure: Structure, function: Function) -> Iterator[tuple[str, range]]:
    """Yield the names of parameters and local variables, and where they are no members."""
    body = range(*(function.body or (0, 0)))
    yield from ((structure.spelling(d.name_at), body) for d in function.declared)
    for v in structure.locals_of(function):
        end = structure.partner.get(v.blocks[-1], body.stop) if v.blocks else body.stop
        yield from ((structure.spelling(d.name_at), range(d.name_at, end)) for d in v.declarators)
    for start, end in structure.lambdas:
        opener = structure.partner[start] + 1
        if start in body and structure.spelling(opener) == "(":
            for index in range(opener, structure.partner[opener]):
                yield structure.spelling(index), range(opener, end)


def _variables(structure: Structure, classes: set[str]) -> Iterator[str]:
    for v in structure.variables:
        # Members of a member without a name are the class's own.
        scope = [name for name in v.scope if name]
        if v.in_class and scope and scope[-1] in classes:
            words = map(structure.spelling, structure.qualifiers(v))
            if "static" not in words:
                yield from (structure.spelling(d.name_at) for d in v.declarators)


def _functions(
    structure: Structure, classes: set[str], spaces: frozenset[str] | None
) -> Iterator[str]:
    for f in structure.functions:
        if f.in_class and f.scope[-1:] and f.scope[-1] in classes and f.name not in classes:
            words = {structure.spelling(i) for i in range(f.begin - 1, f.name_at)}
            has_object = words.isdisjoint(("static", "friend"))
            if has_object and (spaces is None or structure.spelling(f.tail) in spaces):
                yield f.name
