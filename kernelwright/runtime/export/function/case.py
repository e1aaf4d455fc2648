"""Chooses what an exported function is compared on: as searched, and otherwise."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import mlx.core as mx

from kernelwright import ir
from kernelwright.errors import KernelwrightError
from kernelwright.runtime.export.function.arguments_code import GivenArguments
from kernelwright.runtime.export.function.ways import outcome
from kernelwright.runtime.export.integer_range import integers_of

Flat = Callable[..., list[mx.array]]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """Fresh arguments."""

    what: str
    arrays: tuple[mx.array, ...]


def cases_of(graph: ir.Graph, given: GivenArguments, original: Flat) -> list[Case]:
    """Draw arguments as searched, at another shape and on another dtype, as far as there are.

    Args:
        graph: what the call computes; its first inputs are the arrays of nests and records.
        given: as searched.
        original: computes the function's results of such arrays.
    """
    types = [(tuple(a.shape), a.dtype) for a in given.arrays]
    taken = taken_by(given, graph)
    keep = [a if _has_values(a) else None for a in given.arrays]
    cases = [Case("as searched", fresh(types, taken, 1, keep))]
    other = another_shape(graph, types, original, len(given.held))
    if other is not None:
        cases.append(Case("at another shape", other))
    floats = {d for _, d in types if mx.issubdtype(d, mx.floating)}
    if floats:
        target = mx.float16 if floats == {mx.float32} else mx.float32
        changed = [(s, target if d in floats else d) for s, d in types]
        cases.append(Case("on another dtype", fresh(changed, taken, 3, keep)))
    return cases


def taken_by(given: GivenArguments, graph: ir.Graph) -> list[range | None]:
    """Return the integers that each array takes; those of objects stay between theirs."""
    direct = integers_of(graph)[: len(given.call.arrays)]
    return [*direct, *map(_between, given.held)]


def _between(array: mx.array) -> range | None:
    if not array.size or not mx.issubdtype(array.dtype, mx.integer):
        return None
    low, high = (int(end.item().real) for end in (array.min(), array.max()))
    return range(low, high + 1, max((high - low) // 100, 1))


def _has_values(array: mx.array) -> bool:
    return mx.issubdtype(array.dtype, mx.integer) and bool(mx.any(array != 0).item())


def fresh(
    types: Sequence[tuple[Shape, mx.Dtype]],
    integers: Sequence[range | None],
    seed: int,
    keep: Sequence[mx.array | None] = (),
) -> tuple[mx.array, ...]:
    """Draw arrays: integers of those that each may take, other floats from a normal distribution.

    Args:
        types: shapes and dtypes.
        integers: those that each array takes, at least as many as there are types; None for
            fractions and flags.
        seed: of the generator.
        keep: arrays that are taken as they are.
    """
    made = []
    for place, (shape, dtype) in enumerate(types):
        key = mx.random.key(1000 * seed + place)
        kept, taken = keep[place] if place < len(keep) else None, integers[place]
        if kept is not None:
            made.append(kept)
        elif taken is not None:
            chosen = mx.random.randint(0, len(taken), shape, mx.int64, key=key)
            made.append((taken.start + taken.step * chosen).astype(dtype))
        elif dtype == mx.bool_:
            made.append(mx.random.bernoulli(0.7, shape, key=key))
        else:
            made.append(mx.random.normal(shape, key=key).astype(dtype))
    mx.eval(made)
    return tuple(made)


def another_shape(
    graph: ir.Graph, types: Sequence[tuple[Shape, mx.Dtype]], original: Flat, held: int = 0
) -> tuple[mx.array, ...] | None:
    """Return arrays of other shapes that the original takes: of a free size, or one changed.

    The last arrays, as many as are `held` by objects, keep theirs where a size is free.
    """
    shapes, dtypes = [shape for shape, _ in types], [dtype for _, dtype in types]
    count = len(types) - held
    resized = [[*found, *shapes[count:]] for found in _resized(graph, count)]
    for tried in (*resized, *_changed(shapes)):
        changed = list(zip(tried, dtypes, strict=True))
        try:
            # How far an index may reach at these shapes, their trace tells.
            traced = ir.capture_call(original, *(mx.zeros(s, d) for s, d in changed)).graph
        except KernelwrightError:
            continue
        arrays = fresh(changed, integers_of(traced), 4)
        # What reads beyond an array differs from itself.
        made, again = (outcome(partial(original, *arrays)) for _ in range(2))
        if not isinstance(made, str) and not isinstance(again, str) and _is_same(made, again):
            return arrays
    return None


def _resized(graph: ir.Graph, count: int) -> Iterator[list[Shape]]:
    """Yield other shapes of the arguments that fit together, with captured arrays as they are."""
    shapes = [t.shape for t in graph.input_types]
    for dimension in ir.free_dimensions(graph):
        if any(place >= count for place, _ in dimension.axes):
            continue
        for size in (dimension.size + 1, 2 * dimension.size):
            with suppress(KernelwrightError):
                resized = ir.resize(graph, dimension.axis_sizes(size))
                found = [t.shape for t in resized.input_types]
                if found[count:] == shapes[count:]:
                    yield found[:count]


def _is_same(made: Sequence[mx.array], again: Sequence[mx.array]) -> bool:
    return all(
        mx.array_equal(a, b, equal_nan=mx.issubdtype(a.dtype, mx.inexact)).item()
        for a, b in zip(made, again, strict=True)
    )


def _changed(shapes: Sequence[Shape]) -> list[list[Shape]]:
    """List shapes with one size changed: of the first axis, of any axis, everywhere."""
    found: list[list[Shape]] = []
    sizes = list(dict.fromkeys(size for shape in shapes for size in shape if size > 1))
    for axis in (0, 1, None):
        for size in sizes:
            for other in (size + 1, 2 * size, size // 2):
                made = [
                    tuple(
                        other if n == size and axis in (None, i) else n for i, n in enumerate(shape)
                    )
                    for shape in shapes
                ]
                if other > 1 and made != list(shapes) and made not in found:
                    found.append(made)
    return found
