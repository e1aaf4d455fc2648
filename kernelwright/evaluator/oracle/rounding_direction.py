"""Whether a program's last rounding always goes one way, where rounding to nearest goes both.

Truncation to a 16-bit format is off by less than a spacing. Where the operations before it may
themselves be off by half of one, no single element tells it from a sound rounding; that all of
them lie on one side of the ideal result does. So does a factor that moves more elements to the next
number one way than the other: roundings on the way move as many both ways, or MLX's own lean too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.oracle.error_of_moves import moves
from kernelwright.evaluator.oracle.expected_output import ExpectedOutput, Mask
from kernelwright.evaluator.oracle.float_format import FORMATS, Reals, half_spacing
from kernelwright.ir.graph import Graph
from kernelwright.ir.graph.dtype import Dtype
from kernelwright.ir.ops import Call, op_named
from kernelwright.metal.device.executable import Array

IntegerArray = NDArray[np.int8]
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
_LEAN, _SURE_LEAN, _LEAN_OF_MLX = 0.3, 4.0, 0.1
"""So many more of a sample's elements that are not the nearest number lie on one side than on the
other, as a share of them and in deviations of a coin; and in the mean not of those of MLX's own
answer: a short number plus a constant is rounded one way by everybody."""
_LEAST_LEANING_SAMPLES, _SHARE_OF_LEANING = 24, 0.95
"""One factor that a case shares pushes all one way, in half of the cases. In 24 of 24 that is a
chance of 6e-8, in 31 of 32 of 8e-9."""
_LOST = 0.5
"""Of an element's size: what is further off underflowed or cancelled, which no factor explains."""
_MOST_PARTS, _LEAST_SHARED = 16, 16
_CHUNKS, _CHUNK = 128, 256
_LEAST_FAR_SAMPLES, _SHARE_OF_FAR_SAMPLES = 16, 0.9
"""For elements at any distance: several factors that a case shares may push them all one way, in
one case of five at most. In 16 of 16 that is a chance of 7e-12."""
_FAR_SIDES = ("in size below what they should be", "in size above what they should be")
_SIDES = ("towards zero", "away from zero", "down", "up")
_WITH_INPUT = ("against the sign of", "with the sign of")
_MOST_INPUTS = 4


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

    @property
    def words(self) -> str:
        """Say how often elements lie on this side."""
        return f"in {self.one_sided} of {self.samples} samples"

    def is_one_sided(self, least: int, share: float) -> bool:
        """Say whether enough samples lie on this side, and so large a share of all."""
        return self.one_sided >= max(least, share * self.samples)


@dataclass
class _Balance:
    """Counts of the elements off the nearest number on a side, less those on the other side."""

    moved: int = 0
    excess: int = 0
    moved_in_mlx: int = 0
    excess_in_mlx: int = 0
    samples: int = 0
    leaning: int = 0
    leans_of_mlx: float = 0.0
    """The excess of MLX's own answer in each sample, as a share, added up."""

    def add(self, sides: IntegerArray, sides_of_mlx: IntegerArray) -> None:
        """Count a case: 1 on the side, -1 on the other, 0 where it is the nearest number."""
        self.moved += int(np.count_nonzero(sides))
        self.excess += int(sides.sum())
        self.moved_in_mlx += int(np.count_nonzero(sides_of_mlx))
        self.excess_in_mlx += int(sides_of_mlx.sum())
        if self.moved < _LEAST:
            return
        self.samples += 1
        least = max(_LEAN * self.moved, _SURE_LEAN * self.moved**0.5)
        self.leaning += self.excess >= least
        self.leans_of_mlx += self.excess_in_mlx / max(self.moved_in_mlx, 1)
        self.moved = self.excess = self.moved_in_mlx = self.excess_in_mlx = 0

    @property
    def is_leaning(self) -> bool:
        """Say whether enough samples lean, nearly all, and those of MLX do not."""
        # Of a row that shares a factor MLX's own elements lean as well, half of the rows each way.
        is_common = self.leans_of_mlx > _LEAN_OF_MLX * self.samples
        least = max(_LEAST_LEANING_SAMPLES, _SHARE_OF_LEANING * self.samples)
        return self.leaning >= least and not is_common


@dataclass
class RoundingDirections:
    """Counts over all cases of a trial on which side of the ideal result outputs lie.

    A program whose constants are those that the user wrote, and not as MLX rounds them, leans
    rightly: `may_lean`.
    """

    may_lean: bool = False
    _tallies: dict[tuple[int, str, str], _Tally] = field(default_factory=dict)
    _balances: dict[tuple[int, str, str], _Balance] = field(default_factory=dict)

    def add(
        self,
        outputs: Sequence[Array],
        expected: Sequence[ExpectedOutput],
        of_mlx: Sequence[Array | None],
        parts: int = 1,
        inputs: Sequence[Array] = (),
    ) -> None:
        """Count a case whose outputs are right element by element, beside MLX's own.

        `parts` says into how many samples its elements may be divided: see `samples_of`. `inputs`
        of an output's shape tell what of it leans with one of them, as a term of a sum does.
        """
        places = zip(outputs, expected, of_mlx, strict=True)
        for place, (found, wanted, mlx) in enumerate(places):
            if wanted.type.dtype not in _NARROW or not found.size:
                continue
            beside = [a for a in inputs if a.shape == found.shape and a.dtype.kind not in "biuc"]
            elements = _judged(found, wanted, mlx, beside[:_MOST_INPUTS])
            for part in elements.divided(parts):
                self._add_part(place, part, wanted)

    def _add_part(self, place: int, part: "_Elements", wanted: ExpectedOutput) -> None:
        half = half_spacing(part.ideal, wanted.type.dtype)
        is_neighbour = np.abs(part.real - part.ideal) <= 2 * half
        sides = list(_of_sides(part, is_neighbour))
        moved, moved_in_mlx = _moved(part.real, part), _moved(part.mlx, part)
        for group, members in _groups(part.places, wanted.type.shape):
            for name, on_side, nearest in sides:
                tally = self._tallies.setdefault((place, group, name), _Tally())
                tally.add(on_side[members], nearest[members])
            for name, own, of_mlx in zip(_SIDES, moved, moved_in_mlx, strict=True):
                balance = self._balances.setdefault((place, group, name), _Balance())
                balance.add(own[members], of_mlx[members])
        for number, signs in enumerate(part.signs):
            for name, own, of_mlx in zip(_WITH_INPUT, moved[2:], moved_in_mlx[2:], strict=True):
                key = (place, "all elements", f"{name} operand {number} of its shape")
                balance = self._balances.setdefault(key, _Balance())
                balance.add(own * signs, of_mlx * signs)

    @property
    def problem(self) -> str:
        """Say which output is rounded one way only; empty where none is."""
        for (place, group, name), tally in self._tallies.items():
            if name in _FAR_SIDES:
                if tally.is_one_sided(_LEAST_FAR_SAMPLES, _SHARE_OF_FAR_SAMPLES):
                    where = f"{name} in {group}, {tally.words}"
                    return f"output {place} lies {where}: a factor is wrong."
            elif tally.is_one_sided(_LEAST_SAMPLES, _SHARE_OF_SAMPLES):
                return (
                    f"output {place} is rounded {name} in {group}, {tally.words}; "
                    "round to nearest, as a conversion to half or bfloat does."
                )
        for (place, group, name), balance in self._balances.items():
            if balance.is_leaning and not self.may_lean:
                return (
                    f"output {place} is off by one number of its format here and there, {name} "
                    f"as a rule in {group}, in {balance.leaning} of {balance.samples} samples: "
                    "a constant or a factor is not the task's."
                )
        return ""


@dataclass(frozen=True)
class _Elements:
    """Elements of an output that lie clearly between two numbers of its format."""

    size: int
    """Of the whole output."""
    places: NDArray[np.intp]
    ideal: Reals
    nearest: Reals
    real: Reals
    mlx: Reals
    signs: tuple[IntegerArray, ...]
    """Of inputs of the output's shape."""

    def where(self, kept: Mask) -> "_Elements":
        """Leave out the others."""
        return _Elements(
            size=self.size,
            places=self.places[kept],
            ideal=self.ideal[kept],
            nearest=self.nearest[kept],
            real=self.real[kept],
            mlx=self.mlx[kept],
            signs=tuple(array[kept] for array in self.signs),
        )

    def divided(self, parts: int) -> "Iterator[_Elements]":
        """Yield the elements of so many parts of the output, each of neighbouring places."""
        number = self.places * parts // self.size
        for part in range(parts):
            own = number == part
            if own.any():
                yield self.where(own)


def samples_of(graph: Graph) -> int:
    """Return into how many samples the elements of one case may be divided.

    What many elements share, as a row's mean, may be rounded on the way and move them all. The
    elements of a sample have to share many such numbers, lest one decides for them.
    """
    exact = {*graph.inputs, *(value for value, _ in graph.constants)}
    fewest = _MOST_PARTS * _LEAST_SHARED
    for node in graph.nodes:
        if moves(op_named(node.op), Call.of(graph, node)) and exact.issuperset(node.inputs):
            exact.update(node.outputs)
            continue
        types = (graph.types[value] for value in node.outputs)
        fewest = min([fewest, *(t.size for t in types if t.dtype.is_float)])
    return max(fewest // _LEAST_SHARED, 1)


_Side = tuple[str, Mask, Mask]


def _judged(
    found: Array, wanted: ExpectedOutput, mlx: Array | None, inputs: Sequence[Array]
) -> _Elements:
    """Return those of some elements that tell how they were rounded."""
    places = _sample(found.size)
    arrays = (wanted.expected, wanted.rounded, found, wanted.rounded if mlx is None else mlx)
    ideal, nearest, real, own = (
        np.asarray(np.asarray(a).reshape(-1)[places], np.float64) for a in arrays
    )
    signs = tuple(_signs(a.reshape(-1)[places]) for a in inputs)
    every = _Elements(found.size, places, ideal, nearest, real, own, signs)
    return every.where(_counted(ideal, nearest, wanted, places))


def _signs(values: Array) -> IntegerArray:
    wide = values.astype(np.float32)
    return (wide > 0).astype(np.int8) - (wide < 0).astype(np.int8)


def _moved(values: Reals, part: _Elements) -> tuple[IntegerArray, ...]:
    """Return for each side 1 where elements lie there, -1 on the other, 0 if they are nearest.

    So it is where an element was lost on the way, as a float32 denormal that was flushed to zero.
    """
    with np.errstate(invalid="ignore"):
        up = np.sign(values - part.nearest)
        is_lost = np.abs(values - part.ideal) > _LOST * np.abs(part.ideal)
    up = np.where(np.isfinite(up) & ~is_lost, up, 0).astype(np.int8)
    outward = np.where(part.ideal < 0, -up, up)
    return -outward, outward, -up, up


def _of_sides(part: _Elements, is_neighbour: Mask) -> Iterator[_Side]:
    """Yield for each side which elements lie there, and which should; the near ones first."""
    grows, should_grow = part.real > part.ideal, part.nearest > part.ideal
    negative = part.ideal < 0
    outward, should_outward = grows != negative, should_grow != negative
    found = (~outward, outward, ~grows, grows)
    right = (~should_outward, should_outward, ~should_grow, should_grow)
    for name, a, b in zip(_SIDES, found, right, strict=True):
        yield name, a & is_neighbour, b
    yield from zip(_FAR_SIDES, found[:2], right[:2], strict=True)


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
