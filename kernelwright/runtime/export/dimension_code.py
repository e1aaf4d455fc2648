"""Prints how a program's dimensions follow from the arrays that it is given."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernelwright.metal.extent import FUNCTIONS, symbols_in
from kernelwright.metal.input_dimension import DimensionSource, dimension_sources
from kernelwright.metal.kernel import Extent, Program

_NAME = re.compile(r"[A-Za-z_]\w*")
_OWN_FUNCTIONS = frozenset(FUNCTIONS) - {"min", "max"}
"""Launch arithmetic's that Python lacks: the module defines them."""


@dataclass(frozen=True)
class ShapeConditions:
    """What has to hold of sizes."""

    single: list[list[str]]
    """Of each input's axes beside those of inputs before it."""
    joint: list[str]
    """Of sums and products, whose parts may be axes of later inputs: ask once ranks are known."""


def extent_source(extent: Extent, names: Mapping[str, str] | None = None) -> str:
    """Print launch arithmetic, which is Python's own but for two functions and the names.

    A name is one of the wrapper's variables, or what `names` says.
    """
    if isinstance(extent, int):
        return str(extent)

    def spelled(word: re.Match[str]) -> str:
        if word[0] in FUNCTIONS:
            return f"_{word[0]}" if word[0] in _OWN_FUNCTIONS else word[0]
        if names is None:
            return f"_{word[0]}"
        return names[word[0]] if word[0] == extent else _grouped(names[word[0]])

    return _NAME.sub(spelled, extent)


def dimension_lines(
    program: Program, parameters: Sequence[str], extents: Iterable[Extent]
) -> list[str]:
    """Return the assignments of the names that some extents use."""
    used = set[str]().union(*map(symbols_in, extents))
    sources = _sources(program)
    for source in reversed(sources):
        if source.name in used:
            used |= symbols_in(source.factor) | symbols_in(source.rest)
    bound = {s.name: _solved(s, parameters) for s in sources} | _tunables(program)
    return [f"_{name} = {value}" for name, value in bound.items() if name in used]


def shape_conditions(program: Program, parameters: Sequence[str]) -> ShapeConditions:
    """Return what the sizes of a program's inputs have to be."""
    sources, told = _sources(program), _tunables(program)
    for source in sources:
        told[source.name] = _solved(source, parameters, told)
    first = {(source.input, source.axis): source for source in sources}
    single: list[list[str]] = []
    joint: list[str] = []
    for place, (tensor, parameter) in enumerate(zip(program.inputs, parameters, strict=True)):
        single.append([])
        for axis, extent in enumerate(tensor.shape):
            is_plain = isinstance(extent, int) or extent.isidentifier()
            (single[-1] if is_plain else joint).extend(
                _axis_conditions(
                    f"{parameter}.shape[{axis}]", extent, first.get((place, axis)), told
                )
            )
    return ShapeConditions(single, joint)


def _axis_conditions(
    here: str, extent: Extent, source: DimensionSource | None, told: Mapping[str, str]
) -> list[str]:
    equal = f"{here} == {extent_source(extent, told)}"
    if source is None:
        return [equal]
    if (source.factor, source.rest) == ("1", "0"):
        return []
    positive = f"{told[source.name]} > 0"
    if source.factor == "1":
        return [positive]
    # Nothing is divided by a dimension of no elements.
    divisor = [] if source.factor.isdigit() else [f"{extent_source(source.factor, told)} > 0"]
    return [*divisor, positive, equal]


def _sources(program: Program) -> tuple[DimensionSource, ...]:
    return dimension_sources([t.shape for t in program.inputs], _tunables(program).keys())


def _tunables(program: Program) -> dict[str, str]:
    return {t.name: str(t.value) for t in program.tunables}


def _solved(
    source: DimensionSource, parameters: Sequence[str], names: Mapping[str, str] | None = None
) -> str:
    """Print a dimension as what is left of an axis."""
    text = f"{parameters[source.input]}.shape[{source.axis}]"
    if source.rest != "0":
        rest, negated = source.rest, source.rest.removeprefix("0 - ")
        is_added = negated.isdigit() and negated != rest
        left = _grouped(extent_source(rest, names))
        text += f" + {negated}" if is_added else f" - {left}"
    if source.factor == "1":
        return text
    return f"{_grouped(text)} // {_grouped(extent_source(source.factor, names))}"


def _grouped(text: str) -> str:
    return f"({text})" if " " in text else text
