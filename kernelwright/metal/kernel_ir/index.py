"""Index arithmetic as values: affine sums over loop axes, with exact division and remainder."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

_MOST_IN_32_BITS = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Axis:
    """A non-negative variable of the kernel, `0 <= name < extent`."""

    name: str
    extent: int


@dataclass(frozen=True, slots=True)
class Quotient:
    """`of / by`, rounded down; `of` is never negative where the kernel evaluates it."""

    of: "Index"
    by: int


@dataclass(frozen=True, slots=True)
class Remainder:
    """`of % by`."""

    of: "Index"
    by: int


@dataclass(frozen=True, slots=True)
class Indirect:
    """A value computed by the kernel, such as a token, used as a place below `extent`."""

    number: int
    """Which term holds the value."""
    extent: int
    axes: frozenset[Axis]


@dataclass(frozen=True, slots=True)
class RangeConstrained:
    """An atom where it is known to be in `low <= of < stop`, as in one arm of a choice."""

    of: "Axis | Indirect | Quotient | Remainder"
    low: int
    stop: int


Atom = Axis | Indirect | Quotient | Remainder | RangeConstrained


@dataclass(frozen=True, slots=True)
class Names:
    """What an index is written with: factors that have a name, and the computed places."""

    factors: Mapping[int, str] = field(default_factory=dict)
    places: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Index:
    """`offset` plus a sum of coefficients times atoms, kept in a normal form."""

    terms: tuple[tuple[Atom, int], ...] = ()
    offset: int = 0

    @classmethod
    def of(cls, value: "Axis | int") -> "Index":
        """Return an axis or a number as an index; an axis of extent 1 is 0."""
        if isinstance(value, int):
            return cls((), value)
        return cls(((value, 1),)) if value.extent > 1 else cls()

    def __add__(self, other: "Index | int") -> "Index":
        right = Index.of(other) if isinstance(other, int) else other
        terms = dict(self.terms)
        for atom, coefficient in right.terms:
            terms[atom] = terms.get(atom, 0) + coefficient
        return _recombined(terms, self.offset + right.offset)

    def __mul__(self, factor: int) -> "Index":
        if factor == 0:
            return Index()
        return Index(tuple((a, c * factor) for a, c in self.terms), self.offset * factor)

    def __floordiv__(self, by: int) -> "Index":
        if by == 1:
            return self
        whole, rest = self._split(by)
        exact = Index(tuple((a, c // by) for a, c in whole), self.offset // by)
        low, high = (bound // by for bound in rest.bounds)
        if low == high:
            return exact + low
        if (carried := rest._without_low(by)) is not None:
            upper, step, _ = carried
            return exact + upper // (by // step)
        shared, inner, _ = rest._factored(by)
        return exact + _quotient(inner, by // shared)

    def __mod__(self, by: int) -> "Index":
        if by == 1:
            return Index()
        _, rest = self._split(by)
        low, high = (bound // by for bound in rest.bounds)
        if low == high:
            return rest + -low * by
        if (carried := rest._without_low(by)) is not None:
            upper, step, below = carried
            return (upper % (by // step)) * step + below
        shared, inner, leftover = rest._factored(by)
        return _remainder(inner, by // shared) * shared + leftover

    def _split(self, by: int) -> tuple[tuple[tuple[Atom, int], ...], "Index"]:
        """Return the terms divisible by `by`, and the rest with the offset modulo `by`."""
        whole = tuple((a, c) for a, c in self.terms if c % by == 0)
        rest = tuple((a, c) for a, c in self.terms if c % by)
        return whole, Index(rest, self.offset % by)

    def _without_low(self, by: int) -> "tuple[Index, int, Index] | None":
        """Return (high, step, low) with `self = high * step + low` and `0 <= low < step`, if any.

        `step` divides `by`, so that the low part never carries into a quotient.
        """
        for step in sorted({math.gcd(by, c) for _, c in self.terms}, reverse=True):
            low = Index(tuple((a, c) for a, c in self.terms if c % step), self.offset % step)
            smallest, largest = low.bounds
            if step > 1 and low.terms and smallest >= 0 and largest < step:
                high = tuple((a, c // step) for a, c in self.terms if c % step == 0)
                return Index(high, self.offset // step), step, low
        return None

    def _factored(self, by: int) -> tuple[int, "Index", int]:
        """Return (g, inner, leftover) with `self = g * inner + leftover`, `0 <= leftover < g`."""
        shared = math.gcd(by, *(c for _, c in self.terms))
        inner = Index(tuple((a, c // shared) for a, c in self.terms), self.offset // shared)
        return shared, inner, self.offset % shared

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest value that the terms' own ranges allow."""
        low = high = self.offset
        for atom, coefficient in self.terms:
            ends = (coefficient * _smallest(atom), coefficient * _largest(atom))
            low, high = low + min(ends), high + max(ends)
        return low, high

    @property
    def constant(self) -> int | None:
        """The value where the index is a number."""
        return None if self.terms else self.offset

    @property
    def axes(self) -> frozenset[Axis]:
        """Every axis that the index depends on."""
        return frozenset(axis for atom, _ in self.terms for axis in _axes_of(atom))

    @property
    def places(self) -> frozenset[int]:
        """Numbers of the terms that the index is computed from."""
        found: set[int] = set()
        for index in self.indices():
            found |= {atom.number for atom, _ in index.terms if isinstance(atom, Indirect)}
        return frozenset(found)

    def coefficient(self, axis: Axis) -> int | None:
        """Return the axis's factor, or None where it stands inside a division or remainder."""
        if any(not isinstance(a, Axis) and axis in _axes_of(a) for a, _ in self.terms):
            return None
        return dict(self.terms).get(axis, 0)

    def without(self, axes: Iterable[Axis]) -> "Index":
        """Return the part that depends on none of `axes`, offset included."""
        banned = frozenset(axes)
        kept = tuple((a, c) for a, c in self.terms if not (_axes_of(a) & banned))
        return Index(kept, self.offset)

    def renamed(self, axis: Axis, name: str) -> "Index":
        """Return the index with an axis under another name."""
        terms = {_renamed(atom, axis, name): c for atom, c in self.terms}
        return Index(_ordered(terms), self.offset)

    def narrowed(self, known: Atom, low: int, stop: int) -> "Index":
        """Return the index where an atom is known to be in `low <= known < stop`."""
        total = Index((), self.offset)
        for atom, coefficient in self.terms:
            total = total + _narrowed(atom, known, low, stop) * coefficient
        return total

    def at(self, axis: Axis, value: int) -> "Index":
        """Return the index where an axis has a value."""
        total = Index((), self.offset)
        for atom, coefficient in self.terms:
            total = total + _at(atom, axis, value) * coefficient
        return total

    def widened(self) -> "Index":
        """Return the index without what is known of its atoms, as simple as that made it."""
        if not any(map(_is_narrowed, self.terms)):
            return self
        terms: dict[Atom, int] = {}
        for atom, coefficient in self.terms:
            wide = _widened(atom)
            terms[wide] = terms.get(wide, 0) + coefficient
        return _recombined(terms, self.offset)

    def is_still(self, axis: Axis, width: int) -> bool:
        """Say whether the index stays the same from each multiple of `width` on `axis` to the next.

        It does where only quotients read the axis, by what `width` divides.
        """
        return all(_is_still(atom, axis, width) for atom, _ in self.terms)

    def minus(self, other: "Index") -> "Index":
        """Return the difference."""
        return self + other * -1

    def indices(self) -> Iterable["Index"]:
        """Yield this index and every one nested in its divisions and remainders."""
        yield self
        for atom, _ in self.terms:
            if isinstance(atom, Quotient | Remainder):
                yield from atom.of.indices()

    @property
    def is_wide(self) -> bool:
        """True where a sum of some of the terms may need more than 32 bits."""
        sizes = (abs(c) * _largest(atom) for atom, c in self.terms)
        return abs(self.offset) + sum(sizes) > _MOST_IN_32_BITS

    def render(self, names: Names | None = None) -> str:
        """Write the index as MSL, in 32 bits where all sums of its terms are proven to fit."""
        known = names or Names()
        positive = sorted(((a, c) for a, c in self.terms if c > 0), key=lambda term: -term[1])
        wide = self.is_wide
        # A sum is as wide as its first term; other products are made wide where they have to be.
        added = [
            (c, _term(a, c, known, is_wide=wide and (place == 0 or _is_wide(a, c))))
            for place, (a, c) in enumerate(positive)
        ]
        removed = [
            _term(a, -c, known, is_wide=wide and _is_wide(a, -c)) for a, c in self.terms if c < 0
        ]
        text = " + ".join(term for _, term in added)
        if not self.terms:
            return known.factors.get(self.offset, str(self.offset))
        if self.offset > 0 or not text:
            number = f"{self.offset}ul" if wide and not text else str(self.offset)
            text = f"{text} + {number}" if text else number
        text += "".join(f" - {term}" for term in removed)
        return text + (f" - {-self.offset}" if self.offset < 0 and added else "")


def flatten(coordinates: Sequence[Index], shape: Sequence[int]) -> Index:
    """Return the row-major offset of `coordinates` in an array of `shape`."""
    offset = Index()
    for coordinate, extent in zip(coordinates, shape, strict=True):
        offset = offset * extent + coordinate
    return offset


def unflatten(offset: Index, shape: Sequence[int]) -> tuple[Index, ...]:
    """Return the coordinates of a row-major `offset` in an array of `shape`."""
    coordinates: list[Index] = []
    for axis, extent in reversed(list(enumerate(shape))):
        # The outermost coordinate needs no remainder: the offset is inside the array.
        coordinates.append(offset % extent if axis else offset)
        offset = offset // extent
    return tuple(reversed(coordinates))


def moved(places: Sequence[Index], axis: int, by: int) -> tuple[Index, ...]:
    """Return coordinates with one of them moved."""
    return tuple(p + by if i == axis else p for i, p in enumerate(places))


def within(places: Sequence[Index], axis: int, low: int, stop: int) -> tuple[Index, ...]:
    """Return coordinates where the one on `axis` is known to be in `low <= place < stop`.

    Nothing follows from a sum of several atoms.
    """
    if len(places[axis].terms) != 1:
        return tuple(places)
    ((atom, step),), start = places[axis].terms, places[axis].offset
    if step > 0:
        first, end = -((start - low) // step), -((start - stop) // step)
    else:
        first, end = (stop - start) // step + 1, (low - start) // step + 1
    return tuple(p.narrowed(_bare(atom), first, end) for p in places)


def _axes_of(atom: Atom) -> frozenset[Axis]:
    atom = _bare(atom)
    if isinstance(atom, Axis):
        return frozenset({atom})
    return atom.axes if isinstance(atom, Indirect) else atom.of.axes


def _renamed(atom: Atom, axis: Axis, name: str) -> Atom:
    match atom:
        case Axis():
            return Axis(name, atom.extent) if atom == axis else atom
        case Quotient():
            return Quotient(atom.of.renamed(axis, name), atom.by)
        case Remainder():
            return Remainder(atom.of.renamed(axis, name), atom.by)
    return atom


def _bare(atom: Atom) -> Axis | Indirect | Quotient | Remainder:
    return atom.of if isinstance(atom, RangeConstrained) else atom


def _narrowed(atom: Atom, known: Atom, low: int, stop: int) -> Index:
    if _bare(atom) == known:
        ends = max(low, _smallest(atom)), min(stop, _largest(atom) + 1)
        return Index(((RangeConstrained(_bare(atom), *ends), 1),))
    match atom:
        case Quotient():
            return atom.of.narrowed(known, low, stop) // atom.by
        case Remainder():
            return atom.of.narrowed(known, low, stop) % atom.by
    return Index(((atom, 1),))


def _at(atom: Atom, axis: Axis, value: int) -> Index:
    atom = _bare(atom)
    if atom == axis:
        return Index((), value)
    match atom:
        case Quotient():
            return atom.of.at(axis, value) // atom.by
        case Remainder():
            return atom.of.at(axis, value) % atom.by
    return Index(((atom, 1),))


def _is_narrowed(term: tuple[Atom, int]) -> bool:
    match term[0]:
        case Quotient(of=inner) | Remainder(of=inner):
            return any(map(_is_narrowed, inner.terms))
    return isinstance(term[0], RangeConstrained)


def _widened(atom: Atom) -> Atom:
    match atom:
        case RangeConstrained():
            return _widened(atom.of)
        case Quotient():
            return Quotient(atom.of.widened(), atom.by)
        case Remainder():
            return Remainder(atom.of.widened(), atom.by)
    return atom


def _is_still(atom: Atom, axis: Axis, width: int) -> bool:
    if axis not in _axes_of(atom):
        return True
    if not isinstance(atom, Quotient) or atom.by % width:
        return False
    rest = atom.of + Index.of(axis) * -1
    steps = (rest.offset, *(c for _, c in rest.terms))
    return axis not in rest.axes and all(step % width == 0 for step in steps)


def _smallest(atom: Atom) -> int:
    if isinstance(atom, RangeConstrained):
        return atom.low
    if isinstance(atom, Quotient):
        return max(atom.of.bounds[0], 0) // atom.by
    return 0


def _largest(atom: Atom) -> int:
    if isinstance(atom, RangeConstrained):
        return atom.stop - 1
    if isinstance(atom, Axis | Indirect):
        return atom.extent - 1
    if isinstance(atom, Quotient):
        return atom.of.bounds[1] // atom.by
    return min(atom.by - 1, atom.of.bounds[1])


def _quotient(of: Index, by: int) -> Index:
    match of.terms:
        case ((Quotient(of=inner, by=first), 1),) if of.offset == 0:
            return _quotient(inner, first * by)
    if by == 1:
        return of
    return Index(((Quotient(of, by), 1),))


def _remainder(of: Index, by: int) -> Index:
    match of.terms:
        case ((Remainder(of=inner, by=first), 1),) if of.offset == 0 and first % by == 0:
            return inner % by
    return Index(((Remainder(of, by), 1),))


def _recombined(terms: dict[Atom, int], offset: int) -> Index:
    """Drop zero terms, and join `a % n` with `n * (a / n)`, or with `n * (a / n % m)`."""
    live = {a: c for a, c in terms.items() if c}
    for atom, coefficient in live.items():
        if not isinstance(atom, Remainder):
            continue
        for whole in _wholes(atom):
            if live.get(whole) == coefficient * atom.by:
                rest = {a: c for a, c in live.items() if a not in (atom, whole)}
                return Index(_ordered(rest), offset) + atom.of * coefficient
        for upper in live:
            joined = _joined(upper, atom) if live[upper] == coefficient * atom.by else None
            if joined is not None:
                rest = {a: c for a, c in live.items() if a not in (atom, upper)}
                return Index(_ordered(rest), offset) + joined * coefficient
    return Index(_ordered(live), offset)


def _joined(upper: Atom, low: Remainder) -> Index | None:
    """Return `upper * low.by + low` where that is what a larger remainder leaves."""
    if isinstance(upper, Remainder) and upper.of == low.of // low.by:
        return low.of % (low.by * upper.by)
    match upper:
        case Quotient(of=Index(terms=((Remainder(of=whole, by=by), 1),), offset=0), by=step):
            return whole % by if whole == low.of and step == low.by and by % step == 0 else None
    return None


def _wholes(atom: Remainder) -> Iterable[Atom]:
    """Yield the atoms that a quotient of the remainder's argument may have become."""
    quotient = atom.of // atom.by
    if len(quotient.terms) == 1 and quotient.offset == 0 and quotient.terms[0][1] == 1:
        yield quotient.terms[0][0]


def _ordered(terms: Mapping[Atom, int]) -> tuple[tuple[Atom, int], ...]:
    if len(terms) < 2:
        return tuple(terms.items())
    return tuple(sorted(terms.items(), key=lambda item: (-item[1], repr(item[0]))))


def _is_wide(atom: Atom, coefficient: int) -> bool:
    return coefficient * _largest(atom) > _MOST_IN_32_BITS


def _term(atom: Atom, coefficient: int, names: Names, *, is_wide: bool) -> str:
    text = _atom(atom, names, alone=coefficient == 1 or is_wide)
    if is_wide:
        text = f"ulong({text})"
    if coefficient == 1:
        return text
    return f"{text} * {names.factors.get(coefficient, coefficient)}"


def _atom(atom: Atom, names: Names, *, alone: bool) -> str:
    atom = _bare(atom)
    if isinstance(atom, Axis):
        return atom.name
    if isinstance(atom, Indirect):
        return names.places[atom.number]
    inner = atom.of.render(names)
    if " " in inner:
        inner = f"({inner})"
    sign = "/" if isinstance(atom, Quotient) else "%"
    text = f"{inner} {sign} {names.factors.get(atom.by, atom.by)}"
    return text if alone else f"({text})"
