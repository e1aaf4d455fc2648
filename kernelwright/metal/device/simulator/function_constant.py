"""The values that specialise a kernel: whether the text takes them, and which it needs."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kernelwright.metal.device.simulator.argument import shown
from kernelwright.metal.device.simulator.element import SCALARS, converted
from kernelwright.metal.device.simulator.unit import Unit
from kernelwright.metal.diagnostic import LaunchError
from kernelwright.metal.msl.rewrite import FunctionConstant
from kernelwright.metal.msl.signature import Entry
from kernelwright.metal.msl.structure import Structure

Constants = Mapping[int | str, bool | int | float]
"""Values of function constants, by index or name."""
_GUARD = "is_function_constant_defined"


def values_by_index(
    declared: Sequence[FunctionConstant], constants: Constants
) -> dict[int, int | float]:
    """Return the values by index.

    Raises:
        LaunchError: there is no such constant, its type does not hold the value, or constants of
            different types share an index.
    """
    if not isinstance(constants, Mapping):
        raise LaunchError(
            f"constants is expected to be a dict of values by name or index, found "
            f"{shown(constants)}."
        )
    by_index: dict[int, FunctionConstant] = {}
    for one in declared:
        other = by_index.setdefault(one.index, one)
        if other.type != one.type:
            raise LaunchError(
                f"the function constants {other.name} ({other.type}) and {one.name} ({one.type}) "
                f"share the index {one.index}; give each an index of its own."
            )
    indices = {c.name: c.index for c in declared}
    found: dict[int, int | float] = {}
    for key, value in constants.items():
        index = indices.get(key, -1) if isinstance(key, str) else _index_of(key)
        if index not in by_index:
            known = ", ".join(f"{n} ({i})" for n, i in indices.items()) or "none"
            raise LaunchError(
                f"there is no function constant {shown(key)}; the constants are: {known}."
            )
        if index in found:
            name = by_index[index].name
            raise LaunchError(
                f"constants has {name} twice, by its name and by its index; keep one."
            )
        found[index] = _held(by_index[index], value)
    return found


def _index_of(key: object) -> int:
    is_index = isinstance(key, int | np.integer) and not isinstance(key, bool)
    return int(key) if is_index else -1  # type: ignore[call-overload]


def _held(constant: FunctionConstant, value: bool | int | float) -> int | float:
    dtype = SCALARS.get(constant.type)
    if dtype is not None and converted(value, dtype, rounds=True) is None:
        raise LaunchError(
            f"the function constant {constant.name} is a {constant.type}, which does not hold "
            f"{shown(value)}; pass a value of that type."
        )
    return int(value) if isinstance(value, bool) else value


def refuse_unset(unit: Unit, entry: Entry, values: Mapping[int, int | float]) -> None:
    """Refuse a kernel that uses a function constant without a value, as Metal makes none of it.

    Only what the text's own words tell is refused: a constant that the kernel, or what it names,
    names, and about which nothing asks whether it is defined.

    Raises:
        LaunchError: it uses one.
    """
    structure = unit.rewritten.structure
    # A vector's value cannot be given.
    declared = (c for c in unit.rewritten.constants if c.type in SCALARS)
    open_ = [c for c in declared if c.index not in values]
    if not open_ or unit.mirror.files or entry.kernel not in unit.rewritten.kernels:
        return
    asked = {structure.spelling(i + 2) for i, word in enumerate(structure.words) if word == _GUARD}
    used = _named_by(structure, entry.kernel) - _own_names(structure)
    for constant in open_:
        if constant.name in used and constant.name not in asked:
            raise LaunchError(
                f"{entry.name} uses the function constant {constant.name} ({constant.index}), "
                f"which has no value; pass constants={{{constant.index}: …}}, on the command line "
                f"--constant {constant.name}=…, or ask "
                f"{_GUARD}({constant.name}) first."
            )


def _named_by(structure: Structure, kernel: str) -> set[str]:
    """Return every name of a function's body, and of the functions and variables that it names.

    The name of what is called ends in a bracket.
    """
    names: dict[str, set[str]] = {}
    for function in structure.functions:
        if function.body is not None:
            names.setdefault(f"{function.name}(", set()).update(_names(structure, *function.body))
    for variable in structure.variables:
        for declarator in variable.declarators:
            if declarator.value is not None:
                name = structure.spelling(declarator.name_at)
                names.setdefault(name, set()).update(_names(structure, *declarator.value))
    found, waiting = set[str](), [f"{kernel}("]
    while waiting:
        new = names.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def _names(structure: Structure, first: int, last: int) -> Iterator[str]:
    """Yield what tokens name, without members."""
    for i in range(first, last + 1):
        if structure.spelling(i - 1) not in (".", "->"):
            yield structure.spelling(i)
            if structure.spelling(i + 1) in ("(", "<"):
                yield f"{structure.spelling(i)}("


def _own_names(structure: Structure) -> set[str]:
    """Return the names of the text's parameters and local variables, which hide others."""
    places = [d.name_at for f in structure.functions for d in f.declared]
    places += [d.name_at for v in structure.locals for d in v.declarators]
    return {structure.spelling(place) for place in places}
