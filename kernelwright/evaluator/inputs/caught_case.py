"""Cases that have caught a program once: kept, and put to every later program of the task."""

import hashlib

from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.layout import Layout
from kernelwright.ir.graph.verify import read_graph
from kernelwright.metal.diagnostic import Record


class CaughtCase(Record):
    """A visible case with all that it takes to draw its inputs again, anywhere.

    It never goes into an evaluation, which agents may read: it would tell them the inputs.
    """

    task: str
    """The fingerprint of the task that it belongs to, at the task's own shape."""
    graph: str
    """The JSON of the graph at the case's shape."""
    distribution: Distribution
    layout: Layout
    attempt: int
    part: int = 0
    literals: tuple[float, ...] = ()
    secret: str
    """Draws this case and other visible ones; nothing hidden follows from it."""

    @classmethod
    def of(cls, task: str, case: Case, secret: str) -> "CaughtCase":
        """Keep a case."""
        return cls(
            task=task,
            graph=case.graph.to_json(),
            distribution=case.distribution,
            layout=case.layout,
            attempt=case.attempt,
            part=case.part,
            literals=case.literals,
            secret=secret,
        )

    @property
    def id(self) -> str:
        """Name the case for people: a hash of all that determines it, from which none follows."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:10]

    @property
    def case(self) -> Case:
        """The case, as it was drawn."""
        graph = read_graph(self.graph)
        return Case(
            graph,
            self.distribution,
            self.layout,
            self.attempt,
            part=self.part,
            literals=self.literals,
        )

    @property
    def kind(self) -> tuple[str, ...]:
        """What two cases share of which only the later is worth keeping."""
        return self.graph, self.distribution, self.layout, str(self.part), str(self.literals)
