"""What a program asked for in vain: made small enough to keep, and saved when it exits."""

import atexit
import contextlib
import weakref
from dataclasses import replace
from typing import Protocol

from kernelwright.ir.graph import Graph

LARGEST_CONSTANT_BYTES = 65536
EXIT_TIMEOUT_S = 1.0
"""A program that ends waits no longer than this for a store that others write to."""


class Asker(Protocol):
    """Something that counts the calls that no kernel could serve."""

    def save_wanted(self, *, busy_timeout_s: float, must_exist: bool) -> int:
        """Add the calls counted since the last time to the store; return how many."""


_askers: "weakref.WeakSet[Asker]" = weakref.WeakSet()


def save_at_exit(asker: Asker) -> None:
    """Save what `asker` wanted when the interpreter exits, if it still lives and has a store."""
    _askers.add(asker)


@atexit.register
def _save_all() -> None:
    for asker in list(_askers):
        # The user's program is over; nothing that goes wrong here is news to it.
        with contextlib.suppress(Exception):
            asker.save_wanted(busy_timeout_s=EXIT_TIMEOUT_S, must_exist=True)


def without_weights(graph: Graph) -> Graph:
    """Return the graph with its large constants turned into inputs.

    A model's captured weights would be gigabytes of text. Regions take such constants as
    inputs anyway, so the tasks that a search finds in it stay the same.
    """
    weights = [v for v, c in graph.constants if c.type.nbytes > LARGEST_CONSTANT_BYTES]
    if not weights:
        return graph
    kept = tuple((v, c) for v, c in graph.constants if v not in weights)
    # Keyword inputs come last.
    first = len(graph.inputs) - len(graph.keywords)
    inputs = (*graph.inputs[:first], *weights, *graph.inputs[first:])
    return replace(graph, inputs=inputs, constants=kept, names=())
