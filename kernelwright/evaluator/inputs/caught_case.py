"""Cases that have caught a program once: kept, and put to every later program of the task."""

import hashlib

from kernelwright.evaluator.inputs.case import Case, Layout
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.ir.graph import Graph
from kernelwright.metal.diagnostic import Record


class RegressionCase(Record):
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
    secret: str
    """Draws this case and other visible ones; nothing hidden follows from it."""

    @classmethod
    def of(cls, task: str, case: Case, secret: str) -> "RegressionCase":
        """Keep a case."""
        return cls(
            task=task,
            graph=case.graph.to_json(),
            distribution=case.distribution,
            layout=case.layout,
            attempt=case.attempt,
            secret=secret,
        )

    @property
    def id(self) -> str:
        """Name the case for people: a hash of all that determines it, from which none follows."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:10]

    @property
    def case(self) -> Case:
        """The case, as it was drawn."""
        graph = Graph.from_json(self.graph)
        return Case(graph, self.distribution, self.layout, self.attempt)
