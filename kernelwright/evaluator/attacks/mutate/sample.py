"""Which mutants are tried: drawn by a seed, rare operators as often as common ones."""

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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

_MUTANTS_A_PROGRAM, _MOST_PROGRAMS = 8, 4


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
    """Share out `count` mutants over all sources in an order of chance, or over some of them.

    `only` names tasks; none means all.

    Raises:
        InputError: there is no such task.
    """
    known = [source for source in sources(shapes) if not only or source.name in only]
    if missing := only - {source.name for source in known}:
        raise InputError(f"expected names of catalog tasks, found {', '.join(sorted(missing))}.")
    random = np.random.default_rng(seed)
    order = [known[place] for place in random.permutation(len(known))][:most_sources]
    each, more = divmod(count, len(order))
    sized = [Share(source, each + (place < more), seed) for place, source in enumerate(order)]
    return tuple(share for share in sized if share.count)


def _programs(count: int) -> int:
    """Return how many programs to break for so many mutants: each is judged whole itself."""
    return min(1 + count // _MUTANTS_A_PROGRAM, _MOST_PROGRAMS)


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
