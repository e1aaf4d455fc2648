"""Member functions whose object lies in an address space, in the C++ that clang compiles."""

from collections.abc import Iterable, Sequence, Set
from itertools import dropwhile

from kernelwright.metal.msl.edit import Editor
from kernelwright.metal.msl.member_overload import (
    LESSER,
    OBJECT,
    chosen_by_space,
    object_parameter,
    outranking,
    qualifiers,
)
from kernelwright.metal.msl.member_space import implicit_members
from kernelwright.metal.msl.structure import Function, Structure
from kernelwright.metal.msl.token import Token

_MEMBER_SPACES = frozenset({"device", "threadgroup", "constant", "thread"})
MEMORY_SPACES = frozenset({"device", "threadgroup", "constant"})
_NO_QUALIFIERS = frozenset({"else", "do", "noexcept", "override", "final", "mutable", "thread"})
"""Words that may stand between a bracket and a brace."""


def rewrite_choices(editor: Editor, structure: Structure) -> Set[int]:
    """Return the first tokens of the members that objects choose by their address space.

    What these would take as soon becomes a template, which yields to one that is none and fits as
    well.
    """
    chosen = chosen_by_space(structure, MEMORY_SPACES)
    for function in outranking(structure, chosen):
        if function.template is None:
            place = structure.code[function.start].offset
            editor.insert(place, f"template <{LESSER} = 0> ")
        else:
            editor.insert(structure.code[function.template[1]].offset, f", {LESSER} = 0")
    return {f.start for f in chosen}


def rewrite_method(
    editor: Editor, structure: Structure, function: Function, chosen: Set[int]
) -> None:
    """Write one member; a function that is none is left as it is."""
    if function.start in chosen:
        _take_object(editor, structure, function)
    else:
        _mark(editor, structure, function)


def hides_members(structure: Structure, tokens: Iterable[Token]) -> bool:
    """Say whether macros define members for an address space, or stand for their qualifiers."""
    words = [t.spelling for t in tokens if t.directive == "define" and t.is_code]
    if any(_begins_qualifiers(words, i) for i, word in enumerate(words) if word == ")"):
        return True
    return any(
        structure.spelling(index - 1) == ")" and MEMORY_SPACES & set(body.split())
        for index, body in structure.hidden.items()
    )


def _begins_qualifiers(words: Sequence[str], closer: int) -> bool:
    """Say whether a member's qualifiers follow its parameters in a macro, which may be its own."""
    rest = dropwhile(("const", "volatile").__contains__, words[closer + 1 : closer + 5])
    word, after = next(rest, ""), next(rest, "")
    is_own = word.isidentifier() and word not in _NO_QUALIFIERS and after == "{"
    return is_own or (word in MEMORY_SPACES and after in ("{", "const", "noexcept"))


def _take_object(editor: Editor, structure: Structure, function: Function) -> None:
    """Make the object of a member a parameter, by whose address space clang chooses."""
    for index in qualifiers(structure, function):
        _drop(editor, structure, index)
    opener, closer = function.parameters
    is_void = not function.declared and structure.spelling(opener + 1) == "void"
    if is_void:
        _drop(editor, structure, opener + 1)
    comma = ", " if closer > opener + 1 and not is_void else ""
    editor.insert(structure.code[opener].end, f"{object_parameter(structure, function)}{comma}")
    if function.body is not None:
        _replace_this(
            editor, structure, function.body, f"(&{OBJECT})", captured=f"&{OBJECT} = {OBJECT}"
        )
        for index in implicit_members(structure, function, None):
            editor.insert(structure.code[index].offset, f"{OBJECT}.")


def _mark(editor: Editor, structure: Structure, function: Function) -> None:
    """Name the address space of `this` in the words that overload resolution needs.

    They are an attribute, which clang takes at the declarator's very end only. Members that the
    body names without `this` get it written out.
    """
    space = structure.spelling(function.tail)
    if space in _MEMBER_SPACES:
        _drop(editor, structure, function.tail)
        editor.insert(structure.code[function.tail_end].offset, f"KW_MEMBER_{space} ")
    if space in MEMORY_SPACES and function.body is not None:
        _replace_this(editor, structure, function.body, f"KW_THIS({space})", captured="this")
        for index in implicit_members(structure, function, MEMORY_SPACES):
            editor.insert(structure.code[index].offset, f"KW_THIS({space})->")


def _drop(editor: Editor, structure: Structure, index: int) -> None:
    token = structure.code[index]
    editor.replace(token.offset, token.text, "")


def _replace_this(
    editor: Editor, structure: Structure, body: tuple[int, int], written: str, *, captured: str
) -> None:
    """Write `this` in another way, and as `captured` where a lambda captures it."""
    captures = {i for start, _ in structure.lambdas for i in range(start, structure.partner[start])}
    for index in range(*body):
        token = structure.code[index]
        if token.text == "this":
            text = captured if index in captures else written
            editor.replace(token.offset, token.text, text)
