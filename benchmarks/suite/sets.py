"""The sets of workloads: the suite, and the collected functions in their two halves."""

from benchmarks.suite.collected import COLLECTED, HELD_OUT, WORKED
from benchmarks.suite.workload import Workload
from benchmarks.suite.workloads import WORKLOADS

SETS: dict[str, tuple[Workload, ...]] = {
    "suite": WORKLOADS,
    "collected": COLLECTED,
    "worked": WORKED,
    "held-out": HELD_OUT,
}


def find(name: str) -> Workload:
    """Return a workload of any set by its name."""
    return next(w for w in (*WORKLOADS, *COLLECTED) if w.name == name)
