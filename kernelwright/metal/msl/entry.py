"""How a kernel is entered: the function that unpacks its arguments and calls it."""

import re
from collections.abc import Iterator, Sequence

from kernelwright.metal.msl.attribute import read_attributes
from kernelwright.metal.msl.signature import (
    SCALAR_ATTRIBUTES,
    VECTOR_ATTRIBUTES,
    Parameter,
)
from kernelwright.metal.msl.structure import Function, Structure, split
from kernelwright.metal.msl.token import TokenKind


def is_kernel(structure: Structure, function: Function) -> bool:
    """Say whether a function is declared `kernel` or `[[kernel]]`."""
    named = {
        name for start, end in function.attributes
        for name, _, _ in read_attributes(structure, start, end)
    }  # fmt: skip
    words = {structure.spelling(i) for i in range(function.start, function.name_at)}
    return "kernel" in named or "kernel" in words


def host_name(structure: Structure, attributes: Sequence[tuple[int, int]]) -> str | None:
    """Return the text of a `host_name` attribute's argument."""
    for start, end in attributes:
        for name, argument, _ in read_attributes(structure, start, end):
            if name == "host_name":
                return argument
    return None


def caller(
    structure: Structure, function: Function, parameters: Sequence[Parameter], *, waits: bool
) -> str:
    """Write the function that calls a kernel with what the entry point is given.

    A kernel that `waits` gets no entry that runs a row of threads.
    """
    declared = function.declared
    arguments = []
    for d, p in zip(declared, parameters, strict=True):
        type_ = pointer_text(structure, d.type_tokens)
        if p.kind == "attribute":
            arguments.append(_attribute(type_, p.attribute))
        elif p.is_reference:
            pointer = type_.replace("&", "*")
            arguments.append(f"*({pointer})(kw_ulong)kw_buffers[{p.slot}]")
        else:
            arguments.append(f"({type_})(kw_ulong)kw_buffers[{p.slot}]")
    template, names = "", ""
    if function.template is not None and function.template[1] > function.template[0] + 1:
        template = f"template {structure.text(*function.template)} "
        names = f"<{', '.join(template_names(structure, function.template))}>"
    # One of namespace metal may have the same name, and is seen beside the program's own.
    name = function.name if function.scope else f"::{function.name}"
    call = (
        f" {template}KW_UNSEEN inline void kw_call_{function.name}(void* const* kw_buffers, "
        f"const struct kw_thread* kw_who) {{ {name}{names}({', '.join(arguments)}); }}"
    )
    if not template:
        host = host_name(structure, function.attributes) or f'"{function.name}"'
        entry = "KW_WAITING_ENTRY" if waits else "KW_ENTRY"
        call += f" {entry}({function.name}, {host}, {name})"
    return call


def pointer_text(structure: Structure, type_tokens: Sequence[int]) -> str:
    """Write a parameter's type; an array is the pointer to its first element."""
    words = [structure.spelling(i) for i in type_tokens]
    if "[" not in words or "(" in words[: words.index("[")]:
        return " ".join(words)
    opens, closes = words.index("["), words.index("]")
    rest = " ".join(words[closes + 1 :])
    return " ".join([*words[:opens], f"(*) {rest}" if rest else "*"])


def _attribute(type_: str, attribute: str) -> str:
    if attribute in VECTOR_ATTRIBUTES:
        return f"kw_attribute<{type_}>(kw_who->{VECTOR_ATTRIBUTES[attribute]})"
    expression = SCALAR_ATTRIBUTES.get(attribute, "")
    value = re.sub(r"(?<![.\w])[a-z]\w*", lambda m: f"kw_who->{m[0]}", expression) or "32u"
    return f"kw_attribute<{type_}>(kw_uint({value}))"


def template_names(structure: Structure, template: tuple[int, int]) -> Iterator[str]:
    """Yield the names that a template header declares, packs with their dots."""
    for part in split(structure, template[0] + 1, template[1]):
        words = list(part)
        equals = next((i for i in words if structure.spelling(i) == "="), part.stop)
        names = [i for i in words if i < equals and structure.code[i].kind is TokenKind.IDENTIFIER]
        pack = "..." if any(structure.spelling(i) == "..." for i in words) else ""
        yield structure.spelling(_parameter_name(structure, names, words)) + pack


def _parameter_name(structure: Structure, names: list[int], words: list[int]) -> int:
    # `void (*F)(device T*)`: the name stands before the first closing parenthesis.
    for i in words:
        if structure.spelling(i) == ")" and i - 1 in names:
            return i - 1
    return names[-1]
