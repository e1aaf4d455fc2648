"""What an op does to values: where it jumps, rounds, is undefined, and what it keeps of them."""

from dataclasses import dataclass
from enum import StrEnum
from types import EllipsisType


class Domain(StrEnum):
    """What an operand has to be for an op to be defined."""

    ANY = "any"
    POSITIVE = "positive"
    INDEX = "index"
    """Below the size of an axis of the first operand, or a start from which a window fits."""
    DIVISOR = "divisor"
    """Of integers, not zero."""
    SHIFT = "shift"
    """Below the number of bits."""
    PACKED = "packed"
    """All bits of a word count, as several digits."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Facts about an op's values that do not follow from its kind."""

    domains: tuple[Domain | EllipsisType, ...] = ()
    """Of each operand; `...` repeats the one before as often as there are operands to fill."""
    data_places: tuple[int, ...] | None = None
    """Which operands hold the values that an op moves by position; None where all do."""
    is_continuous: bool = True
    """One rounding of an operand never changes the result wholly."""
    steps: tuple[float, ...] = ()
    """Where an op that leaves whole numbers jumps."""
    makes_bool: bool = False
    ulps: float | None = None
    """Largest error of a sound implementation in float32, in units in the last place; one half
    where IEEE arithmetic rounds correctly, None where nothing is rounded or a rule of its own
    says how."""
    scales_argument: bool = False
    """Its argument may be scaled by log2(e), which rounds twice, before `exp2`."""
    picks: bool = False
    """The result is among what it reads, or as exact."""
    chooses: bool = False
    """Its first operand says which of the others the result is."""
    converts: bool = False
    """The result is what it reads, in another dtype."""
    makes_weights: bool = False
    """Each row's results add up to one, and may round to zero."""
    is_extreme: bool = False
    """The result is the greatest or the least of what it reads."""
    overlaps: bool = False
    """An element may stand at several places of the result, in any order."""
    is_total: bool = False
    """Integers of any size are defined: what overflows wraps around, or one is chosen."""
    absorbs: bool = False
    """Of integers one operand may decide the result alone, as zero does a product."""
    annihilates: bool = False
    """Zero as any operand makes the result zero, infinities aside."""
    slopes: tuple[float, ...] = ()
    """Of a linear op: what each operand is multiplied by before all are added up."""
    divides: bool = False
    """Hardware takes an inverse of the last operand."""
    is_bounded: bool = False
    """Results lie about one, whatever it reads."""
    keeps_sign: bool = False
    """The result is positive where what it reads is."""
    accumulates: bool = False
    """Sums or products of many terms may overflow on the way to a result that does not."""
    is_decided_by_one: bool = False
    """One element may decide the result of a whole row."""
    is_bitwise: bool = False
    """Works on bits, so that all of a word's matter."""
    makes_places: bool = False
    """The result is where elements stand, not what they are."""
    joins: bool = False
    """Terms are added, or one divided by another: two infinities leave no number."""
    is_power: bool = False

    @property
    def compares(self) -> bool:
        """Say whether the result tells which of two numbers is greater, or whether they are one."""
        return self.makes_bool and not self.is_continuous

    def domain(self, place: int, count: int) -> Domain:
        """Return the domain of one of `count` operands."""
        given = [d for d in self.domains if isinstance(d, Domain)]
        spread: list[Domain] = []
        for entry in self.domains:
            missing = count - len(given)
            if isinstance(entry, Domain):
                spread.append(entry)
            else:
                spread = spread + spread[-1:] * missing if missing >= 0 else spread[:missing]
        return spread[place] if place < len(spread) else Domain.ANY


PLAIN = Behaviour()
