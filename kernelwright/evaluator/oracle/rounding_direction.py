"""Whether a program's last rounding always goes one way, where rounding to nearest goes both.

Truncation to a 16-bit format is off by less than a spacing. Where the operations before it may
themselves be off by half of one, no single element tells it from a sound rounding; that all of
them lie on one side of the ideal result does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.expected_output import ExpectedOutput, Mask
from kernelwright.evaluator.oracle.float_format import FORMATS, Reals, half_spacing
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.metal.device.executable import Array

_NARROW = (Dtype.FLOAT16, Dtype.BFLOAT16)
_MARGIN = 1 / 16
"""Of half a spacing: elements closer to a number of the format, or to a tie, are not counted."""
_LEAST = 24
"""Elements of either kind that a sample needs: nearest lies on the side in question, or not."""
_STRAY_SHARE = 0.03
"""Of the elements of a one-sided sample, so many may lie on the other side."""
_LEAST_SAMPLES, _SHARE_OF_SAMPLES = 8, 0.75
"""A factor that a case's elements share may push them all one way, in one case of 20 at most, and
only where they are all of one size. In 8 of 10 that is a chance of 2e-9, in 8 of 8 of 4e-11."""
_CHUNKS, _CHUNK = 128, 256
_LEAST_FAR_SAMPLES, _SHARE_OF_FAR_SAMPLES = 16, 0.9
"""For elements at any distance: several factors that a case shares may push them all one way, in
one case of five at most. In 16 of 16 that is a chance of 7e-12."""
_FAR_SIDES = ("in size below what they should be", "in size above what they should be")
_SIDES = ("towards zero", "away from zero", "down", "up")


@dataclass
class _Tally:
    """Counts of the elements where nearest lies on a side, and of those where it does not."""

    near: int = 0
    near_astray: int = 0
    far: int = 0
    far_astray: int = 0
    samples: int = 0
    one_sided: int = 0

    def add(self, on_side: Mask, nearest_on_side: Mask) -> None:
        """Count a case; small ones are put together until they make a sample."""
        self.near += int(np.count_nonzero(nearest_on_side))
        self.near_astray += int(np.count_nonzero(nearest_on_side & ~on_side))
        self.far += int(np.count_nonzero(~nearest_on_side))
        self.far_astray += int(np.count_nonzero(~nearest_on_side & ~on_side))
        if min(self.near, self.far) < _LEAST:
            return
        self.samples += 1
        self.one_sided += (
            self.near_astray <= _STRAY_SHARE * self.near
            and self.far_astray <= _STRAY_SHARE * self.far
        )
        self.near = self.near_astray = self.far = self.far_astray = 0

    def is_one_sided(self, least: int, share: float) -> bool:
        """Say whether enough samples lie on this side, and so large a share of all."""
        return self.one_sided >= max(least, share * self.samples)


@dataclass
class RoundingDirections:
    """Counts over all cases of a trial on which side of the ideal result outputs lie."""

    _tallies: dict[tuple[int, str, str], _Tally] = field(default_factory=dict)

    def add(self, outputs: Sequence[Array], expected: Sequence[ExpectedOutput]) -> None:
        """Count a case whose outputs are right element by element."""
        for place, (found, wanted) in enumerate(zip(outputs, expected, strict=True)):
            if wanted.type.dtype not in _NARROW or not found.size:
                continue
            for group, sides in _sides(found, wanted):
                for name, on_side, nearest in sides:
                    tally = self._tallies.setdefault((place, group, name), _Tally())
                    tally.add(on_side, nearest)

    @property
    def problem(self) -> str:
        """Say which output is rounded one way only; empty where none is."""
        for (place, group, name), tally in self._tallies.items():
            often = f"in {tally.one_sided} of {tally.samples} samples"
            if name in _FAR_SIDES:
                if tally.is_one_sided(_LEAST_FAR_SAMPLES, _SHARE_OF_FAR_SAMPLES):
                    return f"output {place} lies {name} in {group}, {often}: a factor is wrong."
            elif tally.is_one_sided(_LEAST_SAMPLES, _SHARE_OF_SAMPLES):
                return (
                    f"output {place} is rounded {name} in {group}, {often}; "
                    "round to nearest, as a conversion to half or bfloat does."
                )
        return ""


_Side = tuple[str, Mask, Mask]


def _sides(found: Array, wanted: ExpectedOutput) -> Iterator[tuple[str, list[_Side]]]:
    """Yield groups of elements, and for each side which of them lie there, or should."""
    places = _sample(found.size)
    ideal = np.asarray(wanted.expected).reshape(-1)[places].astype(np.float64)
    nearest = wanted.rounded.reshape(-1)[places].astype(np.float64)
    real = np.asarray(found).reshape(-1)[places].astype(np.float64)
    counted = _counted(ideal, nearest, wanted, places)
    if not counted.any():
        return
    places = places[counted]
    ideal, nearest, real = ideal[counted], nearest[counted], real[counted]
    is_neighbour = np.abs(real - ideal) <= 2 * half_spacing(ideal, wanted.type.dtype)
    sides = _of_sides(ideal, nearest, real, is_neighbour)
    for group, members in _groups(places, wanted.type.shape):
        yield group, [(name, a[members], b[members]) for name, a, b in sides]


def _of_sides(ideal: Reals, nearest: Reals, real: Reals, is_neighbour: Mask) -> list[_Side]:
    grows, should_grow = real > ideal, nearest > ideal
    negative = ideal < 0
    outward, should_outward = grows != negative, should_grow != negative
    found = (~outward, outward, ~grows, grows)
    right = (~should_outward, should_outward, ~should_grow, should_grow)
    near = [(name, a & is_neighbour, b) for name, a, b in zip(_SIDES, found, right, strict=True)]
    far = [(name, a, b) for name, a, b in zip(_FAR_SIDES, found[:2], right[:2], strict=True)]
    return near + far


def _counted(
    ideal: Reals, nearest: Reals, wanted: ExpectedOutput, places: NDArray[np.intp]
) -> Mask:
    """Mark normal numbers clearly between two of the format, and clearly off their middle."""
    form = FORMATS[wanted.type.dtype]
    with np.errstate(invalid="ignore"):
        size = np.abs(ideal)
        is_normal = (size >= form.least_normal) & (size < form.largest)
        share = np.abs(nearest - ideal) / half_spacing(ideal, wanted.type.dtype)
        counted = is_normal & (share > _MARGIN) & (share < 1 - _MARGIN)
    if wanted.ignored is not None:
        counted &= ~wanted.ignored.reshape(-1)[places]
    return np.asarray(counted)


def _groups(
    places: NDArray[np.intp], shape: tuple[int, ...]
) -> Iterator[tuple[str, NDArray[np.intp] | slice]]:
    """Yield all elements, then those that a kernel often writes by lines of their own."""
    yield "all elements", slice(None)
    columns = shape[-1] if shape else 1
    if columns < 2:
        return
    column = places % columns
    yield "even columns", np.flatnonzero(column % 2 == 0)
    yield "odd columns", np.flatnonzero(column % 2 == 1)
    yield "the first half of each row", np.flatnonzero(2 * column < columns)
    yield "the second half of each row", np.flatnonzero(2 * column >= columns)


def _sample(size: int) -> NDArray[np.intp]:
    """Return all places of a small output, and chunks all over a large one."""
    if size <= _CHUNKS * _CHUNK:
        return np.arange(size)
    random = np.random.default_rng(size)
    starts = np.sort(random.choice(size // _CHUNK, _CHUNKS, replace=False)) * _CHUNK
    return np.asarray(starts[:, None] + np.arange(_CHUNK)).reshape(-1)
