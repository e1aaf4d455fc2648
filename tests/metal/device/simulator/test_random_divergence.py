"""Barriers in random nests of loops and branches: who meets is told as an interpreter tells it."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from kernelwright.metal import simulator
from kernelwright.metal.device.simulator import compiler
from kernelwright.metal.diagnostic import ReportKind

THREADS, KERNELS = 64, 24
_HEAD = """#include <metal_stdlib>
using namespace metal;
#define SYNC threadgroup_barrier(mem_flags::mem_threadgroup)
inline void meet(thread uint& work) { work += 1; SYNC; }
inline void meet_twice(thread uint& work) { for (uint k = 0; k < 2; k++) meet(work); }
"""
Instance = tuple[int, ...]
"""Numbers of a barrier and of the rounds of the loops around it."""


@dataclass(frozen=True)
class Meeting:
    """A barrier, perhaps within a function; `count` of them follow each other."""

    number: int
    text: str
    count: int = 1


@dataclass(frozen=True)
class Choice:
    """Both ways of a branch, by a bit of the thread's number plus the innermost round."""

    mask: int
    ways: tuple[tuple["Statement", ...], tuple["Statement", ...]]


@dataclass(frozen=True)
class Loop:
    """Rounds, more where the masked number of the thread is not 0; some are cut short."""

    name: str
    rounds: int
    mask: int
    skip_mask: int
    leaves: bool
    body: tuple["Statement", ...]


Statement = Meeting | Choice | Loop


class _Writer:
    """Draws programs."""

    def __init__(self, seed: int) -> None:
        self._random, self._number = random.Random(seed), 0

    def block(self, depth: int) -> tuple[Statement, ...]:
        return tuple(self._statement(depth) for _ in range(self._random.randint(1, 2)))

    def _mask(self) -> int:
        """Mostly none, so that about half of the programs are right."""
        return self._random.choice((0, 0, 0, 0, 1, 2, 32))

    def _statement(self, depth: int) -> Statement:
        self._number += 1
        kind = self._random.choice("mcl" if depth else "m")
        if kind == "c":
            return Choice(self._mask(), (self.block(depth - 1), self.block(depth - 1)))
        if kind == "l":
            skip = self._random.choice((-1, -1, self._mask()))
            leaves = self._random.random() < 0.3
            name, rounds = f"k{self._number}", self._random.randint(1, 3)
            return Loop(name, rounds, self._mask(), skip, leaves, self.block(depth - 1))
        text, count = self._random.choice((("SYNC;", 1), ("meet(w);", 1), ("meet_twice(w);", 2)))
        return Meeting(self._number, text, count)


def _text(block: tuple[Statement, ...], round_: str = "0") -> str:
    lines = []
    for s in block:
        if isinstance(s, Meeting):
            lines.append(s.text)
        elif isinstance(s, Choice):
            first, second = (_text(way, round_) for way in s.ways)
            lines.append(f"if (((l & {s.mask}u) + {round_}) % 2) {{ w += l; {first} }}")
            lines.append(f"else {{ w ^= 1; {second} }}")
        else:
            way = "break" if s.leaves else "continue"
            cut = f"if (((l & {s.skip_mask}u) + {s.name}) % 2) {way};" if s.skip_mask >= 0 else ""
            limit = f"{s.rounds} + ((l & {s.mask}u) ? 1 : 0)"
            head = f"for (uint {s.name} = 0; {s.name} < {limit}; {s.name}++)"
            lines.append(f"{head} {{ {cut} {_text(s.body, s.name)} }}")
    return "\n".join(lines)


def _meetings(
    block: tuple[Statement, ...], thread: int, round_: int = 0, around: Instance = ()
) -> Iterator[Instance]:
    """Yield the instances that a thread comes to."""
    for s in block:
        if isinstance(s, Meeting):
            yield from ((s.number, k, *around) for k in range(s.count))
        elif isinstance(s, Choice):
            way = 0 if ((thread & s.mask) + round_) % 2 else 1
            yield from _meetings(s.ways[way], thread, round_, around)
        else:
            for k in range(s.rounds + bool(thread & s.mask)):
                if s.skip_mask >= 0 and ((thread & s.skip_mask) + k) % 2:
                    if s.leaves:
                        break
                    continue
                yield from _meetings(s.body, thread, k, (*around, k))


@pytest.mark.parametrize("vets", [False, True], ids=["", "vetted"])
@pytest.mark.parametrize("seed", range(2))
def test_who_meets_at_a_barrier(seed: int, vets: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if vets:
        monkeypatch.setattr(compiler, "VETTED_THREADS", 1)
        monkeypatch.setattr(compiler, "MOST_WIDE_ENTRIES", KERNELS)
    programs = [_Writer(1000 * seed + n).block(3) for n in range(KERNELS)]
    kernels = (
        f"kernel void k{n}(device uint* y [[buffer(0)]], uint l [[thread_index_in_threadgroup]]) {{"
        f"\nuint w = 0;\n{_text(block)}\ny[l] = w;\n}}\n"
        for n, block in enumerate(programs)
    )
    library = simulator.compile(_HEAD + "".join(kernels))

    found, expected = [], []
    for n, block in enumerate(programs):
        outcome = library.kernel(f"k{n}").launch(
            [np.zeros(THREADS, np.uint32)],
            grid=(THREADS, 1, 1),
            threadgroup=(THREADS, 1, 1),
            sanitize=True,
        )
        found.append({r.kind for r in outcome.reports})
        meetings = {tuple(_meetings(block, thread)) for thread in range(THREADS)}
        expected.append({ReportKind.DIVERGENT_BARRIER} if len(meetings) > 1 else set())

    assert found == expected
    assert 0 < sum(map(bool, expected)) < KERNELS
