"""Microseconds of a part among others: each run reads what the one before it made.

Launches that depend on nothing run side by side, and one evaluation each is the host's time; a
decode step is neither.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import mlx.core as mx

from kernelwright.ir.graph import Graph
from kernelwright.ir.ops import Kind, op_named
from kernelwright.ir.trace.stitch import stitch
from kernelwright.runtime.fast import put_back

Run = Callable[..., Sequence[mx.array]]
_LEAST_US = 1.0
"""No launch takes less; where links are all but the whole chain, their noise is not a time."""
_LINKS = 24
_LEAST_REPEATS = 3
_MOST_COPIES = 4
"""Of an output to make up an input that is read earlier than others."""


@dataclass(frozen=True)
class _Link:
    """Which output becomes which input."""

    output: int
    place: int
    copies: int
    """Of the output, where the input is longer."""

    @classmethod
    def of(cls, task: Graph) -> "_Link | None":
        """Link an input that an output of its dtype can stand for, the one used earliest.

        Where a later one waits, such as what is added at the end, MLX's first kernels of a run
        would overlap the last of the run before, which in a model they cannot.
        """
        depths = _depths(task)
        pairs = [
            (*_cost(given.size, made.size, depths[place]), given.size, place, output)
            for place, given in enumerate(task.input_types)
            for output, made in enumerate(task.output_types)
            if given.dtype is made.dtype and given.dtype.is_float and made.size and given.size
        ]
        if not pairs:
            return None
        _, _, copies, _, place, output = min(pairs)
        return cls(output, place, copies)

    def feed(self, made: mx.array, given: mx.array) -> mx.array:
        """Return an array like `given` that waits for `made`."""
        flat = made.reshape(-1)
        if self.copies > 1:
            flat = mx.concatenate([flat] * self.copies)
        return flat[: given.size].reshape(given.shape)


def _cost(given: int, made: int, depth: int) -> tuple[bool, int, int]:
    """Rank links: copying an output many times over takes longer than what is timed."""
    copies = math.ceil(given / made)
    return copies > _MOST_COPIES, -depth, copies


def _depths(task: Graph) -> list[int]:
    """Count the ops between each input and the output furthest from it; views do not count."""
    behind = dict.fromkeys(task.outputs, 0)
    for node in reversed(task.nodes):
        reached = [behind[v] for v in node.outputs if v in behind]
        if reached:
            depth = max(reached) + (op_named(node.op).kind is not Kind.VIEW)
            behind |= {v: max(behind.get(v, 0), depth) for v in node.inputs}
    return [behind.get(v, 0) for v in task.inputs]


def mlx_chain(task: Graph) -> Run:
    """Return what MLX runs for a part at its best: its own fast kernels, the rest compiled."""
    kept, _ = put_back(task, frozenset())
    return cast("Run", mx.compile(stitch(task, kept)))


def chained_us(
    task: Graph, run: Run, sets: Sequence[Sequence[mx.array]], *, seconds: float = 0.05
) -> float:
    """Time a part in a chain of itself, in turns over several sets of inputs.

    Returns the least of several samples; what links the chain is measured apart and taken off.
    """
    link = _Link.of(task)
    if link is None:
        return _least_us(lambda: [run(*sets[i % len(sets)]) for i in range(_LINKS)], seconds)

    def chain() -> object:
        made = run(*sets[0])
        for number in range(1, _LINKS):
            arrays = list(sets[number % len(sets)])
            arrays[link.place] = link.feed(made[link.output], arrays[link.place])
            made = run(*arrays)
        return made

    taken_us = _least_us(chain, seconds)
    if link.copies == 1:
        return taken_us
    return max(taken_us - _link_us(link, task), _LEAST_US)


def _link_us(link: _Link, task: Graph) -> float:
    """Time the copies that link a chain, by themselves."""
    made, given = task.output_types[link.output], task.input_types[link.place]
    small, large = mx.zeros(made.size), mx.zeros(given.size)

    def chain() -> object:
        found = small
        for _ in range(_LINKS):
            found = link.feed(found[: made.size], large)
        return found

    return _least_us(chain, 0.02)


def _least_us(work: Callable[[], object], seconds: float) -> float:
    mx.eval(work())
    best, repeats = math.inf, 0
    ending_s = time.perf_counter() + seconds
    while repeats < _LEAST_REPEATS or time.perf_counter() < ending_s:
        waiting = work()
        mx.synchronize()
        begun_s = time.perf_counter()
        mx.eval(waiting)
        best = min(best, time.perf_counter() - begun_s)
        repeats += 1
    return best / _LINKS * 1e6
