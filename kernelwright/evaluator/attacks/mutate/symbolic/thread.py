"""Runs one thread of a kernel up to where it waits for others; data is unknown to it."""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from kernelwright.evaluator.attacks.mutate.symbolic.flow import join_of
from kernelwright.evaluator.attacks.mutate.symbolic.listing import (
    Function,
    Instruction,
    constant,
    lanes_of,
    operands,
    parsed,
    phi_sources,
    size_of,
    typed,
    width_of,
)
from kernelwright.evaluator.attacks.mutate.symbolic.memory import (
    Memory,
    Pointer,
    number_of,
    pointer_of,
)
from kernelwright.evaluator.attacks.mutate.symbolic.operation import (
    CONVERSIONS,
    applied,
    by_lanes,
    called,
    retyped,
)
from kernelwright.evaluator.attacks.mutate.symbolic.term import (
    Term,
    UnprovenError,
    Value,
    added,
    chosen,
    converted,
    negated,
    scaled,
    unknown,
)
from kernelwright.evaluator.attacks.mutate.symbolic.wait import Budget, UndecidedError, Wait, Waits

_CALL = re.compile(r'(.*?)@("[^"]*"|[\w.$-]+)\((.*)\)')
_DEEPEST = 16
_IGNORED = ("llvm.assume", "llvm.lifetime", "llvm.experimental.noalias", "llvm.dbg")
_Environment = dict[str, object]


@dataclass
class Thread:
    """One thread, whose memory holds what it has written since it last met others."""

    function: Function
    memory: Memory
    fields: Mapping[int, Value]
    """The 32-bit words that attributes are read from, by their bytes."""
    budget: Budget
    decisions: Mapping[Term, bool]
    known: _Environment = field(default_factory=dict)
    depth: int = 0
    """How many conditions on data are around what runs."""

    def run(self) -> Waits:
        """Run to the end, giving each wait to whoever drives the threads."""
        buffers, attributes = self.function.arguments[:2]
        self.known[buffers] = Pointer("buffers", 0)
        self.known[attributes] = Pointer("thread", 0)
        yield from self._run(self.function.entry, "", "")
        return ""

    def _run(self, label: str, before: str, until: str) -> Waits:
        """Run from a block to another, or to the end; return the block before that one."""
        while label != until:
            instructions = self.function.blocks[label]
            self._enter(label, before)
            for instruction in instructions[:-1]:
                self.budget.take()
                if instruction.name == "phi":
                    continue
                if instruction.name == "call" and "@kw_" in instruction.text:
                    yield from self._waiting(instruction)
                else:
                    self._step(instruction)
            label, before = yield from self._leave(label, instructions[-1])
        return before

    def _enter(self, label: str, before: str) -> None:
        """Give a block's first values what the edge to it carries."""
        found: _Environment = {}
        for instruction in self.function.blocks[label]:
            if instruction.name != "phi":
                break
            kind, sources = phi_sources(instruction.text)
            if before in sources:
                found[instruction.result] = self._value(kind, sources[before])
        self.known.update(found)

    def _leave(self, label: str, last: Instruction) -> Generator[Wait, None, tuple[str, str]]:
        """Return the next block and the one before it."""
        self.budget.take()
        ways = self.function.successors(label)
        if last.name == "ret":
            return "", label
        if last.name == "br" and len(ways) == 1:
            return ways[0], label
        if last.name != "br":
            raise UnprovenError(f"it ends a block with {last.name}.")
        condition = number_of(self._value("i1", operands(last.text)[0].removeprefix("i1 ")))
        if isinstance(condition, Term) and condition.name == "not":
            condition, ways = negated(condition), ways[::-1]
        if isinstance(condition, Term):
            if condition not in self.decisions:
                return (yield from self._both(condition, label, ways))
            condition = int(self.decisions[condition])
        return ways[0 if condition else 1], label

    def _both(
        self, condition: Term, label: str, ways: tuple[str, ...]
    ) -> Generator[Wait, None, tuple[str, str]]:
        """Run both sides of a condition on data up to where they meet, and join what they made."""
        meeting = join_of(self.function, label)
        if self.depth == _DEEPEST:
            raise UnprovenError("how often a loop turns hangs on data.")
        self.depth += 1
        # Both sides have values of their own, which are joined one by one.
        self.budget.take(len(self.known) // 8)
        states = []
        start, memory = self.known, self.memory
        for way, is_met in zip(ways, (True, False), strict=True):
            self.known, self.memory = dict(start), memory.copy()
            before = yield from self._under(condition, is_met, self._run(way, label, meeting))
            if meeting:
                self._enter(meeting, before)
            states.append((self.known, self.memory))
        (first, one), (second, other) = states
        self.known = {}
        for name in first.keys() & second.keys():
            # What differs and cannot be joined is of one side alone.
            with suppress(UnprovenError):
                self.known[name] = chosen(condition, first[name], second[name])
        self.memory = memory
        memory.join(condition, one, other)
        self.depth -= 1
        return meeting, _JOINED

    def _under(self, condition: Term, is_met: bool, steps: Waits) -> Waits:
        """Run one side, on which lanes may work together if all of them are there or none."""
        while True:
            try:
                wait = next(steps)
            except StopIteration as end:
                before: str = end.value
                return before
            if wait.kind == "barrier":
                raise UndecidedError(condition)
            yield replace(wait, under=((condition, is_met), *wait.under))

    def _waiting(self, instruction: Instruction) -> Generator[Wait, None, None]:
        call = _CALL.match(instruction.text)
        if call is None:
            raise UnprovenError("it calls what it computes.")
        name, arguments = call[2], [self._value(*typed(text)) for text in operands(call[3])]
        if name == "kw_threadgroup_alloc":
            self.known[instruction.result] = Pointer(f"threadgroup {arguments[0]}", 0)
        elif name == "kw_barrier":
            yield Wait("barrier", _all_known(arguments))
        elif name == "kw_simdgroup":
            source, size, target, wanted, combine, place = arguments
            detail = _all_known([size, wanted, place])
            published = self.memory.within(pointer_of(source), detail[0])
            yield Wait(pointer_of(combine).base, detail, published, pointer_of(target))
        elif name in self.function.pure:
            self._step(instruction)
        else:
            raise UnprovenError(f"it calls {name}.")

    def _step(self, instruction: Instruction) -> None:
        name, text = instruction.name, instruction.text
        if name == "call":
            self._call(instruction)
        elif name == "store":
            if text.startswith(("volatile", "atomic")):
                raise UnprovenError("it stores what others may see at once.")
            (kind, value), (_, place) = map(typed, operands(text)[:2])
            self._store(self._pointer(place), kind, self._value(kind, value))
        elif name in _STEPS:
            self.known[instruction.result] = _STEPS[name](self, text)
        else:
            self.known[instruction.result] = self._arithmetic(instruction)

    def _call(self, instruction: Instruction) -> None:
        call = _CALL.match(instruction.text)
        if call is None:
            raise UnprovenError("it calls what it computes.")
        kind, name = call[1].strip(), call[2]
        if name.startswith(_IGNORED):
            return
        arguments = [self._value(*typed(text)) for text in operands(call[3])]
        if name.startswith(("llvm.memset.", "llvm.memcpy.")):
            self._move_bytes(*arguments)
            return
        if name not in self.function.pure or kind == "void":
            raise UnprovenError(f"it calls {name}.")
        self.known[instruction.result] = by_lanes(
            kind,
            arguments,
            lambda element, values: called(name, instruction.lenience, element, values),
        )

    def _move_bytes(self, target: object, source: object, size: object, _: object) -> None:
        (count,) = _all_known([size])
        if isinstance(source, Pointer):
            self.memory.move(pointer_of(target), source, count)
        else:
            self.memory.fill(pointer_of(target), count, *_all_known([source]))

    def _arithmetic(self, instruction: Instruction) -> object:
        """Return what an operation makes of its operands, element by element."""
        name = instruction.name
        predicate, kind, texts = parsed(name, instruction.text)
        if name in CONVERSIONS:
            value, _, wanted = texts[0].rpartition(" to ")
            return retyped(name, kind, wanted, self._value(kind, value))
        values = [self._value(kind, text) for text in texts]
        name = f"{name} {predicate}" if predicate else name
        lenience = instruction.lenience
        return by_lanes(kind, values, lambda element, v: applied(name, lenience, element, v))

    def _store(self, pointer: Pointer, kind: str, value: object) -> None:
        lanes, element = lanes_of(kind)
        size = size_of(element)
        for place, part in enumerate(value if lanes and isinstance(value, tuple) else (value,)):
            self.memory.write(pointer.moved(place * size), size, part)

    def load(self, text: str) -> object:
        """Return what `load float, ptr %3` reads."""
        kind, _, rest = text.partition(", ")
        if kind.startswith(("volatile", "atomic")) or "atomic" in rest:
            raise UnprovenError("it reads what others may change.")
        pointer = self._pointer(typed(rest)[1].split(",")[0])
        lanes, element = lanes_of(kind)
        size = size_of(element)
        if pointer.base == "thread":
            return self._attribute(pointer, kind)
        if pointer.base == "buffers":
            return Pointer(f"buffer {pointer.offset}", 0)
        read = tuple(
            self.memory.read(pointer.moved(place * size), size) for place in range(lanes or 1)
        )
        return read if lanes else read[0]

    def _attribute(self, pointer: Pointer, kind: str) -> object:
        if not isinstance(pointer.offset, int):
            raise UnprovenError("it looks an attribute up.")
        lanes, element = lanes_of(kind)
        width = width_of(element)
        found: list[Value] = []
        for place in range(lanes or 1):
            start = pointer.offset + place * (width // 8)
            words = [self._word(start + 4 * i) for i in range(width // 32)]
            value: Value = 0
            for i, word in enumerate(words):
                value = added(value, scaled(word, 1 << (32 * i), 64), 64)
            found.append(value)
        return tuple(found) if lanes else found[0]

    def _word(self, start: int) -> Value:
        if start not in self.fields:
            raise UnprovenError("it asks for an attribute that is not known.")
        return self.fields[start]

    def element_of(self, text: str) -> object:
        """Return a pointer moved by the indices of `getelementptr`."""
        kind, place, *indices = operands(text)
        pointer = self._pointer(typed(place)[1])
        distance: Value = 0
        for number, index in enumerate(indices):
            if number:
                match = re.fullmatch(r"[\[<]\d+ x (.+)[\]>]", kind)
                if match is None:
                    raise UnprovenError(f"it looks into {kind}.")
                kind = match[1]
            width, value = typed(index)
            moved = number_of(self._value(width, value))
            moved = converted("sext", moved, width_of(width), 64) if width != "i64" else moved
            distance = added(distance, scaled(moved, size_of(kind), 64), 64)
        return pointer.moved(distance)

    def choice(self, text: str) -> object:
        """Return what `select` gives."""
        condition, first, second = (self._value(*typed(part)) for part in operands(text))
        if isinstance(condition, tuple):
            return tuple(map(chosen, condition, _elements(first), _elements(second)))
        return chosen(number_of(condition), first, second)

    def extracted(self, text: str) -> object:
        """Return an element of a vector."""
        vector, index = (self._value(*typed(part)) for part in operands(text))
        (place,) = _all_known([index])
        return _elements(vector)[place]

    def inserted(self, text: str) -> object:
        """Return a vector with another element."""
        vector, part, index = (self._value(*typed(text)) for text in operands(text))
        (place,), elements = _all_known([index]), _elements(vector)
        return (*elements[:place], part, *elements[place + 1 :])

    def shuffled(self, text: str) -> object:
        """Return elements of two vectors in another order."""
        first, second, order = operands(text)
        both = [*_elements(self._value(*typed(first))), *_elements(self._value(*typed(second)))]
        places = _elements(self._value(*typed(order)))
        return tuple(both[place] if isinstance(place, int) else place for place in places)

    def kept(self, text: str) -> object:
        """Return an operand as it is."""
        return self._value(*typed(text))

    def variable(self, text: str) -> object:
        """Return a pointer to memory of the thread's own."""
        self.memory.variables += 1
        return Pointer(f"own {self.memory.variables}", 0)

    def _pointer(self, text: str) -> Pointer:
        return pointer_of(self._value("ptr", text))

    def _value(self, kind: str, text: str) -> object:
        if text[0] == "%":
            if text not in self.known:
                raise UnprovenError("a value hangs on a path.")
            return self.known[text]
        if text[0] == "@":
            return Pointer(self.function.known.get(text[1:], text[1:]), 0)
        lanes, element = lanes_of(kind)
        if lanes:
            return self._vector(lanes, element, text)
        if text in ("poison", "undef"):
            return unknown("poison", kind, low=0, high=(1 << width_of(kind)) - 1)
        found = constant(kind, text)
        if found is None:
            raise UnprovenError(f"a constant {text[:40]}.")
        return found

    def _vector(self, lanes: int, element: str, text: str) -> object:
        if text[0] == "<":
            return tuple(self._value(*typed(part)) for part in operands(text[1:-1]))
        if text.startswith("splat ("):
            return (self._value(*typed(text[7:-1])),) * lanes
        return (self._value(element, text),) * lanes


def _elements(value: object) -> tuple[object, ...]:
    if not isinstance(value, tuple):
        raise UnprovenError("a vector hangs on data.")
    return value


def _all_known(values: Sequence[object]) -> tuple[int, ...]:
    if not all(isinstance(value, int) for value in values):
        raise UnprovenError("a place, a size or how threads wait hangs on data.")
    return tuple(value for value in values if isinstance(value, int))


_JOINED = "joined"
"""Stands for the block before one where two sides met."""
_STEPS: dict[str, Callable[[Thread, str], object]] = {
    "load": Thread.load,
    "getelementptr": Thread.element_of,
    "select": Thread.choice,
    "extractelement": Thread.extracted,
    "insertelement": Thread.inserted,
    "shufflevector": Thread.shuffled,
    "freeze": Thread.kept,
    "alloca": Thread.variable,
}
