"""A task's arrays as programs see them: names, shapes, and the dimensions that may vary."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from kernelwright.errors import InputError, UnsupportedError
from kernelwright.evaluator.static.vocabulary import PUBLIC_MACROS, RESERVED
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph, TensorType
from kernelwright.ir.graph.open_size import OpenSize
from kernelwright.ir.passes.resize import Axis, resize
from kernelwright.metal.kernel import Extent, Program, Tensor

_WORD = re.compile(r"[A-Za-z_]\w*")
_LETTERS = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True)
class Dimension:
    """A size that occurs in a task's inputs, with the name by which programs may use it."""

    name: str
    size: int
    places: tuple[str, ...]
    """Such as `x axis 0`."""
    is_open: bool = True
    """False where no other size can be tried, so that nobody may claim to serve one."""


@dataclass(frozen=True)
class Interface:
    """Names for a task's inputs and outputs, fit to be parameters of a Metal function."""

    task: Task

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """One identifier per input, in call order."""
        return identifiers(self.task.graph.input_names())

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """One identifier per output, none of them an input's."""
        count = len(self.task.graph.outputs)
        names = ["out"] if count == 1 else [f"out{i}" for i in range(count)]
        return tuple(f"{name}_" if name in self.input_names else name for name in names)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The input sizes above 1; axes share a name where they agree in every known shape.

        Those that follow from others by sums and products, such as `past + new`, are none.
        """
        return tuple(dimension for dimension, _ in self._sizes)

    @cached_property
    def derived_dimensions(self) -> tuple[Dimension, ...]:
        """Sizes of input axes that follow from dimensions: their names are arithmetic over these.

        Such as `past + new` of a mask.
        """
        names = frozenset(d.name for d in self.dimensions if d.is_open)
        opened = self._opened(self._axes_of(names))
        axes: dict[str, list[Axis]] = {}
        for position, type_ in enumerate(opened.input_types):
            for axis, size in enumerate(type_.shape):
                if isinstance(size, OpenSize) and size.text not in names:
                    axes.setdefault(size.text, []).append((position, axis))
        return tuple(
            Dimension(text, self._own(*places[0]), self._places(places))
            for text, places in axes.items()
        )

    @cached_property
    def _sizes(self) -> tuple[tuple[Dimension, tuple[int, ...]], ...]:
        """Each dimension with its size in the task and in every variant."""
        taken = {*self.input_names, *self.output_names}
        groups = self._groups
        names = [f"n{i}" if f"n{i}" not in taken else f"size{i}" for i in range(len(groups))]
        return tuple(
            (Dimension(name, sizes[0], self._places(axes), self._is_open(axes, sizes)), sizes)
            for name, (sizes, axes) in zip(names, groups.items(), strict=True)
        )

    @cached_property
    def _groups(self) -> dict[tuple[int, ...], list[Axis]]:
        """Axes by their sizes in every known shape, without those that follow from others."""
        groups: dict[tuple[int, ...], list[Axis]] = {}
        for position, type_ in enumerate(self.task.graph.input_types):
            for axis, size in enumerate(type_.shape):
                if size > 1:
                    sizes = tuple(g.input_types[position].shape[axis] for g in self._graphs)
                    groups.setdefault(sizes, []).append((position, axis))
        chosen = {f"n{number}": axes for number, axes in enumerate(groups.values())}
        types = self._opened(chosen).input_types

        def follows(place: Axis) -> bool:
            size = types[place[0]].shape[place[1]]
            return isinstance(size, OpenSize) and size.text not in chosen

        kept = {sizes: [a for a in axes if not follows(a)] for sizes, axes in groups.items()}
        return {sizes: axes for sizes, axes in kept.items() if axes}

    def _axes_of(self, names: frozenset[str]) -> dict[str, list[Axis]]:
        pairs = zip(self.dimensions, self._groups.values(), strict=True)
        return {dimension.name: axes for dimension, axes in pairs if dimension.name in names}

    def _opened(self, chosen: Mapping[str, Sequence[Axis]]) -> Graph:
        """Return the task's graph with some axes' sizes open by name, and all that follows.

        A name stays at its size where axes follow from names before it, or are tied to a number.
        """
        graph, opened = self.task.graph, dict[Axis, int]()
        for name, axes in chosen.items():
            left = [
                (place, axis)
                for place, axis in axes
                if not isinstance(graph.input_types[place].shape[axis], OpenSize)
            ]
            if not left:
                continue
            # At its own size it would stay a number, at another's it could be taken for that.
            seen = 2 * self._own(*left[0]) + 1
            while seen in opened.values():
                seen += 2
            tried = {**opened, **dict.fromkeys(left, OpenSize.named(name, seen))}
            with suppress(InputError, UnsupportedError):
                resized = resize(self.task.graph, tried)
                if all(_has_text(t) for t in (*resized.input_types, *resized.output_types)):
                    graph, opened = resized, tried
        return graph

    def _own(self, position: int, axis: int) -> int:
        return self.task.graph.input_types[position].shape[axis]

    def _places(self, axes: Sequence[Axis]) -> tuple[str, ...]:
        return tuple(f"{self.input_names[position]} axis {axis}" for position, axis in axes)

    def _is_open(self, axes: Sequence[Axis], sizes: tuple[int, ...]) -> bool:
        """Say whether the evaluator can try another size: a variant has one, or the graph can."""
        if len(set(sizes)) > 1:
            return True
        try:
            resize(self.task.graph, dict.fromkeys(axes, 2 * sizes[0]))
        except (InputError, UnsupportedError):
            return False
        return True

    @property
    def _graphs(self) -> tuple[Graph, ...]:
        ranks = _ranks(self.task.graph)
        return (self.task.graph, *(g for g in self.task.variants if _ranks(g) == ranks))

    def inputs(self, generic: frozenset[str]) -> tuple[Tensor, ...]:
        """Return the input arrays of a program that serves the named dimensions at any size."""
        at = {axis: name for name, axes in self._axes_of(generic).items() for axis in axes}
        types = self._opened(self._axes_of(generic)).input_types
        return tuple(
            Tensor(
                name=name,
                dtype=type_.dtype,
                shape=tuple(
                    size.text if isinstance(size, OpenSize) else at.get((position, axis), size)
                    for axis, size in enumerate(type_.shape)
                ),
            )
            for position, (name, type_) in enumerate(zip(self.input_names, types, strict=True))
        )

    def outputs(self, generic: frozenset[str]) -> tuple[Tensor, ...]:
        """Return the output arrays; an axis is generic where it follows from a generic size."""
        opened = self._opened(self._axes_of(generic))
        named = {str(size) for t in opened.input_types for size in t.shape}
        # Variants alone tell that one of the others may change.
        names = {
            sizes: d.name
            for d, sizes in self._sizes
            if d.name in generic and f"@{d.name}@" not in named
        }
        return tuple(
            Tensor(
                name=name,
                dtype=type_.dtype,
                shape=tuple(
                    size.text
                    if isinstance(size, OpenSize)
                    else names.get(
                        tuple(g.output_types[position].shape[axis] for g in self._graphs), size
                    )
                    for axis, size in enumerate(type_.shape)
                ),
            )
            for position, (name, type_) in enumerate(
                zip(self.output_names, opened.output_types, strict=True)
            )
        )

    def fixed(self, extent: Extent, generic: frozenset[str]) -> Extent:
        """Write the sizes of the dimensions that are not generic into launch arithmetic."""
        sizes = {d.name: str(d.size) for d in self.dimensions if d.name not in generic}
        return with_names(extent, sizes)

    def renamed(self, program: Program) -> dict[str, str]:
        """Map the names that a program gives to its dimensions to those of the task.

        A program of another task, whose inputs are others, keeps its own names.
        """
        ranks = [len(type_.shape) for type_ in self.task.graph.input_types]
        if [len(tensor.shape) for tensor in program.inputs] != ranks:
            return {name: name for name in program.dimensions}
        own = self.inputs(frozenset(d.name for d in self.dimensions))
        pairs = zip(program.inputs, own, strict=True)
        extents = (pair for t, mine in pairs for pair in zip(t.shape, mine.shape, strict=True))
        return {
            theirs: ours if ours.isidentifier() else f"({ours})"
            for theirs, ours in extents
            if theirs in program.dimensions and isinstance(ours, str) and isinstance(theirs, str)
        }


def with_names(extent: Extent, names: Mapping[str, str]) -> Extent:
    """Replace names in launch arithmetic by others, or by numbers."""
    if isinstance(extent, int):
        return extent
    text = _WORD.sub(lambda match: names.get(match[0], match[0]), extent)
    return int(text) if text.strip().isdigit() else text


def _has_text(type_: TensorType) -> bool:
    """Say whether every open size is a sum of products of names."""
    return all(not isinstance(n, OpenSize) or n.terms is not None for n in type_.shape)


def _ranks(graph: Graph) -> list[int]:
    return [len(t.shape) for t in (*graph.input_types, *graph.output_types)]


def identifiers(names: tuple[str, ...]) -> tuple[str, ...]:
    """Make names of inputs valid, short, distinct and free of Metal's own words."""
    made: list[str] = []
    for position, name in enumerate(names):
        word = _LETTERS.sub("_", name)[:40].strip("_")
        if not word or not word[0].isalpha():
            word = f"x{position}"
        elif word.lower().startswith("kw_"):
            word = f"x_{word}"
        elif word in RESERVED | PUBLIC_MACROS:
            word = f"{word}_in"
        while word in made:
            word = f"{word}_{position}"
        made.append(word)
    return tuple(made)
