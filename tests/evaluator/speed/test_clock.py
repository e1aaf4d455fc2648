"""Cheats of clock and search, each against the verdict that it deserves."""

import pytest

from kernelwright.evaluator.attacks.clock import CLOCK_CHEATS, ClockCheat, outcome
from kernelwright.evaluator.attacks.corpus import mutants


@pytest.mark.parametrize("cheat", CLOCK_CHEATS, ids=lambda c: f"{c.class_} {c.name}")
@pytest.mark.parametrize("seed", range(3))
def test_a_cheat_of_the_clock_is_seen(cheat: ClockCheat, seed: int) -> None:
    assert outcome(cheat, seed) == cheat.expect, cheat.why


def test_every_class_of_timing_attacks_has_a_candidate() -> None:
    classes = {c.class_ for c in CLOCK_CHEATS} | {m.edit.class_ for m in mutants()}
    # A candidate is text: threads of the host (T3) and its patches (T4) cannot be written in it.
    assert {f"T{n}" for n in range(1, 15)} - {"T3"} <= classes
