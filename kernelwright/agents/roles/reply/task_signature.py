"""A task's arrays as programs see them: names, shapes, and the dimensions that may vary."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelwright.errors import InputError, UnsupportedError
from kernelwright.evaluator.static.vocabulary import PUBLIC_MACROS, RESERVED
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph, TensorType
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
        """The input sizes above 1; axes share a name where they agree in every known shape."""
        return tuple(dimension for dimension, _ in self._sizes)

    @cached_property
    def _sizes(self) -> tuple[tuple[Dimension, tuple[int, ...]], ...]:
        """Each dimension with its size in the task and in every variant."""
        groups: dict[tuple[int, ...], list[Axis]] = {}
        for position, type_ in enumerate(self.task.graph.input_types):
            for axis, size in enumerate(type_.shape):
                if size > 1:
                    sizes = tuple(g.input_types[position].shape[axis] for g in self._graphs)
                    groups.setdefault(sizes, []).append((position, axis))
        taken = {*self.input_names, *self.output_names}
        names = [f"n{i}" if f"n{i}" not in taken else f"size{i}" for i in range(len(groups))]
        return tuple(
            (Dimension(name, sizes[0], self._places(axes), self._is_open(axes, sizes)), sizes)
            for name, (sizes, axes) in zip(names, groups.items(), strict=True)
        )

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
        return tuple(
            Tensor(name=name, dtype=type_.dtype, shape=self._named(name, type_, generic))
            for name, type_ in zip(self.input_names, self.task.graph.input_types, strict=True)
        )

    def outputs(self, generic: frozenset[str]) -> tuple[Tensor, ...]:
        """Return the output arrays; an axis is generic where it always equals a generic size."""
        names = {sizes: d.name for d, sizes in self._sizes if d.name in generic}
        return tuple(
            Tensor(
                name=name,
                dtype=type_.dtype,
                shape=tuple(
                    names.get(
                        tuple(g.output_types[position].shape[axis] for g in self._graphs), size
                    )
                    for axis, size in enumerate(type_.shape)
                ),
            )
            for position, (name, type_) in enumerate(
                zip(self.output_names, self.task.graph.output_types, strict=True)
            )
        )

    def _named(self, name: str, type_: TensorType, generic: frozenset[str]) -> tuple[Extent, ...]:
        at = {place: d.name for d in self.dimensions for place in d.places}
        axes = [(size, at.get(f"{name} axis {axis}", "")) for axis, size in enumerate(type_.shape)]
        return tuple(dimension if dimension in generic else size for size, dimension in axes)

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
            own = [extent for tensor in program.inputs for extent in tensor.shape]
            return {extent: extent for extent in own if isinstance(extent, str)}
        at = {place: d.name for d in self.dimensions for place in d.places}
        return {
            extent: at[f"{name} axis {axis}"]
            for name, tensor in zip(self.input_names, program.inputs, strict=True)
            for axis, extent in enumerate(tensor.shape)
            if isinstance(extent, str) and f"{name} axis {axis}" in at
        }


def with_names(extent: Extent, names: Mapping[str, str]) -> Extent:
    """Replace names in launch arithmetic by others, or by numbers."""
    if isinstance(extent, int):
        return extent
    text = _WORD.sub(lambda match: names.get(match[0], match[0]), extent)
    return int(text) if text.strip().isdigit() else text


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
