"""Weights read ahead: a lane asks for the next turn's while it multiplies with these."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelwright.metal.kernel_ir.expression import Expr, Load, always
from kernelwright.metal.kernel_ir.index import Axis
from kernelwright.metal.lower.emit.run import Span
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.target.msl.spelling import MSL_TYPE


@dataclass(frozen=True, slots=True)
class _Stream:
    """One array of weights, and the registers between it and the sums."""

    kind: str
    """The type of what a lane reads of one term."""
    text: str
    """What reads it, over `next`."""
    ahead: str
    now: str


@dataclass(frozen=True, slots=True)
class Ahead:
    """What a lane reads a turn early: without it a compiler asks for one run and waits."""

    writer: Writer
    streams: tuple[_Stream, ...]
    terms: int

    @classmethod
    def of(cls, writer: Writer, weights: Sequence[Expr], run: Span, terms: int) -> "Ahead":
        """Find what can be read ahead, and let the writer read it from where it will be."""
        streams: list[_Stream] = []
        for load in always(weights):
            if not isinstance(load, Load) or load.places or load.array in writer.scalars:
                continue
            depth = next((axis for axis in load.axes if axis.name == "depth"), None)
            if depth is None or not (found := _reading(writer, load, depth, run)):
                continue
            ahead, now = (writer.fresh(f"{load.array}_{word}") for word in ("ahead", "run"))
            place = f"[{run.counter}]" if run.width > 1 else ""
            writer.runs[load.array, load.offset] = f"{now}{place}"
            streams.append(_Stream(*found, ahead, now))
        return cls(writer, tuple(streams), terms)

    def begin(self, first: str) -> None:
        """Ask for the first turn's weights."""
        for stream in self.streams:
            self.writer.line(f"{stream.kind} {stream.ahead}[{self.terms}];")
        if not self.streams:
            return
        with self.writer.block(f"for (uint j = 0; j < {self.terms}; ++j)"):
            self.writer.line(f"uint next = {first} + j;")
            for stream in self.streams:
                self.writer.line(f"{stream.ahead}[j] = {stream.text};")

    def go_on(self, step: int) -> None:
        """Take a term's weights, and ask for those of as late a term of the turn behind."""
        if self.streams:
            # The last turn asks for its own terms once more, which a cache has.
            later = f"metal::min(base + {step}, last - {self.terms})"
            self.writer.line(f"uint next = {later} + j;")
        for stream in self.streams:
            self.writer.line(f"{stream.kind} {stream.now} = {stream.ahead}[j];")
            self.writer.line(f"{stream.ahead}[j] = {stream.text};")


def _reading(writer: Writer, load: Load, depth: Axis, run: Span) -> tuple[str, str] | None:
    """Return the type of what a lane takes of one term, and what reads it."""
    following = replace(load, offset=load.offset.renamed(depth, "next"))
    if run.width > 1:
        return run.whole(writer, following)
    return MSL_TYPE[load.stored], writer.access(load.array, following.offset)
