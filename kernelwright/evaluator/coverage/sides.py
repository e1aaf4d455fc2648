"""Which sides of its conditions on loaded data a program has taken so far."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kernelwright.metal.device.base import Condition, ForcedCondition

_NEEDS_ALL = frozenset((("and", True), ("or", False)))
"""Kinds of combinations, and the sides that all of their parts must take."""


@dataclass(frozen=True, slots=True)
class Key:
    """One condition of a program's text, the same in builds for other shapes."""

    launch: int
    file: str
    line: int
    column: int
    kind: str
    constant: str
    number: int
    """Among those that are alike in all else."""


@dataclass(frozen=True, slots=True)
class Side:
    """A condition, and one of its two values."""

    key: Key
    value: bool


@dataclass
class Seen:
    """What is known of one condition."""

    was_false: bool = False
    was_true: bool = False
    compared: tuple[float, float] | None = None
    """The two numbers closest to each other that it has compared."""
    loaded: tuple[str, str] = ("", "")
    loaded_bits: tuple[int, int] = (0, 0)
    is_known: tuple[bool, bool] = (False, False)
    is_special: bool = False
    is_fixed: bool = False
    ways: tuple[tuple["Side", ...], ...] = ()
    ways_beyond_ends: tuple[tuple["Side", ...], ...] = ()
    is_chosen: bool = False
    numbers: tuple[float, ...] = ()
    reads_bits: bool = False
    compares: bool = False
    as_integers: tuple[str, ...] = ()
    parts: tuple[tuple[Key, bool], ...] = ()
    """As in `Condition`."""


@dataclass
class Tally:
    """The sides taken over many runs."""

    seen: dict[Key, Seen] = field(default_factory=dict)

    def add(self, conditions: Iterable[Condition]) -> None:
        """Take what one run has seen."""
        found = list(keyed(conditions))
        keys = {(c.launch, c.site): key for key, c in found}
        for key, condition in found:
            seen = self.seen.setdefault(key, Seen())
            seen.parts = tuple((keys[key.launch, n], no) for n, no in condition.parts)
            seen.was_false |= condition.was_false
            seen.was_true |= condition.was_true
            seen.loaded, seen.is_known = condition.loaded, condition.is_known
            seen.loaded_bits = condition.loaded_bits
            seen.is_special, seen.is_chosen = condition.is_special, condition.is_chosen
            seen.is_fixed = condition.is_fixed
            seen.ways, seen.ways_beyond_ends = (
                tuple(tuple(Side(keys[key.launch, n], value) for n, value in way) for way in ways)
                for ways in (condition.ways, condition.ways_beyond_ends)
            )
            seen.numbers, seen.reads_bits = condition.numbers, condition.reads_bits
            seen.compares, seen.as_integers = condition.compares, condition.as_integers
            seen.compared = _closer(seen.compared, condition.compared)

    def merge(self, other: "Tally") -> None:
        """Take what other runs have seen."""
        for key, seen in other.seen.items():
            own = self.seen.setdefault(key, Seen())
            own.was_false |= seen.was_false
            own.was_true |= seen.was_true

    def takes(self, side: Side) -> bool:
        """Say whether a side was taken."""
        seen = self.seen.get(side.key)
        return seen is not None and (seen.was_true if side.value else seen.was_false)

    @property
    def missing(self) -> tuple[Side, ...]:
        """The sides that were never taken, of conditions that were evaluated."""
        return tuple(
            Side(key, not seen.was_true)
            for key, seen in self.seen.items()
            if seen.was_false != seen.was_true and not seen.is_fixed
        )

    @property
    def taken(self) -> tuple[Side, ...]:
        """The sides that were taken."""
        sides = (Side(key, value) for key in self.watched for value in (False, True))
        return tuple(side for side in sides if self.takes(side))

    @property
    def watched(self) -> tuple[Key, ...]:
        """The conditions on loaded data; what the launch decides is part of some of them."""
        return tuple(key for key, seen in self.seen.items() if not seen.is_fixed)

    def is_decided(self, side: Side, around: frozenset[Side] = frozenset()) -> bool:
        """Say whether what depends on the launch alone keeps a combination, or a flag, from a side.

        A flag stays what it was at first where no way is taken that brings data into it.
        """
        if side.key not in self.seen or side in around:
            return False
        if ways := self.seen[side.key].ways:
            return self._are_closed(ways)
        if (side.key.kind, side.value) not in _NEEDS_ALL:
            return False
        parts = (
            Side(key, side.value is not is_negated) for key, is_negated in self.seen[side.key].parts
        )
        missing = [part for part in parts if not self.takes(part)]
        return any(
            self.seen[part.key].is_fixed or self.is_decided(part, around | {side})
            for part in missing
        )

    def is_special(self, key: Key) -> bool:
        """Say whether a condition asks for special numbers alone, at least at this shape."""
        seen = self.seen[key]
        closed = bool(seen.ways_beyond_ends) and self._are_closed(seen.ways_beyond_ends)
        return seen.is_special or closed

    def _are_closed(self, ways: Iterable[tuple[Side, ...]]) -> bool:
        """Say whether no run has gone any of these ways."""
        return all(any(not self.takes(turn) for turn in way) for way in ways)

    def forget(self, sides: Iterable[Side]) -> None:
        """Take sides for ones that were never taken."""
        for side in sides:
            seen = self.seen[side.key]
            if side.value:
                seen.was_true = False
            else:
                seen.was_false = False

    def was_evaluated(self, key: Key) -> bool:
        """Say whether any run came to a condition."""
        seen = self.seen.get(key)
        return seen is not None and (seen.was_false or seen.was_true)


def keyed(conditions: Iterable[Condition]) -> Iterator[tuple[Key, Condition]]:
    """Yield each condition of a run by what it is called in all builds."""
    counts: dict[tuple[int | str, ...], int] = {}
    for c in conditions:
        alike = (c.launch, c.file, c.line, c.column, c.kind, c.constant)
        number = counts[alike] = counts.get(alike, -1) + 1
        yield Key(c.launch, c.file, c.line, c.column, c.kind, c.constant, number), c


def forced_sides(
    conditions: Iterable[Condition], sides: Iterable[Side]
) -> tuple[ForcedCondition, ...]:
    """Return what forces some sides in the build that gave these conditions."""
    values = {side.key: side.value for side in sides}
    return tuple(
        ForcedCondition(launch=condition.launch, site=condition.site, value=values[key])
        for key, condition in keyed(conditions)
        if key in values
    )


def _closer(
    one: tuple[float, float] | None, other: tuple[float, float] | None
) -> tuple[float, float] | None:
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda pair: abs(pair[0] - pair[1]))
