"""The sets of workloads: the suite, collected functions in two halves, and further ones."""

from benchmarks.suite.collected import COLLECTED, HELD_OUT, WORKED
from benchmarks.suite.collected.further import FURTHER
from benchmarks.suite.collected.unlisted import UNLISTED
from benchmarks.suite.workload import Workload
from benchmarks.suite.workloads import WORKLOADS

SETS: dict[str, tuple[Workload, ...]] = {
    "suite": WORKLOADS,
    "collected": COLLECTED,
    "worked": WORKED,
    "held-out": HELD_OUT,
    "further": FURTHER,
    "unlisted": UNLISTED,
}

HALVES: dict[str, tuple[Workload, ...]] = {"worked with": WORKED, "only measured": HELD_OUT}
"""Of the collected functions, split by a seed."""


def find(name: str) -> Workload:
    """Return a workload of any set by its name."""
    return next(w for w in (*WORKLOADS, *COLLECTED, *FURTHER, *UNLISTED) if w.name == name)
