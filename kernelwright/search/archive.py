"""A task's right programs on islands, by technique and by what bounds them; parents from them."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelwright.agents.protocols import Attempt
from kernelwright.agents.roles.lesson import traits_of
from kernelwright.metal.kernel import Program
from kernelwright.metal.msl.token import code, tokenize

MOST_INSPIRATIONS = 2
_ELITES = 3
"""Programs that an island keeps."""
_WITHIN = 1.5
"""How many times the best time a parent may take."""
_WITHIN_INSPIRATION = 4.0
_NOVELTY = 0.5
"""What being unlike all others is worth, beside being as fast as the best."""
_SHINGLE = 3
_LONGEST_TEXT = 12_000
"""Characters of a text that tell how it is written; templates unroll far longer ones."""


@dataclass(frozen=True)
class Niche:
    """Where a program lives: how it is written, and what its time goes to."""

    techniques: frozenset[str]
    bound: str

    def __str__(self) -> str:
        """Say it in a few words."""
        how = ", ".join(sorted(self.techniques)) or "plain loops"
        return f"{how}; bound by {self.bound}" if self.bound else how


def niche_of(attempt: Attempt) -> Niche:
    """Return the island that a right program belongs to."""
    return Niche(traits_of(attempt.proposal.program), attempt.evaluation.bound)


@dataclass(frozen=True)
class Archive:
    """The right programs of a task; the same past gives the same parents."""

    history: Sequence[Attempt]
    slowness: Mapping[str, float]
    """A number for each right program by its id, smaller is faster."""

    @cached_property
    def islands(self) -> dict[Niche, list[Attempt]]:
        """The fastest programs of each niche, fastest first; the island of the best comes first."""
        found: dict[Niche, list[Attempt]] = {}
        for attempt in sorted(self._right(), key=self._time):
            elites = found.setdefault(niche_of(attempt), [])
            is_known = any(a.proposal.program.id == attempt.proposal.program.id for a in elites)
            if len(elites) < _ELITES and not is_known:
                elites.append(attempt)
        return found

    @cached_property
    def parents(self) -> list[Attempt]:
        """What is worth improving, most promising first: fast, unlike the rest, seldom worked on.

        While nothing was made from the best yet it comes first; nothing far behind it is named.
        """
        elites = self._elites
        if not elites:
            return []
        limit = self._time(elites[0]) * _WITHIN
        near = [attempt for attempt in elites if self._time(attempt) <= limit]
        return sorted(near, key=self._promise, reverse=True)

    def inspirations(self, parent: Attempt | None) -> list[Attempt]:
        """Return the best programs of other islands than the parent's, which go other ways."""
        elites = self._elites
        if not elites:
            return []
        home = niche_of(parent) if parent is not None else None
        limit = self._time(elites[0]) * _WITHIN_INSPIRATION
        leaders = [island[0] for niche, island in self.islands.items() if niche != home]
        shown = [] if parent is None else [parent]
        for leader in leaders:
            # A tuner's variant of what is shown is written alike, whatever bounds it.
            is_alike = any(_is_alike(leader, other) for other in shown)
            if self._time(leader) <= limit and not is_alike:
                shown.append(leader)
        return [attempt for attempt in shown if attempt is not parent][:MOST_INSPIRATIONS]

    @property
    def _elites(self) -> list[Attempt]:
        return sorted((a for island in self.islands.values() for a in island), key=self._time)

    def _right(self) -> Iterator[Attempt]:
        for attempt in self.history:
            if attempt.evaluation.is_correct and attempt.proposal.program.id in self.slowness:
                yield attempt

    def _time(self, attempt: Attempt) -> float:
        return self.slowness[attempt.proposal.program.id]

    @cached_property
    def _children(self) -> Counter[str]:
        """How many programs of models came from each program."""
        return Counter(
            a.proposal.parent
            for a in self.history
            if a.proposal.parent is not None and a.proposal.author != "offline"
        )

    def _promise(self, attempt: Attempt) -> float:
        quality = self._time(self._elites[0]) / max(self._time(attempt), 1e-9)
        worked_on = self._children[attempt.proposal.program.id]
        if attempt is self._elites[0] and not worked_on:
            return math.inf
        return quality * (1 + _NOVELTY * self._novelty(attempt)) / math.sqrt(1 + worked_on)

    def _novelty(self, attempt: Attempt) -> float:
        """Return how unlike the nearest other program it is, from 0 to 1."""
        own = self._shingles[attempt.proposal.program.id]
        others = [s for key, s in self._shingles.items() if key != attempt.proposal.program.id]
        return min((_distance(own, other) for other in others), default=1.0)

    @cached_property
    def _shingles(self) -> dict[str, frozenset[tuple[str, ...]]]:
        return {a.proposal.program.id: shingles(a.proposal.program) for a in self._elites}


def shingles(program: Program) -> frozenset[tuple[str, ...]]:
    """Return every run of a few tokens in a program's texts."""
    found: set[tuple[str, ...]] = set()
    for kernel in program.kernels:
        text = f"{kernel.header}\n{kernel.source}"[:_LONGEST_TEXT]
        words = [token.spelling for token in code(tokenize(text))]
        found.update(tuple(words[i : i + _SHINGLE]) for i in range(len(words) - _SHINGLE + 1))
    return frozenset(found)


def _is_alike(one: Attempt, other: Attempt) -> bool:
    return shingles(one.proposal.program) == shingles(other.proposal.program)


def _distance(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> float:
    union = len(one | other)
    return 1 - len(one & other) / union if union else 0.0
