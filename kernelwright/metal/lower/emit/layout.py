"""How a team of lanes walks a row: the lines around a loop's body."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from kernelwright.metal.kernel_ir.index import Axis
from kernelwright.metal.lower.emit.run import Run
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.lower.rowwise.passes import per_lane
from kernelwright.metal.schedule import Columnwise, Rowwise


@dataclass(frozen=True, slots=True)
class Line:
    """A declaration that stands only where its name is used further in."""

    text: str
    name: str


@dataclass(frozen=True, slots=True)
class Block:
    """A block around everything further in."""

    head: str
    is_span: bool = False
    """True for the loop over neighbours, around which whole runs are read and written."""


@dataclass(frozen=True, slots=True)
class Walk:
    """What surrounds a loop's body, and where a kept value stands in its register array."""

    around: tuple[Line | Block, ...]
    slot: str = ""
    """Text after the array's name; empty where a lane has one element."""
    elements: int = 1
    width: int = 1
    """Neighbouring elements that a lane takes at a time."""
    left: "Walk | None" = None
    """The walk over the elements that whole runs leave, where they do not divide a row."""

    @property
    def per_run(self) -> tuple[Line | Block, ...]:
        """What surrounds the loop over a run's neighbours."""
        return self.around[: self._neighbours]

    @property
    def per_neighbour(self) -> tuple[Line | Block, ...]:
        """That loop."""
        return self.around[self._neighbours :]

    @property
    def _neighbours(self) -> int:
        spans = (i for i, p in enumerate(self.around) if isinstance(p, Block) and p.is_span)
        return next(spans, len(self.around))

    @property
    def is_straight(self) -> bool:
        """True where each lane has exactly one element, so that there is no loop at all."""
        return not any(isinstance(part, Block) for part in self.around)


def walk_of(axis: Axis, columns: str, schedule: Rowwise | Columnwise) -> Walk:
    """Return the walk over a row of `axis.extent` elements, `columns` being its size's text."""
    if isinstance(schedule, Columnwise):
        write = partial(_unrolled, axis) if schedule.cached else _looped
        return write(columns, schedule.strips, 1)
    vector = schedule.vector if axis.extent % schedule.vector == 0 else 1
    if schedule.cached:
        return _unrolled(axis, columns, schedule.lanes, vector)
    return _looped(columns, schedule.lanes, vector)


def _looped(columns: str, lanes: int, vector: int) -> Walk:
    first = "0" if lanes == 1 else "lane" if vector == 1 else f"lane * {vector}"
    if vector == 1 or lanes == 1:
        step = "++column" if lanes == 1 else f"column += {lanes}"
        return Walk((Block(f"for (uint column = {first}; column < {columns}; {step})"),))
    return Walk(
        (
            Block(f"for (uint start = {first}; start < {columns}; start += {lanes * vector})"),
            *span("column", vector),
        ),
        width=vector,
    )


def span(
    name: str, width: int, counter: str = "k", *, is_reverse: bool = False
) -> tuple[Line | Block, ...]:
    """Return what surrounds the body of a loop over neighbours, from the last one if reversed."""
    forward = f"uint {counter} = 0; {counter} < {width}; ++{counter}"
    backward = f"uint {counter} = {width}; {counter}-- > 0;"
    return (
        Block(f"for ({backward if is_reverse else forward})", is_span=True),
        Line(f"uint {name} = start + {counter};", name),
    )


def _unrolled(axis: Axis, columns: str, lanes: int, vector: int) -> Walk:
    elements = per_lane(axis, lanes, vector)
    steps = elements // vector
    around: list[Line | Block] = []
    if steps > 1:
        around.append(Block(f"for (uint i = 0; i < {steps}; ++i)"))
    turn = "lane" if steps == 1 else f"i * {lanes} + lane" if lanes > 1 else "i"
    is_partial = axis.extent % (lanes * vector) != 0
    if vector == 1:
        around.append(Line(f"uint column = {turn};", "column"))
        if is_partial:
            around.append(Block(f"if (column < {columns})"))
        return Walk(tuple(around), "[i]" if steps > 1 else "", elements)
    scaled = f"({turn}) * {vector}" if steps > 1 else f"{turn} * {vector}"
    around.append(Line(f"uint start = {scaled};", "start"))
    if is_partial:
        around.append(Block(f"if (start < {columns})"))
    around += span("column", vector)
    return Walk(tuple(around), f"[i * {vector} + k]" if steps > 1 else "[k]", elements, vector)


def surround(
    writer: Writer, around: Sequence[Line | Block], body: Callable[[Writer], list[Run]]
) -> None:
    """Write a body with what surrounds it, leaving out declarations that nothing reads.

    `body` returns the runs that it reads and writes.
    """
    inner = writer.branch()
    inner.depth += sum(isinstance(part, Block) for part in around)
    runs = body(inner)
    _place(writer, list(around), inner, [run for run in runs if inner.mentions(run.name)])
    if not any(isinstance(part, Block) for part in around):
        # What stands in no block of its own stays visible.
        writer.adopt(inner)


def _place(writer: Writer, around: list[Line | Block], inner: Writer, runs: Sequence[Run]) -> None:
    if not around:
        writer.lines += inner.lines
        return
    part, *rest = around
    if isinstance(part, Block):
        for run in runs if part.is_span else ():
            writer.line(run.before)
            writer.taken |= {run.name}
        with writer.block(part.head):
            _place(writer, rest, inner, runs)
        for run in runs if part.is_span else ():
            if run.after:
                writer.line(run.after)
        return
    further = [p.text if isinstance(p, Line) else p.head for p in rest]
    further += [run.before + run.after for run in runs]
    word = re.compile(rf"\b{part.name}\b")
    is_read = inner.mentions(part.name) or any(word.search(text) for text in further)
    # An earlier walk without a loop around it may have declared it for all of the kernel.
    if is_read and part.text not in writer.lines:
        writer.line(part.text)
    _place(writer, rest, inner, runs)
