"""Functions people write that no list of ours was tuned to, half of them only ever measured."""

import random

from benchmarks.suite.collected.language import LANGUAGE
from benchmarks.suite.collected.science import SCIENCE
from benchmarks.suite.collected.training import TRAINING
from benchmarks.suite.collected.vision import VISION
from benchmarks.suite.workload import Workload

_SPLIT_SEED = 20261122
COLLECTED: tuple[Workload, ...] = (*VISION, *TRAINING, *LANGUAGE, *SCIENCE)


def _halves() -> tuple[tuple[Workload, ...], tuple[Workload, ...]]:
    names = sorted(w.name for w in COLLECTED)
    random.Random(_SPLIT_SEED).shuffle(names)
    kept = frozenset(names[: len(names) // 2])
    return (
        tuple(w for w in COLLECTED if w.name not in kept),
        tuple(w for w in COLLECTED if w.name in kept),
    )


WORKED, HELD_OUT = _halves()
"""The half that kernels may be improved with, and the half that is only measured."""
