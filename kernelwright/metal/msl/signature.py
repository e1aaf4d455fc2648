"""What a kernel takes: its parameters with their binding or attribute, as records."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from kernelwright.errors import InputError
from kernelwright.metal.extent import evaluate
from kernelwright.metal.msl.structure import ADDRESS_SPACES, Declared, Function, Structure
from kernelwright.metal.msl.token import TokenKind

ParameterKind = Literal["buffer", "threadgroup", "attribute"]

VECTOR_ATTRIBUTES: Mapping[str, str] = {
    "thread_position_in_grid": "position_in_grid",
    "thread_position_in_threadgroup": "position_in_threadgroup",
    "threadgroup_position_in_grid": "threadgroup_position",
    "threads_per_grid": "threads_per_grid",
    "grid_size": "threads_per_grid",
    "grid_origin": "grid_origin",
    "threads_per_threadgroup": "threads_per_threadgroup",
    "dispatch_threads_per_threadgroup": "dispatch_threads_per_threadgroup",
    "threadgroups_per_grid": "threadgroups_per_grid",
}
"""Attributes of up to three components, with the field of `kw_thread` that holds them."""


def _quadgroups(size: str) -> str:
    return f"({size}.x * {size}.y * {size}.z + 3) / 4"


SCALAR_ATTRIBUTES: Mapping[str, str] = {
    "thread_index_in_threadgroup": "index_in_threadgroup",
    "thread_index_in_simdgroup": "lane",
    "simdgroup_index_in_threadgroup": "simdgroup",
    "simdgroups_per_threadgroup": "simdgroups",
    "dispatch_simdgroups_per_threadgroup": "dispatch_simdgroups",
    "thread_index_in_quadgroup": "lane % 4",
    "quadgroup_index_in_threadgroup": "index_in_threadgroup / 4",
    "quadgroups_per_threadgroup": _quadgroups("threads_per_threadgroup"),
    "dispatch_quadgroups_per_threadgroup": _quadgroups("dispatch_threads_per_threadgroup"),
    "threads_per_simdgroup": "",
    "thread_execution_width": "",
}
"""Attributes of one component; an empty field means the constant 32."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel function."""

    name: str
    kind: ParameterKind
    space: str
    """`device`, `constant`, `threadgroup`; empty for an attribute."""
    type: str
    """The pointee, or the attribute's type, without qualifiers: `float`, `atomic<uint>`, `T`."""
    is_const: bool
    """The kernel may not write it."""
    is_reference: bool
    index: int
    """n of `[[buffer(n)]]` or `[[threadgroup(n)]]`; -1 for an attribute."""
    slot: int
    """Place in the entry's array: device buffers first, then threadgroup; -1 for an attribute."""
    attribute: str
    line: int
    column: int
    is_pointer: bool = False
    pointee_space: str = ""
    """Of what the outermost `*` or `&` points to: none in `device float** p`."""
    attributes: tuple[str, ...] = ()
    """Names of everything between its double brackets."""
    constant: str = ""
    """The function constant that a `[[function_constant(name)]]` parameter depends on."""


@dataclass(frozen=True)
class Entry:
    """One kernel of a library, or one `host_name` instantiation of a template."""

    name: str
    symbol: str
    """Name in the shared object's symbol table."""
    kernel: str
    """The function it comes from."""
    parameters: tuple[Parameter, ...]

    @cached_property
    def buffers(self) -> tuple[Parameter, ...]:
        """The device and constant parameters, by slot."""
        return tuple(p for p in self.parameters if p.kind == "buffer")

    @cached_property
    def threadgroups(self) -> tuple[Parameter, ...]:
        """The threadgroup parameters, by slot."""
        return tuple(p for p in self.parameters if p.kind == "threadgroup")


def read_parameters(
    structure: Structure, function: Function, constants: Mapping[str, int]
) -> tuple[Parameter, ...]:
    """Read a kernel's signature; `constants` are names that binding indices may use."""
    declared = function.declared
    kinds = [_kind(structure, d) for d in declared]
    indices = [_index(d, k, constants) for d, k in zip(declared, kinds, strict=True)]
    buffers = kinds.count("buffer")
    used: dict[ParameterKind, set[int]] = {
        kind: {i for k, i in zip(kinds, indices, strict=True) if k == kind and i is not None}
        for kind in ("buffer", "threadgroup")
    }
    slots = {"buffer": 0, "threadgroup": buffers}
    parameters = []
    for d, kind, index in zip(declared, kinds, indices, strict=True):
        slot = -1
        if kind != "attribute":
            slot = slots[kind]
            slots[kind] += 1
            if index is None:
                index = next(i for i in range(len(used[kind]) + 1) if i not in used[kind])
                used[kind].add(index)
        parameters.append(_parameter(structure, d, kind, -1 if index is None else index, slot))
    return tuple(parameters)


def _kind(structure: Structure, declared: Declared) -> ParameterKind:
    names = {name for name, _, _ in declared.attributes}
    spaces = {structure.spelling(i) for i in declared.type_tokens} & ADDRESS_SPACES
    if "buffer" in names:
        return "buffer"
    if "threadgroup" in names or "threadgroup" in spaces:
        return "threadgroup"
    if spaces & {"device", "constant"}:
        return "buffer"
    return "attribute"


def _index(declared: Declared, kind: ParameterKind, constants: Mapping[str, int]) -> int | None:
    for name, argument, _ in declared.attributes:
        if name == kind:
            try:
                # An extent has no sign; an index may be wrong by one.
                signed = f"0 {argument}" if argument.startswith("-") else argument
                return evaluate(signed.rstrip("uU") or "0", constants)
            except InputError:
                return None
    return None


def _parameter(
    structure: Structure, declared: Declared, kind: ParameterKind, index: int, slot: int
) -> Parameter:
    words = [structure.spelling(i) for i in declared.type_tokens]
    space = next((w for w in words if w in ADDRESS_SPACES), "")
    attribute = ""
    if kind == "attribute":
        known = (*VECTOR_ATTRIBUTES, *SCALAR_ATTRIBUTES)
        names = [name for name, _, _ in declared.attributes]
        attribute = next((n for n in names if n in known), names[0] if names else "")
    dropped = {*ADDRESS_SPACES, "const", "volatile", "*", "&", "restrict", "__restrict"}
    pointee = [i for i in declared.type_tokens if structure.spelling(i) not in dropped]
    place = structure.code[declared.name_at if declared.name_at >= 0 else declared.start]
    return Parameter(
        name=structure.spelling(declared.name_at) if declared.name_at >= 0 else "",
        kind=kind,
        space=space,
        type="".join(
            part
            for i in pointee
            for part in (structure.spelling(i), " " if _is_word_pair(structure, i) else "")
        ).strip(),
        is_const=_is_const(words, space),
        is_reference="&" in words,
        index=index,
        slot=slot,
        attribute=attribute,
        line=place.line,
        column=place.column,
        is_pointer="*" in words or "[" in words,
        pointee_space=_pointee_space(words),
        attributes=tuple(name for name, _, _ in declared.attributes),
        constant=next((a for n, a, _ in declared.attributes if n == "function_constant"), ""),
    )


def _is_word_pair(structure: Structure, index: int) -> bool:
    word = TokenKind.IDENTIFIER
    return (
        structure.code[index].kind is word
        and index + 1 < len(structure.code)
        and structure.code[index + 1].kind is word
    )


def _pointee_space(words: list[str]) -> str:
    marks = [i for i, w in enumerate(words) if w in ("*", "&")]
    own = words[marks[-2] : marks[-1]] if len(marks) > 1 else words
    return next((w for w in own if w in ADDRESS_SPACES), "")


def _is_const(words: list[str], space: str) -> bool:
    star = next((i for i, w in enumerate(words) if w in ("*", "&")), len(words))
    return space == "constant" or "const" in words[:star]
