"""Which cases a program's work is counted on, and from which draw its time is predicted."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kernelwright.evaluator.config import EvaluatorConfig
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.layout import Layout
from kernelwright.evaluator.inputs.suite import Suite
from kernelwright.evaluator.inputs.suite_plan import visible_cases
from kernelwright.evaluator.oracle.parallel import side_by_side
from kernelwright.evaluator.oracle.reference import prepare
from kernelwright.evaluator.task import Task
from kernelwright.ir.graph import Graph

COMMON_DRAW = "predicted times"
"""Seeds what times are predicted for in place of a secret: a program has one time on a chip."""
_MOST_KINDS = 6
_MOST_OF_ALL_KINDS = 1 << 22
"""Elements above which only the first kind is drawn twice."""
_FIRST_KINDS = (
    *(Distribution.NORMAL, Distribution.MIXED, Distribution.MASKED),
    *(Distribution.SPECIAL, Distribution.TIED, Distribution.WIDE),
)
"""What is counted before other kinds; the first that there is has to move what is needed."""
_T = TypeVar("_T")


def of_each_kind(found: Iterable[_T], case_of: Callable[[_T], Case], graph: Graph) -> Sequence[_T]:
    """Return the first of each kind of data at a shape, those that are counted first in front."""
    kinds: dict[Distribution, _T] = {}
    for one in found:
        case = case_of(one)
        if case.graph is graph and case.layout is Layout.DENSE:
            kinds.setdefault(case.distribution, one)
    first = [kinds.pop(kind) for kind in _FIRST_KINDS if kind in kinds]
    return [*first, *kinds.values()][:_MOST_KINDS]


def common_suite(task: Task, graphs: Sequence[Graph], config: EvaluatorConfig) -> Suite:
    """Build the cases that times are predicted for, which no secret decides."""
    cases = of_each_kind(visible_cases(task.graph, graphs, config), lambda case: case, task.graph)
    if task.graph.element_count > _MOST_OF_ALL_KINDS:
        cases = cases[:1]
    found = side_by_side(lambda case: prepare(case, task.output_tolerances, COMMON_DRAW), cases)
    return Suite(tuple(reference for reference in found if not reference.dropped))
