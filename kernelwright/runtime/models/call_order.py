"""The order of what a trace leaves to state: reads before all else, writes behind it."""

from dataclasses import dataclass

from kernelwright.runtime.models.nest import leaves
from kernelwright.runtime.models.recorded import OpaqueCall


@dataclass(frozen=True, slots=True)
class Out:
    """The place of an array among the trace's outputs."""

    place: int


@dataclass(frozen=True, slots=True)
class In:
    """The place of an array among the trace's inputs."""

    place: int


@dataclass(frozen=True, slots=True)
class State:
    """The place of state in the environment, behind the graph's values."""

    place: int


def reordered(calls: list[OpaqueCall]) -> list[OpaqueCall]:
    """Read what caches keep at first and write it at last, so that one graph lies between.

    What is read after it was written never leaves the graph. A cache that is given to something
    else as well is left alone.
    """
    ahead = {id(c) for c in _read_ahead(calls)}
    calls = [*(c for c in calls if id(c) in ahead), *(c for c in calls if id(c) not in ahead)]
    keeps = [c for c in calls if c.kind in ("item", "set_item")]
    others = [c for c in calls if c.kind not in ("item", "set_item")]
    seen = {
        leaf for c in others for leaf in leaves((c.target, c.args, c.kwargs)) if _is_state(leaf)
    }
    first = [c for c in keeps if c.kind == "item" and c.target not in seen]
    last = [c for c in keeps if c.kind == "set_item" and c.target not in seen]
    moved = {id(c) for c in (*first, *last)}
    return [*first, *(c for c in calls if id(c) not in moved), *last]


def _read_ahead(calls: list[OpaqueCall]) -> list[OpaqueCall]:
    """List what is read of given state before anything changes it: how far a cache is."""
    found: list[OpaqueCall] = []
    others: set[object] = set()
    for call in calls:
        read = {s for s in leaves((call.target, call.args, call.kwargs)) if _is_state(s)}
        if call.only_reads and call.kind != "item" and not read & others:
            found.append(call)
        elif call.kind not in ("item", "set_item"):
            others |= read | {s for s in leaves(call.result) if _is_state(s)}
    return found


def _is_state(leaf: object) -> bool:
    return type(leaf) is State
