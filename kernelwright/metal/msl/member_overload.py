"""Member functions that are overloaded by the address space of their object.

clang knows the space of an object and chooses by it, where the object is a parameter: such a
function takes it as `this device S& self` in C++23. Those that do the same in every space stay one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Set

from kernelwright.metal.msl.owner import owner
from kernelwright.metal.msl.structure import ADDRESS_SPACES, Function, Structure

OBJECT = "kw_self"
"""The parameter that is the object of such a function."""
LESSER = "int kw_lesser"
"""The parameter of a template that is one only to be the lesser choice."""
_DEFAULT = "thread"

_Members = dict[tuple[tuple[str, ...], str], list[Function]]


def chosen_by_space(structure: Structure, spaces: Set[str]) -> tuple[Function, ...]:
    """Return the members for `spaces` of which the object's address space chooses one.

    There are others of that name and class for another space, and what they do differs: by their
    own words, or because they name what differs between spaces itself.
    """
    overloaded = _overloaded(structure)
    if not overloaded:
        return ()
    differing = {key for key, some in overloaded.items() if _differ(structure, some)}
    names = _space_dependent(structure, {name for _, name in differing})
    return tuple(
        f
        for key, some in overloaded.items()
        if key in differing or any(_names_one(structure, f, names) for f in some)
        for f in some
        if _space(structure, f) in spaces and _takes_object(structure, f)
    )


def outranking(structure: Structure, chosen: Iterable[Function]) -> Iterator[Function]:
    """Yield members for `thread` that objects of other spaces would take as soon as their own.

    To C++ every object may be in the default space, which is no worse for `f() thread` beside
    `f() const device` than that `const`.
    """
    kept: dict[object, set[str]] = defaultdict(set)
    for f in chosen:
        kept[owner(structure, f), f.name] |= _kept_words(structure, f)
    for f in structure.functions:
        is_whole = f.in_class and f.body is not None and _space(structure, f) == _DEFAULT
        is_static = any(structure.spelling(i) == "static" for i in range(f.start, f.name_at))
        wanted = kept.get((owner(structure, f), f.name), set())
        if is_whole and not is_static and not wanted <= _kept_words(structure, f):
            yield f


def never_chosen(structure: Structure) -> tuple[Function, ...]:
    """Return the first of each such members that C++ lets nobody choose by a parameter."""
    alike: dict[str, list[Function]] = defaultdict(list)
    for some in _overloaded(structure).values():
        for f in some:
            if f.body is not None and not _takes_object(structure, f):
                alike[structure.text(f.begin, f.parameters[1])].append(f)
    return tuple(some[0] for some in alike.values() if _differ(structure, some))


def _overloaded(structure: Structure) -> _Members:
    """Return the members of which there are several for different spaces."""
    members: _Members = defaultdict(list)
    for function in structure.functions:
        if (class_ := owner(structure, function)) is not None:
            members[class_, function.name].append(function)
    return {
        key: some for key, some in members.items() if len({_space(structure, f) for f in some}) > 1
    }


def _takes_object(structure: Structure, function: Function) -> bool:
    """Say whether a member may take its object as a parameter: constructors have none yet."""
    class_ = owner(structure, function)
    name = class_[-1] if class_ else ""
    return name != "" and function.name not in (name, f"~{name}")


def object_parameter(structure: Structure, function: Function) -> str:
    """Write the parameter, with what stands behind the function's own as its qualifiers."""
    class_ = owner(structure, function) or ("",)
    words = [*sorted(_kept_words(structure, function)), structure.spelling(function.tail)]
    return " ".join(["this", *words, f"{class_[-1]}& {OBJECT}"])


def qualifiers(structure: Structure, function: Function) -> Iterator[int]:
    """Yield the tokens behind a member's parameters that tell of its object."""
    index = function.parameters[1] + 1
    while index < function.tail_end and (word := structure.spelling(index)) != "->":
        if word in ("const", "volatile") or index == function.tail:
            yield index
        index = structure.partner.get(index, index) + 1


def _kept_words(structure: Structure, function: Function) -> set[str]:
    words = {structure.spelling(i) for i in qualifiers(structure, function)}
    return words & {"const", "volatile"}


def _space(structure: Structure, function: Function) -> str:
    word = structure.spelling(function.tail)
    return word if word in ADDRESS_SPACES else _DEFAULT


def _differ(structure: Structure, members: Iterable[Function]) -> bool:
    """Say whether overloads differ in more than the space of their object."""
    texts: dict[str, set[str]] = defaultdict(set)
    for f in members:
        last = f.body[1] if f.body is not None else f.tail_end - 1
        space_at = f.tail if structure.spelling(f.tail) in ADDRESS_SPACES else -1
        words = (structure.spelling(i) for i in range(f.begin, last + 1) if i != space_at)
        texts[_space(structure, f)].add(" ".join(words))
    return len({frozenset(some) for some in texts.values()}) > 1


def _space_dependent(structure: Structure, names: set[str]) -> set[str]:
    """Return the functions that do something else in another space, those that name one included.

    Templates among them take the space of their arguments.
    """
    kinds: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for f in structure.functions:
        spaces = (structure.spelling(i) for d in f.declared for i in d.type_tokens)
        kinds[f.name].add(tuple(word for word in spaces if word in ADDRESS_SPACES))
    found = names | {name for name, some in kinds.items() if len(some) > 1}
    while more := {
        f.name
        for f in structure.functions
        if f.name not in found and _names_one(structure, f, found)
    }:
        found |= more
    return found


def _names_one(structure: Structure, function: Function, names: Set[str]) -> bool:
    if function.body is None or not names:
        return False
    words = set(structure.words[function.body[0] : function.body[1]])
    return any(_mentioned(name) in words or _is_conversion(name) for name in names)


def _mentioned(name: str) -> str:
    """Return the token by which a body names a function: of an operator its sign."""
    sign = name.removeprefix("operator")
    return sign[0] if sign != name and sign in ("[]", "()") else sign


def _is_conversion(name: str) -> bool:
    """Say whether a function converts its object, which no token tells of."""
    return name.startswith("operator ")
