"""What a kernel's signature may not be, in Apple's words."""

from collections.abc import Iterator, Mapping, Sequence

from kernelwright.metal.diagnostic import Diagnostic
from kernelwright.metal.msl.signature import (
    SCALAR_ATTRIBUTES,
    VECTOR_ATTRIBUTES,
    Parameter,
)
from kernelwright.metal.msl.structure import Function, Structure
from kernelwright.metal.msl.types import components, is_builtin_type, quoted

LAST_BUFFER = 30
"""Metal Feature Set Tables: 31 buffers a function."""
_OTHER_STAGES = frozenset(
    {
        "stage_in", "vertex_id", "instance_id", "base_vertex", "base_instance", "position",
        "front_facing", "point_coord", "sample_id", "sample_mask", "barycentric_coord",
        "amplification_id", "primitive_id", "depth",
    }
)  # fmt: skip
_IMAGES = frozenset({"texture", "sampler"})
_RESOURCES = frozenset({"buffer", "threadgroup", "function_constant"})
_SPACES = {"buffer": ("device", "constant"), "threadgroup": ("threadgroup",)}
_MIXED = (
    "expecting input declarations with either all scalar types or all vector types with the "
    "same number of elements"
)


def invalid_signatures(
    structure: Structure, kernels: Mapping[str, tuple[Parameter, ...]]
) -> Iterator[Diagnostic]:
    """Yield what is wrong with the kernels that a text defines."""
    for function in structure.functions:
        parameters = kernels.get(function.name)
        if parameters is None or function.body is None:
            continue
        yield from _return_type(structure, function)
        for parameter in parameters:
            yield from _parameter(parameter)
        yield from _bindings(parameters)
        yield from _mixed(parameters)


def _at(parameter: Parameter, message: str) -> Diagnostic:
    return Diagnostic(message=message, line=parameter.line, column=parameter.column)


def _return_type(structure: Structure, function: Function) -> Iterator[Diagnostic]:
    before = structure.spelling(function.name_at - 1)
    if is_builtin_type(before) and before != "void":
        token = structure.code[function.name_at]
        yield Diagnostic(
            message=f"invalid return type {quoted(before)} for kernel function",
            line=token.line,
            column=token.column,
        )


def _parameter(p: Parameter) -> Iterator[Diagnostic]:
    if p.attribute in _IMAGES:
        yield _at(p, "textures and samplers are not supported by the simulator")
    elif (p.is_pointer or p.is_reference) and (given := _given(p)):
        yield _at(p, f"type '{_indirect(p)}' is not valid for attribute '{given}'")
    elif p.kind == "attribute":
        yield from _input(p)
    elif not 0 <= p.index <= LAST_BUFFER:
        yield _at(
            p,
            f"'{p.kind}' attribute parameter is out of bounds: must be between 0 and {LAST_BUFFER}",
        )
    elif not p.is_pointer and not p.is_reference:
        if p.space:
            yield _at(p, "parameter may not be qualified with an address space")
        else:
            yield _at(p, f"type {quoted(p.type)} is not valid for attribute '{p.kind}'")
    elif p.space and not p.pointee_space:
        pointee = f"{p.space} {p.type} *"
        yield _at(p, f"invalid address space qualification for {p.kind} pointee type '{pointee}'")
    elif p.space not in _SPACES[p.kind]:
        pointee = f"{p.space} {p.type}".strip()
        yield _at(p, f"invalid address space qualification for {p.kind} pointee type '{pointee}'")


def _given(p: Parameter) -> str:
    """Return the attribute for which the GPU itself gives a value: it lies in no memory."""
    given = (a for a in p.attributes if a in VECTOR_ATTRIBUTES or a in SCALAR_ATTRIBUTES)
    return next(given, "")


def _indirect(p: Parameter) -> str:
    const = "const " if p.is_const and p.space != "constant" else ""
    pointee = f"{const}{p.space} {p.type}".strip()
    return f"{pointee} {'*' if p.is_pointer else '&'}"


def _input(p: Parameter) -> Iterator[Diagnostic]:
    if not p.attribute:
        is_indirect = p.is_pointer or p.is_reference
        # A missing address space is reported where the pointer is.
        if p.space or not is_indirect:
            type_ = _indirect(p) if is_indirect else p.type
            yield _at(p, f"invalid type '{type_}' for input declaration in a kernel function")
    elif p.attribute in _OTHER_STAGES:
        yield _at(
            p, f"invalid '{p.attribute}' attribute for input declaration in a kernel function"
        )
    elif p.attribute in VECTOR_ATTRIBUTES or p.attribute in SCALAR_ATTRIBUTES:
        count = components(p.type)
        allowed = (1, 2, 3) if p.attribute in VECTOR_ATTRIBUTES else (1,)
        is_known = is_builtin_type(p.type) or count is not None
        if is_known and count not in allowed:
            yield _at(p, f"type {quoted(p.type)} is not valid for attribute '{p.attribute}'")
    elif p.attribute not in _RESOURCES:
        yield _at(p, f"invalid type '{p.type}' for input declaration in a kernel function")


def _bindings(parameters: Sequence[Parameter]) -> Iterator[Diagnostic]:
    seen: set[tuple[str, int]] = set()
    for p in parameters:
        if p.kind == "attribute" or p.constant:
            continue
        if (p.kind, p.index) in seen:
            yield _at(p, f"cannot reserve '{p.kind}' resource location at index {p.index}")
        seen.add((p.kind, p.index))


def _mixed(parameters: Sequence[Parameter]) -> Iterator[Diagnostic]:
    """Positions and sizes of a grid must all have the same number of components."""
    counts = {
        p: count
        for p in parameters
        if p.attribute in VECTOR_ATTRIBUTES and (count := components(p.type)) is not None
    }
    first = next(iter(counts.values()), 0)
    if odd := next((p for p, count in counts.items() if count != first), None):
        yield _at(odd, _MIXED)
