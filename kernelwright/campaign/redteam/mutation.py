"""The attacker that needs no model: mistakes by operators, drawn by a seed."""

from collections.abc import Iterator

import numpy as np

from kernelwright.agents.roles.attacker import Attack
from kernelwright.campaign.redteam.record import Target
from kernelwright.errors import KernelwrightError
from kernelwright.evaluator.attacks.mutate.catalog import mutants_of
from kernelwright.evaluator.attacks.mutate.equivalence import machine_code
from kernelwright.evaluator.attacks.mutate.record import Mutant

AUTHOR = "mutation"


def mutation_attacks(target: Target, count: int, seed: int) -> Iterator[Attack]:
    """Yield mutants of a program, an operator at a time, none that is proven equivalent."""
    random = np.random.default_rng([seed, int(target.program.id[:8], 16)])
    pools: dict[str, list[Mutant]] = {}
    for mutant in mutants_of(target.program):
        pools.setdefault(mutant.operator, []).append(mutant)
    made = 0
    while pools and made < count:
        operator = sorted(pools)[int(random.integers(len(pools)))]
        pool = pools[operator]
        mutant = pool.pop(int(random.integers(len(pool))))
        if not pool:
            del pools[operator]
        if _is_other(target, mutant):
            made += 1
            yield Attack(
                program=mutant.program,
                author=AUTHOR,
                idea=f"{operator}: {mutant.before} became {mutant.after}"[:300],
            )


def _is_other(target: Target, mutant: Mutant) -> bool:
    """Say whether a mutant compiles, and to other code than its base."""
    if not mutant.shows_in_code:
        return True
    try:
        code = machine_code(target.task, mutant.program, target.program)
        return code is None or code != machine_code(target.task, target.program, mutant.program)
    except KernelwrightError:
        return False
