"""Inputs that take a side which no case takes: mixtures of the cases, and solved comparisons."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelwright.evaluator.coverage.sides import Key, Side, Tally
from kernelwright.evaluator.inputs.case import Case
from kernelwright.evaluator.oracle.reference import Reference, calibrate
from kernelwright.evaluator.stages.trial import Failure, Trial
from kernelwright.evaluator.task import Tolerance
from kernelwright.metal.device.executable import Array

_MOST_MIXTURES = 96
_MOST_PROBES = 24
"""Elements that are moved to see what a comparison hangs on."""
_MOST_STEPS = 4
_MOST_SOLVED = 4
"""Sides for which a comparison is solved; each takes some tenths of a second."""
_MOST_VALUES = 1 << 12
_FEW = 3
_WAYS = 7
"""In which inputs are mixed; in the last one they also meet each other."""
_STEPS = (2, 4, 8, 16, 32, 32, 64, 128, 256)
"""Between places that one lane, or one thread, may hold."""
_WORK = 1 << 22
"""Elements of all inputs that are tried, where they are large."""
_TIMEOUT_S = 2.0
_SPECIAL = (0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf)


@dataclass(frozen=True, eq=False)
class DirectedCase(Case):
    """A case made for one program, to take a side of one of its conditions."""

    arrays: tuple[Array, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """Name the case for people."""
        return f"directed at a condition {' '.join(self.shapes)}"

    def inputs(self, secret: str) -> tuple[Array, ...]:
        """Return the inputs, which no secret changes."""
        return self.arrays


@dataclass
class Search:
    """Looks for inputs that a task allows, by running the watched program on many."""

    trial: Trial
    references: Sequence[Reference]
    """Cases of one shape."""
    tally: Tally
    tolerances: Sequence[Tolerance]
    secret: str
    is_finite: bool = False
    """NaN and infinities, behind which nothing shows, make way for other numbers."""
    random: np.random.Generator = field(init=False)
    made: list[Reference] = field(default_factory=list)
    """Those that took a side before: what stands behind it is evaluated in few others."""

    def __post_init__(self) -> None:
        digest = hashlib.sha256(f"{self.secret}|directed".encode()).digest()
        self.random = np.random.default_rng(int.from_bytes(digest[:8]))

    def reach(self, sides: Sequence[Side]) -> Iterator[Reference]:
        """Yield a case for each side that is found, and note in the tally that it was taken."""
        cases = [*self.made, *self.references]
        left = list(sides)
        constants = [n for s in left for n in self._compared(s.key)]
        for inputs in self._mixtures(cases, constants):
            if not left:
                return
            yield from self._tried(inputs, left)
        # What is not a number cannot be approached.
        solvable = [side for side in left if not self.tally.seen[side.key].is_special]
        for side in solvable[:_MOST_SOLVED]:
            for inputs in self._solutions(side, cases):
                if side not in left:
                    break
                yield from self._tried(inputs, left)

    def _tried(self, inputs: tuple[Array, ...], left: list[Side]) -> Iterator[Reference]:
        """Run on inputs; where they take new sides, yield their case."""
        if self.is_finite:
            inputs = self.finite(inputs)
        tally = self._watched(inputs)
        if tally is None:
            return
        found = [side for side in left if tally.takes(side)]
        if not found:
            return
        case = DirectedCase(
            self.references[0].case.graph, self.references[0].case.distribution, arrays=inputs
        )
        reference = calibrate(case, inputs, self.tolerances)
        if reference.dropped:
            return
        for side in found:
            left.remove(side)
        self.tally.merge(tally)
        self.made.append(reference)
        yield reference

    def finite(self, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return inputs with numbers of their own in place of NaN and infinities."""
        return tuple(self._finite(a) if a.dtype.kind not in "buic" else a for a in inputs)

    def _finite(self, array: Array) -> Array:
        finite = _finite_places(array)
        if finite.all():
            return array
        known = array[finite][:_MOST_VALUES]
        pool = known if known.size else np.ones(1, array.dtype)
        return np.where(finite, array, self.random.choice(pool, array.shape))

    def finite_tally(self) -> Tally:
        """Return what the cases take where they hold no NaN and no infinities."""
        found = Tally()
        for reference in self.references:
            tally = self._watched(self.finite(reference.inputs))
            if tally is not None:
                found.merge(tally)
        return found

    def _watched(self, inputs: tuple[Array, ...]) -> Tally | None:
        reference = self.references[0]
        try:
            result = self.trial.watch(reference.case.graph, inputs, _TIMEOUT_S)
        except Failure:
            return None
        tally = Tally()
        tally.add(result.conditions)
        return tally

    def _compared(self, key: Key) -> tuple[float, ...]:
        return self.tally.seen[key].compared or ()

    def _mixtures(
        self, references: Sequence[Reference], constants: Sequence[float]
    ) -> Iterator[tuple[Array, ...]]:
        """Yield inputs whose elements other cases have, in other company."""
        pools = self._pools(references, constants)
        for turn in range(self._affordable(_MOST_MIXTURES)):
            bases = [self._choice(references).inputs for _ in range(2)]
            mixed = tuple(
                self._mixed(turn % _WAYS % (_WAYS - 1), one, other, pool)
                for one, other, pool in zip(*bases, pools, strict=True)
            )
            yield self._met(mixed, pools) if turn % _WAYS == _WAYS - 1 else mixed

    def _affordable(self, most: int) -> int:
        """Return how many runs take about a second: large inputs hold many rows each."""
        elements = max(self.references[0].case.graph.element_count, 1)
        return min(most, max(_WORK // elements, _WAYS))

    def _choice(self, references: Sequence[Reference]) -> Reference:
        chosen = self.made if self.made and self.random.random() < 0.5 else references
        return chosen[int(self.random.integers(len(chosen)))]

    def _mixed(self, way: int, one: Array, other: Array, pool: Array) -> Array:
        random = self.random
        if way == 0 or not one.size:
            return one if random.random() < 0.5 else other
        if way == 1:
            return np.where(random.random(one.shape) < 0.5, one, other)
        if way == 2:
            drawn = random.choice(pool, one.shape)
            return np.where(random.random(one.shape) < random.random(), one, drawn)
        few = random.choice(pool, _FEW)
        if pool.dtype.kind not in "bui" and (pool != pool).any() and random.random() < 0.5:
            few[0] = np.nan
        if way == 3:
            return np.asarray(random.choice(few, one.shape))
        return self._placed(way, one, pool)

    def _met(
        self, inputs: tuple[Array, ...], pools: Sequence[NDArray[np.generic]]
    ) -> tuple[Array, ...]:
        """Give inputs elements that another input of their type has at the same place.

        Two numbers of a wide type are never equal by chance, nor is what tells them apart zero.
        """
        found: list[Array] = []
        for array, pool in zip(inputs, pools, strict=True):
            twins = [a for a in found if a.shape == array.shape and a.dtype == array.dtype]
            if twins and array.size:
                twin = twins[int(self.random.integers(len(twins)))]
                fits = _lies_within(twin, pool)
                share = self.random.choice((1 / 32, 1 / 2))
                array = np.where(fits & (self.random.random(array.shape) < share), twin, array)
            found.append(array)
        return tuple(found)

    def _placed(self, way: int, array: Array, pool: Array) -> Array:
        """Give places that one lane or one thread may hold, row by row, what others do not have."""
        random = self.random
        length = array.shape[-1] if array.ndim else 1
        rows = max(array.size // max(length, 1), 1)
        columns, shift = np.arange(length), random.integers(length, size=(rows, 1))
        if way == 4:
            step = random.choice(_STEPS, (rows, 1))
            chosen = columns % step == shift % step
        else:
            width = random.integers(1, max(length // 2, 2), (rows, 1))
            chosen = (columns - shift) % length < width
        ordered = np.unique(pool)
        low, high = np.array_split(ordered, [max(int(ordered.size * random.random()), 1)])
        high = high if high.size else low
        if random.random() < 0.5:
            low, high = high, low
        made = np.where(chosen, random.choice(high, chosen.shape), random.choice(low, chosen.shape))
        return np.asarray(made.reshape(array.shape))

    def _pools(
        self, references: Sequence[Reference], constants: Sequence[float]
    ) -> list[NDArray[np.generic]]:
        """Return for each input the values that cases give it, and what comparisons ask for."""
        pools = []
        for arrays in zip(*(r.inputs for r in references), strict=True):
            values = np.unique(np.concatenate([a.reshape(-1)[:_MOST_VALUES] for a in arrays]))
            wanted = np.array([*constants, *self._special(values)]).astype(np.float64)
            with np.errstate(all="ignore"):
                added = _allowed(wanted, values).astype(values.dtype)
            # Half of what is drawn is special, or asked for.
            weight = max(values.size // max(added.size, 1), 1)
            pools.append(np.concatenate([values, *([added] * weight)]))
        return pools

    def _special(self, values: Array) -> tuple[float, ...]:
        """Return the special numbers that the cases of an input hold already."""
        if values.dtype.kind in "bui":
            return ()
        numbers = values.astype(np.float64)
        return tuple(
            n for n in _SPECIAL if ((numbers == n) | (np.isnan(numbers) & np.isnan(n))).any()
        )

    def _solutions(
        self, side: Side, references: Sequence[Reference]
    ) -> Iterator[tuple[Array, ...]]:
        """Yield inputs of which one element is moved to where a comparison is even."""
        for base in self._nearest(side, references):
            distance = self._distance(side.key, base)
            if distance is None:
                continue
            for place, index in self._elements(base):
                yield from self._solved(side, base, place, index, distance)

    def _nearest(
        self, side: Side, references: Sequence[Reference]
    ) -> tuple[tuple[Array, ...], ...]:
        """Return the inputs on which a comparison was the closest to even."""
        distances = [(self._distance(side.key, r.inputs), r.inputs) for r in references]
        known = [(abs(d), inputs) for d, inputs in distances if d is not None]
        return tuple(inputs for _, inputs in sorted(known, key=lambda pair: pair[0])[:2])

    def _distance(self, key: Key, inputs: tuple[Array, ...]) -> float | None:
        tally = self._watched(inputs)
        pair = tally.seen[key].compared if tally is not None and key in tally.seen else None
        return pair[0] - pair[1] if pair else None

    def _elements(self, inputs: tuple[Array, ...]) -> Iterator[tuple[int, int]]:
        places = [i for i, a in enumerate(inputs) if a.size and a.dtype.kind != "b"]
        for turn in range(self._affordable(_MOST_PROBES) if places else 0):
            place = places[turn % len(places)]
            size = inputs[place].size
            first = turn // len(places)
            yield place, first % size if turn % 2 else int(self.random.integers(size))

    def _solved(
        self, side: Side, base: tuple[Array, ...], place: int, index: int, distance: float
    ) -> Iterator[tuple[Array, ...]]:
        array = base[place]
        value = float(array.reshape(-1)[index])
        if not np.isfinite(value):
            return
        is_integer = array.dtype.kind in "ui"
        step = 1.0 if is_integer else max(abs(value), 1.0) / 4
        moved = _with(base, place, index, value + step)
        for _ in range(_MOST_STEPS):
            found = self._distance(side.key, moved) if moved is not None else None
            if found is None or found == distance or not np.isfinite(found):
                return
            slope = (found - distance) / step
            wanted = value - distance / slope
            for target in (wanted, wanted + step / 64, wanted - step / 64):
                solved = _with(base, place, index, round(target) if is_integer else target)
                if solved is not None:
                    yield solved
            value, distance = value + step, found
            step = wanted - value
            if not step or not np.isfinite(step):
                return
            moved = _with(base, place, index, value + step)


def _with(
    base: tuple[Array, ...], place: int, index: int, value: float
) -> tuple[Array, ...] | None:
    """Return inputs with one element changed; None where its type or the cases have no such one."""
    array = base[place]
    if array.dtype.kind in "ui" and not array.min() <= value <= array.max():
        return None
    changed = array.copy()
    with np.errstate(all="ignore"):
        changed.reshape(-1)[index] = value
    return (*base[:place], changed, *base[place + 1 :])


def is_finite(inputs: Sequence[Array]) -> bool:
    """Say whether inputs hold no NaN and no infinities."""
    return all(bool(_finite_places(a).all()) for a in inputs if a.dtype.kind not in "buic")


def _finite_places(array: Array) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.isfinite(array.astype(np.float32)))


def _lies_within(array: Array, values: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Say which elements lie where an input's cases have numbers: an index stays one."""
    with np.errstate(invalid="ignore"):
        numbers = values.astype(np.float64)
        numbers = numbers[~np.isnan(numbers)]
        if not numbers.size:
            return np.zeros(array.shape, bool)
        wide = array.astype(np.float64)
        return np.asarray((wide >= numbers.min()) & (wide <= numbers.max()))


def _allowed(wanted: NDArray[np.float64], values: Array) -> NDArray[np.float64]:
    """Return the wanted numbers that lie where the cases' own do."""
    if values.dtype.kind in "bui":
        finite = wanted[np.isfinite(wanted)]
        whole = finite[finite == np.round(finite)]
        return np.asarray(whole[(whole >= float(values.min())) & (whole <= float(values.max()))])
    has_negative = bool((values.astype(np.float64) < 0).any())
    return wanted if has_negative else np.asarray(wanted[~(wanted < 0)])
