"""Which functions a campaign goes on with in another text than they had before."""

from collections.abc import Iterable, Sequence

from kernelwright.campaign.event import PlanDrawn
from kernelwright.ir import Graph
from kernelwright.store import Campaign, KernelStore

Named = Iterable[tuple[str, str]]
"""Functions by name, each with the fingerprint of its graph."""


def changed_functions(
    store: KernelStore, before: Sequence[Campaign], now: Named
) -> tuple[str, ...]:
    """Return the functions that compute something else than when they were last planned.

    A function with several calls has several graphs; it changed where one of them is new. Of one
    whose graph was too large for the log, nothing is known.
    """
    known: dict[str, set[str]] = {}
    for run in before:
        planned: dict[str, set[str]] = {}
        for event in store.events(run.id, kinds=(PlanDrawn.__name__,)):
            drawn = event.read(PlanDrawn)
            graph = Graph.from_json(drawn.graph).fingerprint
            planned.setdefault(drawn.function, set()).add(graph)
        known |= planned
    changed = [name for name, graph in now if name in known and graph not in known[name]]
    return tuple(dict.fromkeys(changed))
