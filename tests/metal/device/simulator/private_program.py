"""Random Metal programs on a thread's own arrays, each with its meaning in NumPy."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

THREADS = 96
VALUES = 1024

Words = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]

HEAD = """#include <metal_stdlib>
using namespace metal;
struct Pair { uint p; float q[4]; };
struct Grid { uint at[3][4]; Pair pairs[4]; };
void bump(thread uint* p, uint i, uint v) { p[i] += v; }
void swap_words(thread uint& a, thread uint& b) { uint t = a; a = b; b = t; }
uint total(thread const uint (&p)[8], uint n) {
  uint t = 0;
  for (uint k = 0; k < n; ++k) t += p[k & 7] * (k + 1);
  return t;
}
void mix(thread Pair& s, uint j, uint v) { s.q[j & 3] += float(v & 15); s.p ^= v; }
uint weigh(Pair s, uint j) { return s.p + uint(s.q[j & 3]); }
"""
_SIGNATURE = """
kernel void {name}(const device uint* x [[buffer(0)]], device uint* y [[buffer(1)]],
    uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {{
  uint a[8] = {{1, 2, 3, 4, 5, 6, 7, 8}}, t = x[i];
  float m[3][4] = {{}};
  Pair s[4] = {{}};
  Grid g = {{}};
  uint4 w[3] = {{uint4(1), uint4(2), uint4(3)}};
  float3x4 f = float3x4(0.0f);
"""
_FINISH = """
  uint r = t;
  for (uint k = 0; k < 8; ++k) r = r * 31 + a[k];
  for (uint k = 0; k < 12; ++k) r = r * 31 + uint(m[k / 4][k % 4]);
  for (uint k = 0; k < 16; ++k) r = r * 31 + s[k / 4].p + uint(s[k / 4].q[k % 4]);
  for (uint k = 0; k < 12; ++k) r = r * 31 + g.at[k / 4][k % 4];
  for (uint k = 0; k < 16; ++k) r = r * 31 + weigh(g.pairs[k / 4], k);
  for (uint k = 0; k < 12; ++k) r = r * 31 + w[k / 4][k % 4] + uint(f[k / 4][k % 4]);
  y[i] = r;
}
"""

_SHAPES = {
    "a": (8,), "m": (3, 4), "s.p": (4,), "s.q": (4, 4), "at": (3, 4),
    "g.p": (4,), "g.q": (4, 4), "w": (3, 4), "f": (3, 4),
}  # fmt: skip


@dataclass
class State:
    """What all threads hold, thread by thread along the first axis."""

    x: Words

    def __post_init__(self) -> None:
        """Begin as the kernel does."""
        self.i = np.arange(THREADS, dtype=np.uint32)
        self.lane = self.i % 32
        self.t = self.x[:THREADS].copy()
        self.of: dict[str, Words] = {
            name: np.zeros((THREADS, *shape), np.uint32) for name, shape in _SHAPES.items()
        }
        self.of["a"] += np.arange(1, 9, dtype=np.uint32)
        self.of["w"] += np.arange(1, 4, dtype=np.uint32)[:, None]
        self.counters: dict[str, int] = {}

    def result(self) -> Words:
        """Return what the kernel writes."""
        r = self.t.copy()
        flat = {name: v.reshape(THREADS, -1) for name, v in self.of.items()}
        pairs = [np.repeat(flat[f"{n}.p"], 4, axis=1) + flat[f"{n}.q"] for n in "sg"]
        parts = [flat["a"], flat["m"], pairs[0], flat["at"], pairs[1], flat["w"] + flat["f"]]
        for part in parts:
            for k in range(part.shape[1]):
                r = r * np.uint32(31) + part[:, k]
        return r


@dataclass(frozen=True)
class Value:
    """An unsigned expression."""

    text: str
    of: Callable[[State], Words]


Effect = Callable[[State, Flags], None]


@dataclass(frozen=True)
class Statement:
    """A statement, and what it does to the threads that reach it."""

    text: str
    run: Effect


class Author:
    """Writes programs at random."""

    def __init__(self, seed: int) -> None:
        """Choose by a seed."""
        self._random = random.Random(seed)
        self._loops: list[str] = []

    def program(self, name: str, *, waits: bool) -> Statement:
        """Return a kernel; one that `waits` adds up over simdgroups on its way."""
        statements = [self._statement(0) for _ in range(self._random.randint(2, 4))]
        if waits:
            statements.insert(self._random.randrange(len(statements) + 1), _sum_up())
        body = "\n  ".join(s.text for s in statements)

        def run(state: State, mask: Flags) -> None:
            for statement in statements:
                statement.run(state, mask)

        return Statement(f"{_SIGNATURE.format(name=name)}  {body}\n{_FINISH}", run)

    def _value(self) -> Value:
        choices = [
            Value("lane", lambda s: s.lane),
            Value("t", lambda s: s.t),
            Value("x[i]", lambda s: s.x[:THREADS]),
            _constant(self._random.randrange(40)),
        ]
        for name in self._loops:
            choices += [_counter(name)] * 3
            choices.append(
                Value(f"x[{name}]", lambda s, n=name: _same(s.x[s.counters[n] % VALUES]))  # type: ignore[misc]
            )
            choices.append(
                Value(f"({name} + lane)", lambda s, n=name: _same(s.counters[n]) + s.lane)  # type: ignore[misc]
            )
        return self._random.choice(choices)

    def _index(self, size: int) -> Value:
        """Return an index below `size`."""
        v = self._value()
        operation = "&" if size & (size - 1) == 0 and self._random.random() < 0.7 else "%"
        by = size - 1 if operation == "&" else size
        return Value(f"({v.text} {operation} {by}u)", lambda s: v.of(s) % np.uint32(size))

    def _statement(self, depth: int) -> Statement:
        choice = self._random.random()
        if depth == 0 or (choice < 0.2 and depth < 2):
            return self._loop(depth)
        if choice < 0.35 and depth < 3:
            return self._branch(depth)
        return self._random.choice((self._assign, self._assign, self._call, self._read))()

    def _loop(self, depth: int) -> Statement:
        rounds = self._random.choice((3, 4, 5, 8, 12, 13, 17, 33, 40, 65))
        name = f"k{len(self._loops)}"
        self._loops.append(name)
        inner = [self._statement(depth + 1) for _ in range(self._random.randint(1, 2))]
        self._loops.pop()

        def run(state: State, mask: Flags) -> None:
            for k in range(rounds):
                state.counters[name] = k
                for statement in inner:
                    statement.run(state, mask)

        text = " ".join(s.text for s in inner)
        return Statement(f"for (uint {name} = 0; {name} < {rounds}; ++{name}) {{ {text} }}", run)

    def _branch(self, depth: int) -> Statement:
        v, modulus = self._value(), self._random.choice((2, 3, 5))
        one, other = self._statement(depth + 1), self._statement(depth + 1)

        def run(state: State, mask: Flags) -> None:
            taken = v.of(state) % np.uint32(modulus) == 1
            one.run(state, mask & taken)
            other.run(state, mask & ~taken)

        text = f"if ({v.text} % {modulus} == 1) {{ {one.text} }} else {{ {other.text} }}"
        return Statement(text, run)

    def _assign(self) -> Statement:
        """Add to an element of something, rarely of two at once."""
        kind = self._random.choice(("a", "m", "s.p", "s.q", "at", "g.p", "g.q", "w", "f"))
        first, second, v = self._index(_FIRST[kind]), self._index(4), self._value()
        is_float = kind in ("m", "s.q", "g.q", "f")
        added = f"float({v.text} & 15)" if is_float else f"({v.text})"
        place = _PLACE[kind].format(first.text, second.text)

        def run(state: State, mask: Flags) -> None:
            amount = v.of(state) & np.uint32(15) if is_float else v.of(state)
            _add(state.of[kind], mask, amount, first.of(state), second.of(state))

        return Statement(f"{place} += {added};", run)

    def _call(self) -> Statement:
        first, second, v = self._index(4), self._index(8), self._value()
        match self._random.randrange(5):
            case 0:
                return Statement(
                    f"bump(a, {second.text}, {v.text});",
                    lambda s, m: _add(s.of["a"], m, v.of(s), second.of(s), second.of(s)),
                )
            case 1:
                return Statement(
                    f"swap_words(a[{first.text}], a[{second.text}]);",
                    lambda s, m: _swap(s.of["a"], m, first.of(s), second.of(s)),
                )
            case 2:
                return Statement(
                    f"t += total(a, {second.text} * 5);",
                    lambda s, m: _total(s, m, second.of(s) * np.uint32(5)),
                )
            case 3:
                owner, name = self._random.choice((("s", "s"), ("g.pairs", "g")))
                return Statement(
                    f"mix({owner}[{first.text}], {second.text}, {v.text});",
                    lambda s, m: _mix(s, m, name, first.of(s), second.of(s), v.of(s)),
                )
            case _:
                return Statement(
                    f"bump(g.at[{first.text} % 3], {second.text} & 3, {v.text});",
                    lambda s, m: _add(
                        s.of["at"], m, v.of(s), first.of(s) % 3, second.of(s) & np.uint32(3)
                    ),
                )

    def _read(self) -> Statement:
        kind = self._random.choice(("a", "m", "s.p", "at", "g.q", "w", "f"))
        first, second = self._index(_FIRST[kind]), self._index(4)
        place = _PLACE[kind].format(first.text, second.text)

        def run(state: State, mask: Flags) -> None:
            held = state.of[kind]
            at = (np.arange(THREADS), first.of(state), second.of(state))[: held.ndim]
            state.t = np.where(mask, state.t * np.uint32(3) + held[at], state.t)

        return Statement(f"t = t * 3 + uint({place});", run)


_FIRST = {"a": 8, "m": 3, "s.p": 4, "s.q": 4, "at": 3, "g.p": 4, "g.q": 4, "w": 3, "f": 3}
_PLACE = {
    "a": "a[{0}]",
    "m": "m[{0}][{1}]",
    "s.p": "s[{0}].p",
    "s.q": "s[{0}].q[{1}]",
    "at": "g.at[{0}][{1}]",
    "g.p": "g.pairs[{0}].p",
    "g.q": "g.pairs[{0}].q[{1}]",
    "w": "w[{0}][{1}]",
    "f": "f[{0}][{1}]",
}


def _same(value: int | np.uint32) -> Words:
    return np.full(THREADS, value, np.uint32)


def _constant(value: int) -> Value:
    return Value(f"{value}u", lambda s: _same(value))


def _counter(name: str) -> Value:
    return Value(name, lambda s: _same(s.counters[name]))


def _add(held: Words, mask: Flags, amount: Words, first: Words, second: Words) -> None:
    at = (np.arange(THREADS), first, second)[: held.ndim]
    held[at] = np.where(mask, held[at] + amount, held[at])


def _swap(held: Words, mask: Flags, first: Words, second: Words) -> None:
    every = np.arange(THREADS)
    one, other = held[every, first].copy(), held[every, second].copy()
    held[every, first] = np.where(mask, other, one)
    held[every, second] = np.where(mask, one, held[every, second])


def _total(state: State, mask: Flags, count: Words) -> None:
    sum_ = _same(0)
    for k in range(int(count.max())):
        sum_ += np.where(k < count, state.of["a"][:, k & 7] * np.uint32(k + 1), np.uint32(0))
    state.t = np.where(mask, state.t + sum_, state.t)


def _mix(state: State, mask: Flags, name: str, pair: Words, j: Words, v: Words) -> None:
    _add(state.of[f"{name}.q"], mask, v & np.uint32(15), pair, j & np.uint32(3))
    held, every = state.of[f"{name}.p"], np.arange(THREADS)
    held[every, pair] = np.where(mask, held[every, pair] ^ v, held[every, pair])


def _sum_up() -> Statement:
    def run(state: State, mask: Flags) -> None:
        sums = state.t.reshape(-1, 32).sum(axis=1, dtype=np.uint32)
        state.t = np.repeat(sums, 32) + state.of["a"][np.arange(THREADS), state.lane & 7]

    return Statement("t = simd_sum(t) + a[lane & 7];", run)
