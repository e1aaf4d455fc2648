"""Kernels of parts that share nothing but what they read, side by side in one launch."""

import re
from collections.abc import Sequence
from dataclasses import replace

from kernelwright.errors import UnsupportedError
from kernelwright.ir.graph import Graph
from kernelwright.ir.region import Region
from kernelwright.metal.kernel import Kernel
from kernelwright.metal.lower.program.signature import Signature, kernel_name
from kernelwright.metal.lower.term.function import header_for

_SHARED = re.compile(r"^threadgroup \w+ (?P<name>\w+)(?:\[\w+\])*;$", re.MULTILINE)


def reading_signature(signature: Signature, part: Region) -> Signature:
    """Return the names of the arrays that a part of a graph reads."""
    graph = part.bare()
    names = [signature.arrays[value] for value in part.inputs]
    return replace(
        signature,
        inputs=tuple(zip(names, graph.input_types, strict=True)),
        arrays=dict(zip(graph.inputs, names, strict=True)),
    )


def part_signature(signature: Signature, part: Region) -> Signature:
    """Return the names of the arrays that a part of a graph reads and writes."""
    written = dict(zip(part.graph.outputs, (name for name, _ in signature.outputs), strict=True))
    outputs = tuple((written[value], part.graph.types[value]) for value in part.outputs)
    return replace(reading_signature(signature, part), outputs=outputs)


def take_shared(source: str, suffix: str) -> tuple[list[str], str]:
    """Return the declarations of threadgroup memory of a kernel's text, and the text without them.

    It is declared where a function begins, so that parts of a kernel need names of their own: those
    with the suffix.
    """
    declared: list[str] = []
    for match in list(_SHARED.finditer(source)):
        name = match["name"]
        own = f"{name}_{suffix}" if suffix else name
        declared.append(re.sub(rf"\b{name}\b", own, match[0]))
        source = source.replace(match[0] + "\n", "")
        source = re.sub(rf"\b{name}\b", own, source)
    return declared, source


def block(source: str) -> str:
    """Return a kernel's text as a block, whose names are its own."""
    inner = "".join(f"  {line}\n" if line else "\n" for line in source.splitlines())
    return f"{{\n{inner}}}"


def side_by_side(graph: Graph, kernels: Sequence[Kernel], *, axis: int, attribute: str) -> Kernel:
    """Join kernels along an axis of the grid: each takes the threads behind those before it.

    Args:
        graph: what they compute together.
        kernels: with the same threadgroup, that name `attribute` alone of what tells where a
            thread stands along the axis.
        axis: of the grid.
        attribute: what a kernel's text reads its place from.

    Raises:
        UnsupportedError: the kernels differ in more than their extent along the axis.
    """
    first = kernels[0]
    extents: list[int] = []
    for kernel in kernels:
        rest = [n for i, n in enumerate(kernel.grid) if i != axis]
        others = [n for i, n in enumerate(first.grid) if i != axis]
        extent = kernel.grid[axis]
        if kernel.threadgroup != first.threadgroup or rest != others or isinstance(extent, str):
            raise UnsupportedError("kernels of other shapes do not stand side by side.")
        extents.append(extent)
    threads = first.threadgroup[axis]
    assert isinstance(threads, int)
    unit = threads if attribute.startswith("threadgroup_position") else 1
    if any(extent % unit for extent in extents):
        raise UnsupportedError("a part ends within a threadgroup.")
    shared: list[str] = []
    body: list[str] = []
    before = 0
    for number, (kernel, extent) in enumerate(zip(kernels, extents, strict=True)):
        source = kernel.source
        if before:
            source = source.replace(attribute, f"({attribute} - {before // unit})")
        declared, source = take_shared(source, f"of_{number}")
        shared += declared
        before += extent
        is_last = number == len(kernels) - 1
        test = "" if is_last else f"if ({attribute} < {before // unit}) "
        body.append(("else " if number else "") + f"{test}{block(source)}")
    text = "\n".join([*shared, " ".join(body)]) + "\n"
    grid = list(first.grid)
    grid[axis] = sum(extents)
    x, y, z = grid
    inputs = dict.fromkeys(name for kernel in kernels for name in kernel.inputs)
    return first.model_copy(
        update={
            "name": kernel_name(graph),
            "inputs": tuple(inputs),
            "outputs": tuple(name for kernel in kernels for name in kernel.outputs),
            "source": text,
            "header": header_for(text),
            "grid": (x, y, z),
        }
    )
