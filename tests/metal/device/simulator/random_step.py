"""What a random kernel is made of: steps over four unsigned numbers of each thread."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

THREADS = 64
Numbers = npt.NDArray[np.uint32]
State = list[Numbers]
"""The four numbers of all threads, then the input as the kernel was given it."""


@dataclass
class Step:
    """One step: declarations, statements, and what they do."""

    code: str
    apply: Callable[[State], None]
    before: str = ""


@dataclass
class Kernel:
    """A kernel's text and its reference."""

    name: str
    steps: list[Step] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The declarations and the kernel."""
        before = "".join(step.before for step in self.steps)
        body = "\n".join(f"  {{ {step.code} }}" for step in self.steps)
        return f"""{before}
kernel void {self.name}(const device uint* x [[buffer(0)]], device uint* y [[buffer(1)]],
    uint l [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
    uint sg [[simdgroup_index_in_threadgroup]]) {{
  threadgroup uint s[64]; threadgroup uint t[8][8]; threadgroup atomic_uint n[16];
  uint a = x[l], b = x[l + 64], c = x[l + 128], d = x[l + 192];
{body}
  y[l] = a; y[l + 64] = b; y[l + 128] = c; y[l + 192] = d;
}}
"""

    def run(self, x: Numbers) -> Numbers:
        """Return what the kernel must leave in `y`."""
        state = [*(x[THREADS * k : THREADS * (k + 1)].copy() for k in range(4)), x]
        with np.errstate(over="ignore"):
            for step in self.steps:
                step.apply(state)
        return np.concatenate(state[:4])


Style = Callable[[random.Random, str], Step]
"""Writes a step, given a name that no other step has."""


def pick(chance: random.Random) -> tuple[tuple[str, int], tuple[str, int], tuple[str, int]]:
    """Choose a variable to write and two to read, by name and number."""
    names = "abcd"
    places = [chance.randrange(4) for _ in range(3)]
    one, two, three = ((names[p], p) for p in places)
    return one, two, three


def word(value: int) -> np.uint32:
    return np.uint32(value & 0xFFFFFFFF)
