"""The largest of a run of neighbours: what hangs on a new maximum is asked once a run."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.metal.kernel_ir.expression import Expr, Load, ReduceExpr
from kernelwright.metal.lower.emit.accumulator import best_of, is_smallest, update
from kernelwright.metal.lower.emit.layout import Block, Line, surround
from kernelwright.metal.lower.emit.run import Run, Span
from kernelwright.metal.lower.emit.writer import Writer
from kernelwright.metal.target.msl.spelling import MSL_TYPE


@dataclass(frozen=True, slots=True)
class RunPeak:
    """The largest (or smallest) of what came before a run and of its elements."""

    body: Expr
    name: str
    value: str
    """The text of element `k`, in the loop that looks at a run and in any that follows it."""
    is_kept: bool
    """True where `value` is a place in an array, for an element takes more than a load."""

    @classmethod
    def declare(cls, writer: Writer, body: Expr, name: str, before: str, span: Span) -> "RunPeak":
        """Write the variables before the loop over a run, `before` being the largest so far."""
        kind = MSL_TYPE[body.dtype]
        name = writer.fresh(name)
        writer.line(f"{kind} {name} = {before};")
        trial = writer.branch()
        span.bind(trial, [body], ())
        if isinstance(body, Load) and (body.array, body.offset) in trial.runs:
            text = trial.access(body.array, body.offset)
            value = text if body.stored is body.dtype else f"{kind}({text})"
            return cls(body, name, value, is_kept=False)
        values = writer.fresh(f"{body.name}s")
        writer.line(f"{kind} {values}[{span.width}];")
        return cls(body, name, f"{values}[k]", is_kept=True)

    def look(self, writer: Writer, larger: str) -> None:
        """Take one element into account, `larger` being the text of the larger of two."""
        if self.is_kept:
            writer.line(f"{self.value} = {writer.expression(self.body).text};")
        writer.line(f"{self.name} = {larger.format(self.name, self.value)};")


@dataclass(frozen=True, slots=True)
class RunPosition:
    """Where a row's largest (or smallest) element stands, asked only of runs with a larger one."""

    reduced: ReduceExpr
    name: str
    peak: RunPeak
    has_nan: str
    """A flag, for NaN is larger than all numbers; empty where there is none."""

    @classmethod
    def declare(cls, writer: Writer, reduced: ReduceExpr, name: str, span: Span) -> "RunPosition":
        """Write the variables before the loop over a run."""
        word = "lowest" if is_smallest(reduced) else "highest"
        peak = RunPeak.declare(writer, reduced.body, word, best_of(name), span)
        has_nan = writer.fresh("has_nan") if reduced.body.dtype.is_float else ""
        if has_nan:
            writer.line(f"bool {has_nan} = false;")
        return cls(reduced, name, peak, has_nan)

    def look(self, writer: Writer) -> None:
        """Write what one element does."""
        function = "min" if is_smallest(self.reduced) else "max"
        self.peak.look(writer, f"metal::{function}({{0}}, {{1}})")
        if self.has_nan:
            writer.line(f"{self.has_nan} |= metal::isnan({self.peak.value});")

    def settle(self, writer: Writer, around: Sequence[Line | Block]) -> None:
        """Write what a run does to the position, `around` being what surrounds an element."""
        beats = "<" if is_smallest(self.reduced) else ">"
        best, question = best_of(self.name), f"{self.peak.name} {beats} {best_of(self.name)}"
        if self.is_found_later:
            value = self.peak.name
            if self.has_nan:
                question += f" || ({self.has_nan} && !metal::isnan({best}))"
                value = f"{self.has_nan} ? NAN : {value}"
            with writer.block(f"if ({question})"):
                writer.line(f"{best} = {value};")
                writer.line(f"{self.name} = start;")
            return
        if self.has_nan:
            question += f" || {self.has_nan}"

        def body(inner: Writer) -> list[Run]:
            inner.bind(self.reduced.body, self.peak.value)
            update(inner, self.reduced, self.name)
            return []

        with writer.block(f"if ({question})"):
            surround(writer, around, body)

    @property
    def is_found_later(self) -> bool:
        """True where only a run's beginning is noted, for its elements can be read again."""
        return not self.peak.is_kept

    def find(self, writer: Writer, around: Sequence[Line | Block], span: Span) -> None:
        """Write the search for the element in the run whose beginning was noted."""
        best, is_float = best_of(self.name), self.reduced.body.dtype.is_float
        same = "same({0}, {1})" if is_float else "{0} == {1}"

        def body(inner: Writer) -> list[Run]:
            runs = span.bind(inner, [self.reduced.body], ())
            value = inner.expression(self.reduced.body).text
            with inner.block(f"if ({same.format(value, best)})"):
                inner.line(f"{self.name} = {self.reduced.axis.name};")
                inner.line("break;")
            return runs

        with writer.block(""):
            writer.line(f"uint start = {self.name};")
            surround(writer, around, body)
