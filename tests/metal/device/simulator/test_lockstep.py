"""What lanes do apart is counted as a simdgroup does it together, whatever they wait for."""

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelwright.metal.device import simulator
from kernelwright.metal.device.simulator import Library

_LANES = np.arange(32)
_SIZE = 4096
_PROGRAMS = range(12)
_WAITS = ("", "simdgroup_barrier(mem_flags::mem_none);", "s += simd_sum(s) * 0;")
Mask = NDArray[np.bool_]


@dataclass
class _Issued:
    """What a simdgroup issues, by a reference that runs all lanes at once under masks."""

    reads: int = 0
    writes: int = 0
    bytes_read: int = 0


@dataclass
class _Program:
    """A random kernel: its text, and the masks under which each of its statements runs."""

    random: random.Random
    places: int = 0
    left: int = 0

    def block(self, depth: int, loops: tuple[str, ...]) -> "_Block":
        if depth == 0:
            self.left = 12
        return _Block([self._statement(depth, loops) for _ in range(self.random.randint(1, 3))])

    def condition(self, loops: tuple[str, ...]) -> "_Condition":
        draw = self.random
        return _Condition(
            draw.choice((1, 3, 5, 7)),
            tuple((name, draw.randint(1, 5)) for name in loops),
            draw.choice((2, 3, 8, 32)),
            draw.choice((1, 1, 2)),
        )

    def _statement(self, depth: int, loops: tuple[str, ...]) -> "_Statement":
        kinds = ["read", "write"]
        self.left -= 1
        if depth < 3 and self.left > 0:
            kinds += ["if", "if", "for"]
        if loops:
            kinds += ["break", "continue"]
        kind = self.random.choice(kinds)
        self.places += 1
        if kind in ("read", "write"):
            return _Access(self.places, loops, is_write=kind == "write")
        if kind in ("break", "continue"):
            return _Jump(self.condition(loops), kind)
        if kind == "if":
            return _If(self.condition(loops), self.block(depth + 1, loops))
        name = f"k{self.places}"
        return _For(
            name,
            self.random.randint(1, 5),
            self.random.choice((1, 2, 6)),
            self.block(depth + 1, (*loops, name)),
        )


@dataclass
class _State:
    lanes: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    issued: _Issued = field(default_factory=_Issued)
    broken: Mask = field(default_factory=lambda: np.zeros(32, bool))
    continued: Mask = field(default_factory=lambda: np.zeros(32, bool))


@dataclass
class _Condition:
    factor: int
    loops: tuple[tuple[str, int], ...]
    modulus: int
    below: int

    @property
    def text(self) -> str:
        terms = [f"lane * {self.factor}", *(f"{name} * {f}" for name, f in self.loops)]
        return f"({' + '.join(terms)}) % {self.modulus} < {self.below}"

    def holds(self, state: _State) -> Mask:
        value = _LANES * self.factor + sum(state.lanes[name] * f for name, f in self.loops)
        return value % self.modulus < self.below


class _Statement:
    text: str

    def run(self, state: _State, mask: Mask) -> Mask:
        """Return the lanes that go on."""
        raise NotImplementedError


@dataclass
class _Block(_Statement):
    statements: list[_Statement]

    @property
    def text(self) -> str:  # type: ignore[override]
        return "\n".join(s.text for s in self.statements)

    def run(self, state: _State, mask: Mask) -> Mask:
        for statement in self.statements:
            mask = statement.run(state, mask)
        return mask


@dataclass
class _Access(_Statement):
    place: int
    loops: tuple[str, ...]
    is_write: bool

    @property
    def text(self) -> str:  # type: ignore[override]
        terms = "".join(f" + {name} * {37 + i}" for i, name in enumerate(self.loops))
        index = f"8 * ((lane + {self.place * 29}{terms}) % {_SIZE // 8})"
        return f"y[{index}] = s;" if self.is_write else f"s += x[{index}];"

    def run(self, state: _State, mask: Mask) -> Mask:
        if mask.any() and self.is_write:
            state.issued.writes += 1
        elif mask.any():
            state.issued.reads += 1
            state.issued.bytes_read += 4 * int(mask.sum())
        return mask


@dataclass
class _Jump(_Statement):
    condition: _Condition
    kind: str

    @property
    def text(self) -> str:  # type: ignore[override]
        return f"if ({self.condition.text}) {self.kind};"

    def run(self, state: _State, mask: Mask) -> Mask:
        leaving = mask & self.condition.holds(state)
        if self.kind == "break":
            state.broken |= leaving
        else:
            state.continued |= leaving
        return mask & ~leaving


@dataclass
class _If(_Statement):
    condition: _Condition
    then: _Block

    @property
    def text(self) -> str:  # type: ignore[override]
        return f"if ({self.condition.text}) {{\n{self.then.text}\n}}"

    def run(self, state: _State, mask: Mask) -> Mask:
        holds = self.condition.holds(state)
        return self.then.run(state, mask & holds) | (mask & ~holds)


@dataclass
class _For(_Statement):
    name: str
    rounds: int
    spread: int
    body: _Block

    @property
    def text(self) -> str:  # type: ignore[override]
        end = f"{self.rounds} + lane % {self.spread}"
        head = f"for (uint {self.name} = 0; {self.name} < {end}; {self.name}++)"
        return f"{head} {{\n{self.body.text}\n}}"

    def run(self, state: _State, mask: Mask) -> Mask:
        outer = state.broken, state.continued
        state.broken = np.zeros(32, bool)
        running = mask
        for k in range(self.rounds + self.spread):
            state.lanes[self.name] = np.full(32, k)
            running = running & (k < self.rounds + _LANES % self.spread)
            state.continued = np.zeros(32, bool)
            running = self.body.run(state, running) | state.continued
        state.broken, state.continued = outer
        return mask


def _program(seed: int) -> _Block:
    draw = random.Random(seed)
    program = _Program(draw)
    return _Block([program.block(0, ()), program.block(0, ()), program.block(0, ())])


def _kernel(seed: int, wait: int) -> str:
    parts = f"\n{_WAITS[wait]}\n".join(s.text for s in _program(seed).statements)
    return f"""
kernel void k{seed}_{wait}(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
                     uint lane [[thread_index_in_simdgroup]]) {{
  float s = 0;
{parts}
  y[8 * lane + 1] = s;
}}
"""


@pytest.fixture(scope="module")
def library() -> Library:
    kernels = "".join(_kernel(seed, wait) for seed in _PROGRAMS for wait in range(len(_WAITS)))
    text = f"#include <metal_stdlib>\nusing namespace metal;\n{kernels}"
    return simulator.compile(text, variant="count")


@pytest.mark.parametrize("wait", range(len(_WAITS)), ids=["runs through", "barrier", "operation"])
@pytest.mark.parametrize("seed", _PROGRAMS)
def test_random_branches_and_loops_are_counted_in_lockstep(
    library: Library, seed: int, wait: int
) -> None:
    state = _State()
    _program(seed).run(state, np.ones(32, bool))
    x, y = np.ones(_SIZE, np.float32), np.zeros(_SIZE, np.float32)

    counters = (
        library.kernel(f"k{seed}_{wait}")
        .launch([x, y], grid=(64, 1, 1), threadgroup=(64, 1, 1), count=True)
        .counters
    )

    assert counters is not None
    of_x, of_y = counters.buffers
    found = _Issued(of_x.reads // 2, of_y.writes // 2 - 1, of_x.bytes_read // 2)
    assert found == state.issued


def test_lanes_that_fill_their_logs_at_different_times_stay_in_step() -> None:
    text = """
#include <metal_stdlib>
using namespace metal;
kernel void k(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
              uint lane [[thread_index_in_simdgroup]]) {
  float s = 0;
  for (uint k = 0; k < 1000; k++) {
    s += x[(k * 32 + lane) & 4095];
    if (lane == 0) y[k] = s;
    if (lane % (k % 5 + 1) == 0) y[(k * 3) & 4095] = s;
  }
}
"""
    x, y = np.ones(_SIZE, np.float32), np.zeros(_SIZE, np.float32)

    kernel = simulator.compile(text).kernel("k")
    counted = kernel.launch([x, y], grid=(32, 1, 1), threadgroup=(32, 1, 1), count=True)

    assert counted.counters is not None
    of_x, of_y = counted.counters.buffers
    assert (of_x.reads, of_x.sectors_read, of_y.writes) == (1000, 4000, 2000)


_CALLS = """
#include <metal_stdlib>
using namespace metal;
INLINED float walk(const device float* x, uint a, uint n) {
  float s = 0;
  for (uint k = 0; k < n; k++) {
    s += x[(a + 8 * k) & 4095];
    if (k == 3 && s > 1e9f) break;
    if (a & 1) s += x[(a * 8 + 64 * k + 4) & 4095];
  }
  return s;
}
kernel void k(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
              uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  float s = walk(x, i, 5);
  if (lane & 1) s += walk(x, i + 64, 3 + lane % 4);
  for (uint q = 0; q < 3 + lane % 3; q++) {
    s += walk(x, i + q * 64, 2 + lane % 5);
    if (lane == q) y[q * 64] = s;
  }
  y[i] = s + walk(x, i * 8, 4);
}
"""


def test_functions_that_are_called_count_as_those_that_are_inlined() -> None:
    found = []
    for attribute in ("inline", "__attribute__((noinline))"):
        x, y = np.ones(_SIZE, np.float32), np.zeros(_SIZE, np.float32)
        kernel = simulator.compile(f"#define INLINED {attribute}\n{_CALLS}").kernel("k")
        counted = kernel.launch([x, y], grid=(64, 1, 1), threadgroup=(64, 1, 1), count=True)
        assert counted.counters is not None
        found.append(
            [
                (b.reads, b.writes, b.sectors_read, b.sectors_written)
                for b in counted.counters.buffers
            ]
        )

    assert found[0] == found[1]
