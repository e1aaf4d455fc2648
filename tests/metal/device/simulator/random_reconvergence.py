"""Random kernels whose lanes part around simdgroup operations, and an interpreter in lockstep.

The interpreter runs all lanes of a simdgroup at once under a mask: a branch with those that take
it, a loop until no lane is left in it. An operation is one of the lanes in the mask.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Lanes = NDArray[np.uint32]
Mask = NDArray[np.bool_]
LANES = 32
HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
_BITS: Lanes = np.uint32(1) << np.arange(LANES, dtype=np.uint32)
_OPERATIONS: dict[str, Callable[[Lanes, Mask], Lanes]] = {
    "simd_sum({})": lambda v, m: np.full(LANES, v[m].sum(dtype=np.uint32)),
    "simd_max({})": lambda v, m: np.full(LANES, v[m].max()),
    "simd_prefix_exclusive_sum({})": lambda v, m: np.cumsum(
        np.concatenate((np.zeros(1, np.uint32), np.where(m, v, 0)[:-1])), dtype=np.uint32
    ),
    "simd_broadcast_first({})": lambda v, m: np.full(LANES, v[m][0]),
    "uint(ulong(simd_ballot({} & 1)))": lambda v, m: np.full(
        LANES, np.bitwise_or.reduce(np.where(m & (v & 1 == 1), _BITS, 0).astype(np.uint32))
    ),
    "uint(ulong(simd_active_threads_mask())) + 0 * {}": lambda v, m: np.full(
        LANES, np.bitwise_or.reduce(np.where(m, _BITS, 0).astype(np.uint32))
    ),
}


@dataclass
class State:
    """Lanes of a simdgroup: `v`, the counters of loops, and who has left what."""

    v: Lanes
    counters: dict[str, Lanes] = field(default_factory=dict)
    broken: Mask = field(default_factory=lambda: np.zeros(LANES, bool))
    continued: Mask = field(default_factory=lambda: np.zeros(LANES, bool))
    returned: Mask = field(default_factory=lambda: np.zeros(LANES, bool))


class Statement:
    """A statement of a program."""

    def lines(self) -> Iterator[str]:
        """Yield its text."""
        raise NotImplementedError

    def run(self, state: State, mask: Mask) -> Mask:
        """Run it for the lanes of a mask; return those that go on."""
        raise NotImplementedError


@dataclass(frozen=True)
class Condition:
    """A test of a lane's value, number and innermost counter."""

    shift: int
    mask: int
    below: int
    of_lane: bool
    counter: str

    @property
    def text(self) -> str:
        """Return the expression."""
        value = "l" if self.of_lane else "v"
        counter = f" + {self.counter}" if self.counter else ""
        return f"((({value} >> {self.shift}){counter}) & {self.mask}u) < {self.below}u"

    def holds(self, state: State) -> Mask:
        """Return the lanes for which it does."""
        value = np.arange(LANES, dtype=np.uint32) if self.of_lane else state.v
        counter = state.counters[self.counter] if self.counter else np.uint32(0)
        return (((value >> np.uint32(self.shift)) + counter) & np.uint32(self.mask)) < self.below


@dataclass(frozen=True)
class Operation(Statement):
    """Each lane's value becomes another by what the lanes in the mask have together."""

    call: str
    factor: int

    def lines(self) -> Iterator[str]:
        yield f"v = v * {self.factor}u + {self.call.format('v')};"

    def run(self, state: State, mask: Mask) -> Mask:
        if mask.any():
            found = state.v * np.uint32(self.factor) + _OPERATIONS[self.call](state.v, mask)
            state.v = np.where(mask, found, state.v)
        return mask


@dataclass(frozen=True)
class Block(Statement):
    """One after the other."""

    statements: tuple[Statement, ...]

    def lines(self) -> Iterator[str]:
        for statement in self.statements:
            yield from statement.lines()

    def run(self, state: State, mask: Mask) -> Mask:
        for statement in self.statements:
            mask = statement.run(state, mask)
        return mask


@dataclass(frozen=True)
class Choice(Statement):
    """Two ways, which meet behind them."""

    condition: Condition
    then: Block
    other: Block

    def lines(self) -> Iterator[str]:
        yield from (f"if ({self.condition.text}) {{", *self.then.lines())
        yield from ("} else {", *self.other.lines(), "}")

    def run(self, state: State, mask: Mask) -> Mask:
        holds = self.condition.holds(state)
        return self.then.run(state, mask & holds) | self.other.run(state, mask & ~holds)


@dataclass(frozen=True)
class Switch(Statement):
    """Cases by two bits of the value, of which the first falls through to the second."""

    cases: tuple[Block, Block, Block]

    def lines(self) -> Iterator[str]:
        yield from ("switch (v & 3u) {", "case 0u: {", *self.cases[0].lines(), "}")
        yield from ("case 1u: {", *self.cases[1].lines(), "break; }")
        yield from ("default: {", *self.cases[2].lines(), "} }")

    def run(self, state: State, mask: Mask) -> Mask:
        number = state.v & np.uint32(3)
        first = self.cases[0].run(state, mask & (number == 0))
        second = self.cases[1].run(state, first | (mask & (number == 1)))
        return second | self.cases[2].run(state, mask & (number > 1))


@dataclass(frozen=True)
class Jump(Statement):
    """Leaves a round, a loop or the function, after what the lanes that leave do on their way."""

    condition: Condition
    kind: str
    before: Block

    def lines(self) -> Iterator[str]:
        yield from (f"if ({self.condition.text}) {{", *self.before.lines(), f"{self.kind}; }}")

    def run(self, state: State, mask: Mask) -> Mask:
        leaving = mask & self.condition.holds(state)
        left = self.before.run(state, leaving)
        if self.kind.startswith("return"):
            state.returned |= left
        elif self.kind == "break":
            state.broken |= left
        else:
            state.continued |= left
        return mask & ~leaving


@dataclass(frozen=True)
class Loop(Statement):
    """At most so many rounds of any form, a number of its own for each lane."""

    name: str
    form: str
    rounds: int
    spread: int
    body: Block

    @property
    def _limit(self) -> str:
        return f"{self.rounds}u + l % {self.spread}u"

    def lines(self) -> Iterator[str]:
        k, limit = self.name, self._limit
        if self.form == "for":
            yield from (f"for (uint {k} = 0; {k} < {limit}; {k}++) {{", *self.body.lines(), "}")
        elif self.form == "while":
            yield from ("{", f"uint {k} = ~0u;", f"while (++{k} < {limit}) {{")
            yield from (*self.body.lines(), "} }")
        elif self.form == "endless":
            yield from (f"for (uint {k} = 0;; {k}++) {{", f"if ({k} >= {limit}) break;")
            yield from (*self.body.lines(), "}")
        else:
            yield from ("{", f"uint {k} = 0;", "do {", *self.body.lines())
            yield f"}} while (++{k} < {limit}); }}"

    def run(self, state: State, mask: Mask) -> Mask:
        outer = state.broken, state.continued
        state.broken = np.zeros(LANES, bool)
        limit = self.rounds + np.arange(LANES) % self.spread
        running = mask
        for k in range(self.rounds + self.spread):
            if k > 0 or self.form != "do":
                running = running & (k < limit)
            state.counters[self.name] = np.full(LANES, k, np.uint32)
            state.continued = np.zeros(LANES, bool)
            running = self.body.run(state, running) | state.continued
        left = running | state.broken | (mask & ~state.returned)
        state.broken, state.continued = outer
        return left & ~state.returned


@dataclass(frozen=True)
class Waterfall(Statement):
    """Rounds in which the lanes leave that hold what the first of them holds."""

    bits: int
    inside: Block
    breaks: bool

    def lines(self) -> Iterator[str]:
        same = f"if ((v & {self.bits}u) == simd_broadcast_first(v & {self.bits}u)) {{"
        if self.breaks:
            yield from ("for (;;) {", same, *self.inside.lines(), "break; } }")
        else:
            yield from ("{ bool is_done = false;", "while (!is_done) {", same)
            yield from (*self.inside.lines(), "is_done = true; } } }")

    def run(self, state: State, mask: Mask) -> Mask:
        left, rest = np.zeros(LANES, bool), mask
        while rest.any():
            key = state.v & np.uint32(self.bits)
            same = rest & (key == key[rest][0])
            left |= self.inside.run(state, same)
            rest = rest & ~same
        return left


@dataclass(frozen=True)
class Call(Statement):
    """A call of a function that stands above all kernels."""

    name: str
    body: Block

    def lines(self) -> Iterator[str]:
        yield f"v = {self.name}(v, l);"

    def definition(self) -> str:
        """Return the function's text."""
        lines = "\n".join(self.body.lines())
        return f"inline uint {self.name}(uint v, uint l) {{\n{lines}\nreturn v;\n}}\n"

    def run(self, state: State, mask: Mask) -> Mask:
        outer = state.broken, state.continued, state.returned
        state.returned = np.zeros(LANES, bool)
        self.body.run(state, mask)
        state.broken, state.continued, state.returned = outer
        return mask


class Writer:
    """Draws programs."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._seed, self._number, self._left = seed, 0, 14
        functions = [self._function() for _ in range(2)]
        self.functions = [Call(f"f{seed}_{n}", body) for n, body in enumerate(functions)]
        self._left = 14
        self.body = self._block(3, "", "return y[i] = v, void()", calls=self.functions)

    def text(self) -> str:
        """Return the kernel with the functions that it calls above it."""
        lines = "\n".join(self.body.lines())
        return f"""{"".join(f.definition() for f in self.functions)}
kernel void k{self._seed}(const device uint* x [[buffer(0)]], device uint* y [[buffer(1)]],
    uint i [[thread_position_in_grid]], uint l [[thread_index_in_simdgroup]]) {{
uint v = x[i];
{lines}
y[i] = v;
}}
"""

    def run(self, x: Lanes) -> Lanes:
        """Return what the kernel writes for the lanes that a simdgroup has."""
        state = State(np.resize(x, LANES).copy())
        self.body.run(state, np.arange(LANES) < x.size)
        return state.v[: x.size]

    def _function(self) -> Block:
        self._left = 4
        return self._block(2, "", "return v", calls=[])

    def _block(self, depth: int, counter: str, leave: str, calls: list[Call]) -> Block:
        count = self._random.randint(1, 3)
        return Block(tuple(self._statement(depth, counter, leave, calls) for _ in range(count)))

    def _condition(self, counter: str) -> Condition:
        mask = self._random.choice((1, 3, 7, 31))
        return Condition(
            self._random.randint(0, 3),
            mask,
            self._random.randint(1, mask),
            self._random.random() < 0.5,
            counter if self._random.random() < 0.5 else "",
        )

    def _operation(self) -> Operation:
        call = self._random.choice(list(_OPERATIONS))
        return Operation(call, self._random.choice((1, 3, 5)))

    def _statement(self, depth: int, counter: str, leave: str, calls: list[Call]) -> Statement:
        self._left -= 1
        self._number += 1
        kinds = ["operation", "operation"] + ["call"] * bool(calls)
        if depth and self._left > 0:
            kinds += ["choice", "choice", "loop", "loop", "waterfall", "switch", "leave"]
        if depth and counter:
            kinds += ["break", "continue", "continue"]
        kind = self._random.choice(kinds)

        def block(counter: str = counter) -> Block:
            return self._block(depth - 1, counter, leave, calls)

        def straight() -> Block:
            some = (self._operation() for _ in range(self._random.randint(0, 2)))
            return Block(tuple(some))

        if kind == "operation":
            return self._operation()
        if kind == "call":
            return self._random.choice(calls)
        if kind == "choice":
            other = block() if self._random.random() < 0.5 else Block(())
            return Choice(self._condition(counter), block(), other)
        if kind == "switch":
            # A `break` would leave the switch.
            first, second, third = straight(), straight(), straight()
            return Switch((first, second, third))
        if kind == "waterfall":
            inside = Block((self._operation(), *straight().statements))
            return Waterfall(self._random.choice((1, 3)), inside, self._random.random() < 0.5)
        if kind in ("break", "continue"):
            return Jump(self._condition(counter), kind, straight())
        if kind == "leave":
            return Jump(self._condition(counter), leave, straight())
        name = f"k{self._number}"
        form = self._random.choice(("for", "while", "endless", "do"))
        rounds, spread = self._random.randint(1, 3), self._random.choice((1, 2, 5))
        return Loop(name, form, rounds, spread, block(name))
