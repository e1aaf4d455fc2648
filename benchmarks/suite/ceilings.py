"""How fast plain programs are on a chip, and the floor of a function that follows from it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from kernelwright.errors import InputError
from kernelwright.evaluator.speed.dependence import Group, largest_group
from kernelwright.evaluator.speed.floor import Floor
from kernelwright.evaluator.speed.least_functions import least_functions
from kernelwright.evaluator.speed.roofline import least_bytes
from kernelwright.ir.graph import Graph
from kernelwright.metal.diagnostic import Record
from kernelwright.metal.perf import find_profile

_FOLDER = Path(__file__).parents[1] / "results"


class Point(Record):
    """A size, and the least time of what was measured there."""

    nbytes: int
    time_us: float


class Ceilings(Record):
    """What was measured by the suite's protocol, the least of several times each."""

    chip: str
    moved: tuple[Point, ...]
    """Copies, reads, writes and sums of several arrays, by the bytes read and written."""
    read_again: tuple[Point, ...]
    """A sum over an array in one launch and its map in the next, beyond a copy of it; by the
    array's bytes."""
    launch_us: float
    """What each launch adds to those before it, where it waits for them."""
    functions_per_us: float
    """Of the transcendental function that the chip computes fastest."""

    @classmethod
    def of(cls, chip: str) -> Self | None:
        """Read what was measured on a chip; None where nothing was."""
        try:
            path = _FOLDER / f"{find_profile(chip).name}-ceilings.json"
        except InputError:
            return None
        return cls.load(path) if path.exists() else None

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what was measured.

        Raises:
            InputError: there is no such file, or it holds something else.
        """
        try:
            return cls.model_validate_json(path.read_text())
        except (OSError, ValueError) as e:
            raise InputError(f"expected the JSON of a chip's ceilings at {path}: {e}") from e

    def move_us(self, nbytes: int) -> float:
        """Return the least time to move so many bytes once.

        No mixture of what was measured is faster: the lower convex hull of all sizes.
        """
        return _interpolated(_lower_hull(self.moved), nbytes)

    def read_again_us(self, group: Group) -> float:
        """Return how much longer it takes to read a group again after all of it was read.

        A group that one core's registers and threadgroup memory hold is kept. While all but the
        last group are read again others are read for the first time.
        """
        core = find_profile(self.chip).core
        if group.nbytes <= 4 * core.registers + core.threadgroup_memory:
            return 0.0
        return _interpolated(_lower_hull(self.read_again), group.nbytes)


def floor_of(graph: Graph, ceilings: Ceilings) -> Floor:
    """Return what every right kernel of a function takes at least, by what plain programs take."""
    nbytes, group, functions = least_bytes(graph), largest_group(graph), least_functions(graph)
    again_us = ceilings.read_again_us(group) if group else 0.0
    moves = f"moves {_megabytes(nbytes)}"
    parts_us = {moves: ceilings.move_us(nbytes)}
    if group and again_us:
        what = "all of it" if group.groups == 1 else f"one of {group.groups} groups"
        reread = f"{moves} and reads {_megabytes(group.nbytes)} again: {group.op} over {what} first"
        parts_us = {
            reread: parts_us[moves] + again_us,
            "starts two launches, one after the other": 2 * ceilings.launch_us,
        }
    computes = f"computes {functions / 1e6:.1f} million functions"
    parts_us[computes] = functions / ceilings.functions_per_us
    return Floor(launch_us=0.0, parts_us=parts_us)


def _megabytes(nbytes: int) -> str:
    return f"{nbytes / 1e6:.3g} MB"


def _lower_hull(points: Sequence[Point]) -> list[Point]:
    """Return the points that no line between two others passes below, and none slower before."""
    hull: list[Point] = []
    for point in sorted(points, key=lambda p: (p.nbytes, p.time_us)):
        while hull and hull[-1].time_us >= point.time_us:
            hull.pop()
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-2], point):
            hull.pop()
        if not hull or point.nbytes > hull[-1].nbytes:
            hull.append(point)
    return hull


def _slope(one: Point, other: Point) -> float:
    return (other.time_us - one.time_us) / max(other.nbytes - one.nbytes, 1)


def _interpolated(points: Sequence[Point], nbytes: int) -> float:
    """Return the time at a size; in proportion beyond the largest, the least before the first."""
    last = points[-1]
    if nbytes > last.nbytes:
        return last.time_us * nbytes / last.nbytes
    return float(np.interp(nbytes, [p.nbytes for p in points], [p.time_us for p in points]))
