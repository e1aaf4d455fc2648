"""Something to make faster: a reference graph at concrete shapes, and its tolerance."""

from dataclasses import dataclass, field, replace
from functools import cached_property

from kernelwright.digest import digest
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype


@dataclass(frozen=True, slots=True)
class Tolerance:
    """When an output is close enough to MLX's: `|a - b| <= absolute + relative * |b|`."""

    relative: float
    absolute: float

    @property
    def halved(self) -> "Tolerance":
        """Half as wide."""
        return replace(self, relative=self.relative / 2, absolute=self.absolute / 2)

    @classmethod
    def of(cls, dtype: Dtype) -> "Tolerance":
        """Return what `mx.allclose` is asked for by default, from the dtype's epsilon."""
        return _BY_DTYPE.get(dtype, Tolerance(0.0, 0.0))


_BY_DTYPE = {
    Dtype.FLOAT32: Tolerance(1e-5, 1e-6),
    Dtype.FLOAT16: Tolerance(2e-3, 1e-4),
    Dtype.BFLOAT16: Tolerance(1.6e-2, 1e-3),
}


@dataclass(frozen=True)
class Task:
    """A reference and what counts as equal to it.

    `variants` are the same function captured at other shapes, for programs that claim to be
    shape-generic; they are checked, never identified.
    """

    graph: Graph
    name: str
    tolerances: tuple[Tolerance, ...] = ()
    """Per output; empty means the default of the coarsest dtype it was rounded to on its way."""
    variants: tuple[Graph, ...] = field(default=(), compare=False)

    @property
    def fingerprint(self) -> str:
        """The graph's fingerprint: two functions that compute the same share their kernels."""
        return self.graph.fingerprint

    def candidate_id(self, program_id: str) -> str:
        """Return the id by which people and stores know a program for this task."""
        return candidate_id(self.fingerprint, program_id)

    @cached_property
    def output_tolerances(self) -> tuple[Tolerance, ...]:
        """One tolerance per output."""
        if self.tolerances:
            return self.tolerances
        # A store has tasks and judges none; it needs no analysis of graphs.
        from kernelwright.evaluator.oracle.dependence import precisions

        return tuple(map(Tolerance.of, precisions(self.graph)))


def candidate_id(task_id: str, program_id: str) -> str:
    """Return the id that a program has as a candidate for a task."""
    return digest(task_id, program_id)
