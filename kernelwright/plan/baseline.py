"""What a plan has to beat: a function in each of MLX's ways, in the form that suits the way best.

baselines(graph).compiled.launches
"""

from dataclasses import dataclass
from functools import lru_cache

from kernelwright.ir.graph import Graph
from kernelwright.ir.passes.standard import standardize
from kernelwright.ir.passes.standard.shared_root import divide_by_shared_roots
from kernelwright.plan.cost import DEFAULT_PROFILE, best_traffic, time_us
from kernelwright.plan.traffic import Traffic, compiled_traffic, eager_traffic, fast_traffic


@dataclass(frozen=True)
class Baselines:
    """One call of a function in MLX, without a kernel of one's own."""

    eager: Traffic
    compiled: Traffic
    fast: Traffic
    """`mx.compile` around `mx.fast`."""

    @property
    def ways(self) -> tuple[Traffic, Traffic, Traffic]:
        """All three."""
        return self.eager, self.compiled, self.fast


@lru_cache(maxsize=64)
def baselines(graph: Graph) -> Baselines:
    """Count each way of MLX for a graph as it is written or in the standard form.

    The standard form, in which tasks are compared, is often cheaper, and not always: it may
    compute anew what the graph has already. A function and its task count alike.
    """
    forms = _forms(graph)
    return Baselines(
        eager=_cheapest(*map(eager_traffic, forms)),
        compiled=_cheapest(*map(compiled_traffic, forms)),
        fast=_cheapest(*map(fast_traffic, forms)),
    )


@lru_cache(maxsize=64)
def best_baseline(graph: Graph) -> Traffic:
    """Count MLX at its best for a graph as it is written or in the standard form."""
    return _cheapest(*map(best_traffic, _forms(graph)))


def _forms(graph: Graph) -> tuple[Graph, ...]:
    """Return the graph, its standard form, and that one without what it computes twice."""
    standard = standardize(graph)
    return tuple(dict.fromkeys((graph, standard, divide_by_shared_roots(standard))))


def _cheapest(*counts: Traffic) -> Traffic:
    """Return the count that takes the least time; of equal ones the first."""
    return min(counts, key=lambda count: time_us(count, DEFAULT_PROFILE))
