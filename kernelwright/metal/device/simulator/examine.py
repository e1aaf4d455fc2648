"""Searches a text that clang takes for what Apple refuses, and for looks at addresses."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelwright.errors import DeviceError
from kernelwright.metal.device.simulator.address_rules import (
    COMPARED,
    address_breaches,
    compares_arrays,
    pointer_comparisons,
)
from kernelwright.metal.device.simulator.member_rules import lost_spaces
from kernelwright.metal.device.simulator.recursion_rules import recursive_calls
from kernelwright.metal.device.simulator.space_rules import mixed_spaces
from kernelwright.metal.device.simulator.standard_rules import (
    later_features,
    later_warnings,
    standard_breaches,
)
from kernelwright.metal.device.simulator.syntax_tree import Node, read_tree
from kernelwright.metal.device.simulator.toolchain import WHOLE_FLAGS, output_of, run
from kernelwright.metal.device.simulator.tree_rules import (
    called_kernels,
    language_breaches,
    shared_float_atomics,
)
from kernelwright.metal.device.simulator.unit import Unit
from kernelwright.metal.diagnostic import Diagnostic

_DUMP = ("-fsyntax-only", "-Xclang", "-ast-dump")
_LISTING = ("-fno-vectorize", "-fno-slp-vectorize", *WHOLE_FLAGS, "-w", "-S", "-emit-llvm")
_MOST_FOUND = 20


def examine(unit: Unit, command: Sequence[str], source: Path) -> tuple[Diagnostic, ...]:
    """Return what is wrong with a text beyond what clang says, by place.

    Args:
        unit: The text.
        command: clang with the flags of a plain build, without its source.
        source: What is compiled; left as it is.

    Raises:
        DeviceError: clang does not show what it takes.
    """
    dump, said = output_of([*command, *_DUMP, *later_warnings(unit.language), str(source)])
    if not dump:
        raise DeviceError("the compiler does not show the syntax tree of a text that it takes.")
    nodes = read_tree(dump, frozenset((*unit.sources, *unit.mirror.sources)), unit.callers)
    found = [*language_breaches(nodes), *mixed_spaces(nodes), *lost_spaces(nodes)]
    found += standard_breaches(nodes, unit.language)
    found += called_kernels(nodes, unit.kernels)
    found += recursive_calls(nodes, unit.sources)
    found += shared_float_atomics(nodes, unit.language)
    if not unit.sees_addresses:
        found += _looks_at_addresses(nodes, command, source)
    later = later_features(unit.diagnostics(said), unit.language)
    return (*later, *_diagnostics(unit, found))


def _looks_at_addresses(
    nodes: Sequence[Node], command: Sequence[str], source: Path
) -> Iterator[tuple[Node, str]]:
    yield from address_breaches(nodes)
    compared = next(pointer_comparisons(nodes), None)
    if compared is not None:
        listing = source.with_suffix(".origins.ll")
        run([*command, *_LISTING, str(source), "-o", str(listing)])
        if listing.is_file() and compares_arrays(listing.read_text()):
            yield compared, COMPARED


def _diagnostics(unit: Unit, found: Sequence[tuple[Node, str]]) -> Iterator[Diagnostic]:
    told = set[Diagnostic]()
    for node, message in found:
        place = node.place and unit.located(node.place)
        if place is None:
            diagnostic = Diagnostic(message=message)
        else:
            lines = {**unit.mirror.sources, **unit.sources}.get(place.file, ())
            shown = lines[place.line - 1] if 0 < place.line <= len(lines) else ""
            diagnostic = Diagnostic(
                message=message,
                file=place.file,
                line=place.line,
                column=place.column,
                source_line=shown,
            )
        if diagnostic not in told and len(told) < _MOST_FOUND:
            told.add(diagnostic)
            yield diagnostic
