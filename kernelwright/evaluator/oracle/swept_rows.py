"""Many parts of a case of lone extremes: what MLX answers, and which of a program's answers differ.

A result that hangs on one place shows an ignored place only where that place decides. Each part is
one launch on inputs of which few elements are others, so thousands of parts cost a second. What
differs from MLX's answer is then judged by the oracle like any other case.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.inputs.distribution import Distribution
from kernelwright.evaluator.inputs.lone import (
    columns_named,
    is_swept,
    lone_parts,
    longest_row,
    parts_wanted,
    turns,
)
from kernelwright.evaluator.inputs.swept import SweptInputs
from kernelwright.evaluator.oracle.mlx_answer import run_mlx
from kernelwright.evaluator.oracle.reference import Reference, calibrate, prepare
from kernelwright.evaluator.task import Tolerance
from kernelwright.ir.graph import Graph
from kernelwright.metal.device.executable import Array, Changes

_LEAST_WORK = 1 << 14
"""In elements: what a launch takes however small it is."""
_VISIBLE_WORK, _HIDDEN_WORK = 1 << 24, 1 << 28
"""Elements of all launches of a sweep: a quarter of a second, and four, on the simulator."""
_MOST_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class SweptRows:
    """Parts of one case: what a program runs on, part by part, and what MLX answers."""

    case: Case
    parts: tuple[int, ...]
    secret: str
    tolerances: tuple[Tolerance, ...]
    swept: SweptInputs = field(repr=False)
    _lock: Lock = field(default_factory=Lock, compare=False, repr=False)

    @property
    def inputs(self) -> tuple[Array, ...]:
        """What all parts share."""
        return self.swept.ground

    @cached_property
    def moves(self) -> tuple[Changes, ...]:
        """What each part holds elsewhere."""
        return self.swept.moves(self.parts)

    @property
    def answers(self) -> tuple[Array, ...]:
        """MLX's own answer for each output, the parts' one after the other."""
        with self._lock:
            return self._answers

    @cached_property
    def _answers(self) -> tuple[Array, ...]:
        made = [run_mlx(self.case.graph, self.swept.inputs(part)) for part in self.parts]
        return tuple(np.stack(outputs) for outputs in zip(*made, strict=True))

    def differing(self, outputs: Sequence[Array]) -> tuple[int, ...]:
        """Return the parts whose outputs are not close to MLX's."""
        differs = np.zeros(len(self.parts), bool)
        for found, answer, tolerance in zip(outputs, self.answers, self.tolerances, strict=True):
            if found.shape != answer.shape or found.dtype != answer.dtype:
                return self.parts
            is_far = ~_are_close(found, answer, tolerance)
            differs |= is_far.reshape(len(differs), -1).any(axis=1)
        return tuple(part for part, is_far in zip(self.parts, differs, strict=True) if is_far)

    def reference(self, part: int) -> Reference:
        """Return what the oracle says of one part."""
        case = replace(self.case, part=part)
        return calibrate(case, case.inputs(self.secret), self.tolerances)

    @property
    def nbytes(self) -> int:
        """Bytes that are held."""
        arrays = (*self.swept.ground, *self.swept.high, *self.swept.low)
        moved = sum(m.positions.nbytes + m.values.nbytes for m in self.moves)
        return sum(a.nbytes for a in arrays) + moved


def _are_close(found: Array, answer: Array, tolerance: Tolerance) -> NDArray[np.bool_]:
    if found.dtype.kind in "bui":
        return np.asarray(found == answer)
    one, other = found.astype(np.float64), answer.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.isclose(
            one, other, rtol=tolerance.relative, atol=tolerance.absolute, equal_nan=True
        )


def visible_sweeps(
    graph: Graph, tolerances: Sequence[Tolerance], secret: str
) -> tuple[SweptRows, ...]:
    """Return the parts beyond those that are cases: each element decides once, if it takes little.

    Where there are many more, as many as a quarter of a second allows.
    """
    case = Case(graph, Distribution.LONE)
    first = lone_parts(graph)
    parts = range(first, min(longest_row(graph), first + _launches(graph, _VISIBLE_WORK)))
    return _worthy(case, parts, tolerances, secret)


def hidden_sweeps(
    graph: Graph, tolerances: Sequence[Tolerance], secret: str
) -> tuple[SweptRows, ...]:
    """Return the parts beyond those that are cases in which each column decides once."""
    case = Case(graph, Distribution.LONE, is_hidden=True)
    first = lone_parts(graph)
    parts = range(first, min(parts_wanted(graph), first + _launches(graph, _HIDDEN_WORK)))
    return _worthy(case, parts, tolerances, secret)


def named_sweeps(
    graph: Graph,
    tolerances: Sequence[Tolerance],
    secret: str,
    places: tuple[int, ...],
) -> tuple[SweptRows, ...]:
    """Return the parts whose extremes stand in columns that a program's text names."""
    length = longest_row(graph)
    named = len(columns_named(places, length))
    parts = range(min(named + 1, _launches(graph, _VISIBLE_WORK)) if named else 0)
    case = Case(graph, Distribution.LONE, literals=tuple(map(float, places)))
    return _worthy(case, parts, tolerances, secret)


def _launches(graph: Graph, work: int) -> int:
    """Return how many launches take about as much time as `work` elements, none where it is long.

    Outputs of all of them are kept, so they have to be few beside the inputs.
    """
    is_small = graph.element_count <= _MOST_ELEMENTS and is_swept(graph)
    return work // max(graph.element_count, _LEAST_WORK) if is_small else 0


def _worthy(
    case: Case, parts: Sequence[int], tolerances: Sequence[Tolerance], secret: str
) -> tuple[SweptRows, ...]:
    """Sweep what MLX and the oracle agree on."""
    if not parts:
        return ()
    first = prepare(case, tolerances, secret)
    if first.dropped or any(answer.own is None for answer in first.allclose_answers()):
        return ()
    count = turns(case.graph)
    by_turn = {turn: tuple(p for p in parts if p % count == turn) for turn in range(count)}
    cases = {turn: replace(case, part=turn) for turn in by_turn}
    made = (
        SweptRows(cases[turn], of_turn, secret, tuple(tolerances), cases[turn].swept(secret))
        for turn, of_turn in by_turn.items()
        if of_turn
    )
    return tuple(rows for rows in made if rows.moves)
