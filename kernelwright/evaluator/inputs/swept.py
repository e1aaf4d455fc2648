"""Inputs of many parts that differ in few elements: the extremes move from column to column."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import starmap

import numpy as np

from kernelwright.evaluator.inputs.lone import Sweep
from kernelwright.metal.device.executable import Array, Changes


@dataclass(frozen=True)
class SweptInputs:
    """The inputs of every part of a case of lone extremes."""

    ground: tuple[Array, ...]
    high: tuple[Array, ...] = field(repr=False)
    low: tuple[Array, ...] = field(repr=False)
    sweeps: tuple[Sweep | None, ...]

    def moves(self, parts: Sequence[int]) -> tuple[Changes, ...]:
        """Return what inputs hold in these parts beside their ground."""
        found = starmap(lambda i, sweep: self._moved(i, sweep, parts), enumerate(self.sweeps))
        return tuple(moves for moves in found if moves is not None)

    def _moved(self, place: int, sweep: Sweep | None, parts: Sequence[int]) -> Changes | None:
        if sweep is None or not parts:
            return None
        low, high = (np.array([where(p) for p in parts]) for where in (sweep.low, sweep.high))
        values = (self.low[place].reshape(-1)[low], self.high[place].reshape(-1)[high])
        return Changes(place, np.concatenate((low, high), axis=1), np.concatenate(values, axis=1))

    def inputs(self, part: int) -> tuple[Array, ...]:
        """Return the inputs of one part."""
        made = list(self.ground)
        for moves in self.moves((part,)):
            made[moves.place] = moves.applied(self.ground[moves.place], 0)
        return tuple(made)
