"""How the dimensions of a program follow from the shapes of its inputs."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kernelwright.errors import InputError
from kernelwright.ir.graph.open_size import OpenSize, Terms
from kernelwright.metal.extent import evaluate, symbols_in, terms_of

Shape = tuple[int | str, ...]
"""An array's extents."""


@dataclass(frozen=True)
class DimensionSource:
    """The axis of an input that gives a dimension its size: `factor * name + rest` elements.

    `factor` and `rest` are launch arithmetic over dimensions that earlier sources give.
    """

    name: str
    input: int
    axis: int
    factor: str = "1"
    rest: str = "0"

    def size(self, elements: int, known: Mapping[str, int]) -> int | None:
        """Return what the dimension is where the axis has so many elements; None where nothing."""
        factor = evaluate(self.factor, known)
        if factor == 0:
            return None
        size, left = divmod(elements - evaluate(self.rest, known), factor)
        return size if left == 0 and size >= 0 else None


def names_in(shapes: Sequence[Shape]) -> tuple[str, ...]:
    """Return the names that extents mention, in the order of the axes."""
    mentioned = (sorted(symbols_in(extent)) for shape in shapes for extent in shape)
    return tuple(dict.fromkeys(name for names in mentioned for name in names))


def dimension_sources(
    shapes: Sequence[Shape], known: AbstractSet[str] = frozenset()
) -> tuple[DimensionSource, ...]:
    """Return where each name in the inputs' shapes comes from, in an order that resolves them.

    A name that is a whole extent comes from the first such axis; one that occurs only in sums and
    products, such as `new` in `past + new`, from an axis where it alone is unknown. Names that no
    axis tells have no source.

    Args:
        shapes: of the inputs, in order.
        known: names that stand for numbers already, as tunables do.
    """
    axes = [(i, a, e) for i, s in enumerate(shapes) for a, e in enumerate(s) if isinstance(e, str)]
    found: dict[str, DimensionSource] = {}
    for place, axis, extent in axes:
        if extent.isidentifier() and extent not in known:
            found.setdefault(extent, DimensionSource(extent, place, axis))
    while (source := next(_solvable(axes, {*known, *found}), None)) is not None:
        found[source.name] = source
    return tuple(found.values())


def _solvable(
    axes: Sequence[tuple[int, int, str]], known: AbstractSet[str]
) -> Iterator[DimensionSource]:
    for place, axis, extent in axes:
        unknown, terms = symbols_in(extent) - known, terms_of(extent)
        if len(unknown) != 1 or terms is None:
            continue
        (name,) = unknown
        if all(product.count(name) <= 1 for product in terms):
            factor = {_without(p, name): n for p, n in terms.items() if name in p}
            rest = {p: n for p, n in terms.items() if name not in p}
            yield DimensionSource(name, place, axis, _text(factor), _text(rest))


def _without(product: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(other for other in product if other != name)


def _text(terms: Terms) -> str:
    text = OpenSize(1, terms).text
    # Launch arithmetic has no sign before a number.
    return f"0 {text}" if text.startswith("-") else text


def resolved(
    names: Sequence[str],
    shapes: Sequence[Shape],
    sizes: Sequence[tuple[int, ...]],
    known: Mapping[str, int],
) -> dict[str, int]:
    """Return the size of each dimension for inputs of given sizes, beside what is known.

    Args:
        names: of the inputs, for messages.
        shapes: of the inputs in the program, of the ranks that `sizes` have.
        sizes: of the actual arrays.
        known: tunables by name.

    Raises:
        InputError: the sizes contradict each other or the program.
    """
    symbols = dict(known)
    for source in dimension_sources(shapes, known.keys()):
        elements = sizes[source.input][source.axis]
        size = source.size(elements, symbols)
        if size is None:
            extent = shapes[source.input][source.axis]
            asked = symbols_in(extent) & symbols.keys()
            beside = "".join(f", {name} = {symbols[name]}" for name in sorted(asked))
            raise InputError(
                f"{names[source.input]} has {extent} elements along axis {source.axis} in the "
                f"program{beside}, found {elements}, which leaves no size for {source.name}."
            )
        symbols[source.name] = size
    for name, shape, actual in zip(names, shapes, sizes, strict=True):
        for axis, (extent, elements) in enumerate(zip(shape, actual, strict=True)):
            wanted = evaluate(extent, symbols)
            if wanted != elements:
                is_bare = not isinstance(extent, str) or extent.isidentifier()
                told = str(wanted) if is_bare else f"{extent} = {wanted}"
                raise InputError(
                    f"{name} has {told} elements along axis {axis} in the program, found "
                    f"{elements}."
                )
    return symbols
