"""Loops that store where running counts say, eight rounds at a time.

A partition or a compaction (`out[place] = x; place += keeps(x)`) hands a count from round to round,
and stores to places that only the count knows. Processors without scattered stores still compute
eight of the places at once, from a prefix sum of what each round adds; only the stores themselves
follow one by one, in their order.
"""

import re

from kernelwright.metal.device.simulator.wide.assembly import (
    NAME,
    Block,
    Function,
    Instruction,
    Module,
    UnknownAssemblyError,
)
from kernelwright.metal.device.simulator.wide.counting import (
    BINARY,
    CAST,
    ELEMENT,
    LOAD,
    SELECT,
    WIDTH,
    Count,
    CountingLoop,
    counting_loop,
)
from kernelwright.metal.device.simulator.wide.opposite import hidden
from kernelwright.metal.device.simulator.wide.origin import Origins

_SHIFTS = ((8, 0, 1, 2, 8, 4, 5, 6), (8, 8, 0, 1, 8, 8, 4, 5), (8, 8, 8, 8, 3, 3, 3, 3))
"""A sum of two halves of 128 bits, across which few processors shift, and of the first's last."""
_LAST = WIDTH - 1


def with_prefix_sums(function: Function, module: Module, attached: str) -> Function:
    """Return a function whose counting loops have become their rounds, eight at a time.

    The jump onward from each gets `attached`.
    """
    blocks = [Block(b.label, list(b.instructions)) for b in function.blocks]
    written = Function(function.name, function.parameters, blocks, function.attributes)
    origins = Origins(module, function)
    for block in blocks:
        loop = counting_loop(written, block, origins)
        if loop is not None:
            _Writer(loop).write(attached)
    return written


class _Writer:
    """Writes a loop's rounds one behind the other in its place."""

    def __init__(self, loop: CountingLoop) -> None:
        self._loop = loop
        self._lines: list[Instruction] = []
        self._first = 0
        """The first of the eight rounds at hand."""
        self._wide: dict[str, str] = {}
        """Vectors of the eight rounds at hand."""
        self._splats: dict[str, str] = {}

    def write(self, attached: str) -> None:
        """Write; the jump onward gets what is attached."""
        loop, block = self._loop, self._loop.block
        for first in range(0, loop.count, WIDTH):
            self._first, self._wide = first, {}
            for number in range(WIDTH):
                self._round(number)
            if first + WIDTH < loop.count:
                for count in loop.counts.values():
                    self._carry(count)
        # The vectors at hand are those of the last rounds.
        for name in sorted(loop.left):
            self._element(self._eight(loop.wide[name], name), loop.wide[name], _LAST, name)
        onward = Instruction(f"br label {loop.leads_to}{attached}")
        block.instructions[:] = [*self._phis(), *self._lines, onward]

    def _phis(self) -> list[Instruction]:
        """Return what the counts begin with."""
        return [
            Instruction(f"phi {c.type_} [ {c.first}, {c.before} ]", c.name)
            for c in self._loop.counts.values()
        ]

    def _round(self, number: int) -> None:
        """Write what one of the eight rounds does by itself."""
        loop, round_ = self._loop, self._first + number
        alone = loop.alone
        names = {i.result: f"{i.result}.round{round_}" for i in alone if i.result}
        names[loop.rounds] = str(round_)
        stored = {o for i in alone if i.operation == "store" for o in i.operands}

        def renamed(found: re.Match[str]) -> str:
            name = found[0]
            if name in loop.wide and name not in names:
                type_, result = loop.wide[name], f"{name}.round{round_}"
                take = self._element if name in stored or type_ != "i32" else self._half
                names[name] = take(self._eight(type_, name), type_, number, result)
            return names.get(name, name)

        for i in alone:
            self._line(NAME.sub(renamed, i.text), names.get(i.result, ""))

    def _eight(self, type_: str, value: str) -> str:
        """Return a value of all eight rounds, computed where it is first asked for."""
        if value == self._loop.rounds:
            rounds = (f"{type_} {self._first + n}" for n in range(WIDTH))
            return f"<{', '.join(rounds)}>"
        if value in self._loop.wide:
            if value not in self._wide:
                name = f"{value}.wide{self._first}"
                self._wide[value] = self._widen(self._loop.definitions[value], name)
            return self._wide[value]
        return self._splat(type_, value) if value[0] == "%" else f"splat ({type_} {value})"

    def _widen(self, i: Instruction, name: str) -> str:
        text, type_ = i.text, _vector(self._loop.wide[i.result])
        if count := self._loop.counts.get(i.result):
            first = self._splat(count.type_, i.result)
            sums, own = self._sums(count), self._eight(count.type_, count.amount)
            before = self._line(f"sub {type_} {sums}, {own}", f"{name}.before")
            return self._line(f"{count.operation} {type_} {first}, {before}", name)
        if found := LOAD.fullmatch(text):
            place = ELEMENT.fullmatch(self._loop.definitions[found[2]].text)
            if place is None:
                raise UnknownAssemblyError(text)
            at = f"getelementptr {place[1]}, ptr {place[2]}, i64 {self._first}"
            self._line(at, f"{name}.at")
            return self._line(f"load {type_}, ptr {name}.at, {found[3]}", name)
        if found := BINARY.fullmatch(text):
            a, b = (self._eight(found[2], found[n]) for n in (3, 4))
            return self._line(f"{found[1]} {_vector(found[2])} {a}, {b}", name)
        if found := CAST.fullmatch(text):
            given = self._eight(found[2], found[3])
            return self._line(f"{found[1]} {_vector(found[2])} {given} to {type_}", name)
        found = SELECT.fullmatch(text)
        if found is None:
            raise UnknownAssemblyError(text)
        condition = f"{_vector('i1')} {self._eight('i1', found[1])}"
        a, b = (self._eight(found[2], found[n]) for n in (3, 5))
        return self._line(f"select {condition}, {type_} {a}, {type_} {b}", name)

    def _sums(self, count: Count) -> str:
        """Return the sums of what the eight rounds add, each one's own included."""
        key = f"{count.amount}.sums"
        if key not in self._wide:
            sums, vector = self._eight(count.type_, count.amount), _vector(count.type_)
            for number, places in enumerate(_SHIFTS):
                name = f"{key}{self._first}.{number}"
                given = f"{vector} {sums}, {vector} zeroinitializer"
                self._line(f"shufflevector {given}, {_mask(places)}", f"{name}.moved")
                sums = self._line(f"add {vector} {sums}, {name}.moved", name)
            self._wide[key] = sums
        return self._wide[key]

    def _carry(self, count: Count) -> None:
        """Hand a count to the next eight rounds, in all elements of a vector."""
        first, vector = self._splat(count.type_, count.name), _vector(count.type_)
        sums, name = self._sums(count), f"{count.name}.next{self._first}"
        self._line(
            f"shufflevector {vector} {sums}, {vector} poison, {_mask((_LAST,) * WIDTH)}",
            f"{name}.total",
        )
        text = f"{count.operation} {vector} {first}, {name}.total"
        self._splats[count.name] = self._line(text, name)

    def _splat(self, type_: str, value: str) -> str:
        if value not in self._splats:
            name, vector = f"{value}.in{self._loop.rounds[1:]}", _vector(type_)
            self._line(f"insertelement {vector} poison, {type_} {value}, i64 0", f"{name}.first")
            given = f"{vector} {name}.first, {vector} poison"
            self._splats[value] = self._line(f"shufflevector {given}, {_mask((0,) * WIDTH)}", name)
        return self._splats[value]

    def _element(self, vector: str, type_: str, number: int, result: str) -> str:
        return self._line(f"extractelement {_vector(type_)} {vector}, i64 {number}", result)

    def _half(self, vector: str, _type: str, number: int, result: str) -> str:
        """Take an element out of two, which leave a vector together."""
        key = f"{vector}.two{number // 2}"
        if key not in self._wide:
            pairs = f"<{WIDTH // 2} x i64>"
            self._line(f"bitcast {_vector('i32')} {vector} to {pairs}", f"{key}.pairs")
            self._line(f"extractelement {pairs} {key}.pairs, i64 {number // 2}", f"{key}.shown")
            self._wide[key] = self._line(hidden("i64", f"{key}.shown"), key)
        word = self._line(f"lshr i64 {key}, 32", f"{result}.high") if number % 2 else key
        return self._line(f"trunc i64 {word} to i32", result)

    def _line(self, text: str, result: str = "") -> str:
        self._lines.append(Instruction(text, result))
        return result


def _vector(type_: str) -> str:
    return f"<{WIDTH} x {type_}>"


def _mask(places: tuple[int, ...]) -> str:
    return f"{_vector('i32')} <{', '.join(f'i32 {place}' for place in places)}>"
