"""Weights read ahead: a lane asks for the next terms' before it multiplies with these."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kernelwright.metal.lower.operator import MSL_TYPE
from kernelwright.metal.lower.run import Span
from kernelwright.metal.lower.term import Load, Term, always
from kernelwright.metal.lower.writer import Writer


@dataclass(frozen=True, slots=True)
class _Stream:
    """One array of weights, and the registers between it and the sums."""

    kind: str
    """The type of what a lane reads of one term."""
    text: str
    """What reads it, over `depth`."""
    ahead: str
    now: str


@dataclass(frozen=True, slots=True)
class Ahead:
    """What a lane reads while it multiplies: without it a compiler asks for one run at a time."""

    writer: Writer
    streams: tuple[_Stream, ...]
    terms: int

    @classmethod
    def of(cls, writer: Writer, weights: Sequence[Term], run: Span, terms: int) -> "Ahead":
        """Find what can be read ahead, and let the writer read it from where it will be."""
        streams: list[_Stream] = []
        for load in always(weights):
            if not isinstance(load, Load) or load.places or load.array in writer.scalars:
                continue
            if not any(axis.name == "depth" for axis in load.offset.axes):
                continue
            whole = run.whole(writer, load)
            if whole is None and run.width > 1:
                continue
            kind, text = whole or (MSL_TYPE[load.stored], writer.access(load.array, load.offset))
            ahead, now = (writer.fresh(f"{load.array}_{word}") for word in ("ahead", "now"))
            place = f"[{run.counter}]" if run.width > 1 else ""
            writer.runs[load.array, load.offset] = f"{now}[j]{place}"
            streams.append(_Stream(kind, text, ahead, now))
        return cls(writer, tuple(streams), terms)

    def begin(self, first: str) -> None:
        """Ask for the first terms."""
        for stream in self.streams:
            self.writer.line(f"{stream.kind} {stream.ahead}[{self.terms}];")
        with self._each_term(first):
            for stream in self.streams:
                self.writer.line(f"{stream.ahead}[j] = {stream.text};")

    def go_on(self) -> None:
        """Take what was read, and ask for the next terms before any of these is used."""
        for stream in self.streams:
            self.writer.line(f"{stream.kind} {stream.now}[{self.terms}];")
        if self.streams:
            # The last turn asks for its own terms once more, which a cache has.
            self.writer.line(f"uint later = metal::min(base + {self.terms}, last - {self.terms});")
        with self._each_term("later"):
            for stream in self.streams:
                self.writer.line(f"{stream.now}[j] = {stream.ahead}[j];")
                self.writer.line(f"{stream.ahead}[j] = {stream.text};")

    @contextmanager
    def _each_term(self, first: str) -> Iterator[None]:
        if not self.streams:
            yield
            return
        with self.writer.block(f"for (uint j = 0; j < {self.terms}; ++j)"):
            self.writer.line(f"uint depth = {first} + j;")
            yield
