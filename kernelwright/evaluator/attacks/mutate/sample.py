"""Which mutants are tried: drawn by a seed, rare operators as often as common ones."""

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from kernelwright.errors import InputError
from kernelwright.evaluator.attacks.mutate.base import (
    BaseProgram,
    Shapes,
    Source,
    programs_of,
    sources,
)
from kernelwright.evaluator.attacks.mutate.catalog import mutants_of
from kernelwright.evaluator.attacks.mutate.record import Mutant

MUTANTS_A_PROGRAM, _MOST_PROGRAMS = 24, 4
"""A base program is judged whole and its task's references are computed, which takes as long as
some fifteen mutants: all that are drawn of it share that."""


@dataclass(frozen=True)
class Share:
    """So many mutants of the programs of one source."""

    source: Source
    count: int
    seed: int

    def draw(self) -> Iterator[tuple[BaseProgram, tuple[Mutant, ...]]]:
        """Yield each base program with the mutants drawn of it."""
        random = np.random.default_rng([self.seed, zlib.crc32(self.source.label.encode())])
        found = list(programs_of(self.source, random, _programs(self.count)))
        chosen = _drawn(found, self.count, random)
        for place, base in enumerate(found):
            if chosen[place]:
                yield base, tuple(chosen[place])


def shares(
    count: int,
    seed: int,
    shapes: Shapes,
    *,
    most_sources: int | None = None,
    only: frozenset[str] = frozenset(),
) -> tuple[Share, ...]:
    """Share out `count` mutants over sources in an order of chance.

    There are as many sources as leaves each some `MUTANTS_A_PROGRAM`, or `most_sources`: every task
    in one dtype before any in a second.

    Args:
        count: Mutants in all.
        seed: Of the order, and of what is drawn.
        shapes: Whether the tasks have their own sizes or small ones.
        most_sources: How many to break, where the count does not say.
        only: Names of tasks, all of which are broken; none means any.

    Raises:
        InputError: there is no such task.
    """
    known = [source for source in sources(shapes) if not only or source.name in only]
    if missing := only - {source.name for source in known}:
        raise InputError(f"expected names of catalog tasks, found {', '.join(sorted(missing))}.")
    wanted = most_sources or (len(known) if only else max(count // MUTANTS_A_PROGRAM, 1))
    order = _tasks_first(known, np.random.default_rng(seed))[:wanted]
    each, more = divmod(count, len(order))
    sized = [Share(source, each + (place < more), seed) for place, source in enumerate(order)]
    return tuple(share for share in sized if share.count)


def _tasks_first(known: Sequence[Source], random: np.random.Generator) -> list[Source]:
    """Order sources by chance, the first one of every task before the second of any."""
    turns: Counter[str] = Counter()
    placed = list[tuple[int, Source]]()
    for place in random.permutation(len(known)):
        source = known[place]
        placed.append((turns[source.name], source))
        turns[source.name] += 1
    return [source for _, source in sorted(placed, key=itemgetter(0))]


def _programs(count: int) -> int:
    """Return how many programs to break for so many mutants: each is judged whole itself."""
    return min(max(count // MUTANTS_A_PROGRAM, 1), _MOST_PROGRAMS)


def _drawn(
    found: Sequence[BaseProgram], count: int, random: np.random.Generator
) -> dict[int, list[Mutant]]:
    """Draw an operator first, then one of its mutants, so that long texts do not drown others."""
    pools: dict[str, list[tuple[int, Mutant]]] = defaultdict(list)
    for place, base in enumerate(found):
        for mutant in mutants_of(base.program):
            pools[mutant.operator].append((place, mutant))
    chosen: dict[int, list[Mutant]] = defaultdict(list)
    for _ in range(count):
        if not pools:
            break
        operator = sorted(pools)[int(random.integers(len(pools)))]
        pool = pools[operator]
        place, mutant = pool.pop(int(random.integers(len(pool))))
        chosen[place].append(mutant)
        if not pool:
            del pools[operator]
    return chosen
