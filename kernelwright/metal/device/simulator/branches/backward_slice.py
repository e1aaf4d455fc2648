"""What a value of a kernel is computed from: the numbers written in its text, and how."""

import math
import re
from collections import deque
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from kernelwright.metal.device.simulator.branches.decision import NONZERO, ORDER
from kernelwright.metal.device.simulator.branches.listing import Function, Instruction, Listing
from kernelwright.metal.device.simulator.branches.predicate import (
    is_comparison,
    is_special,
    number_of,
)
from kernelwright.metal.device.simulator.branches.taint import Taint
from kernelwright.metal.device.simulator.wide.assembly import NAME

_TEXTS = frozenset(("source", "header", "signature"))
_NUMBER = re.compile(
    r"(?<![\w%@.\"-])(-?\d+(?:\.\d+(?:e[+-]\d+)?)?|0x[HR]?[0-9A-F]+)(?![\w.\"]|\s*x\s)"
)
_INTEGER_LOAD = re.compile(r"load (?:volatile |atomic )*(?:i\d|<\d+ x i\d)")
_PHI_LABEL = re.compile(r', (%(?:"[^"]*"|[-\w$.]+)) \]')
_NO_NUMBERS = frozenset(("getelementptr", "load", "store", "alloca", "br", "switch"))
_BITS = ("bitcast float", "bitcast half", "bitcast bfloat")
_WIDENS = ("zext ", "or disjoint ")
"""How a word becomes part of a wider one that lanes hand on."""
_HANDS_ON = "@kw_simdgroup("
_LIFETIME = "@llvm.lifetime."
_READS = frozenset(("load", "atomicrmw", "cmpxchg", "call"))
_WRITES = frozenset(("store", "atomicrmw", "cmpxchg", "call"))
_MOST_NUMBERS = 64
_MOST_INSTRUCTIONS = 1 << 10
"""Nearest ones, of which a value's origins are told."""


@dataclass
class Origins:
    """What stands behind a value."""

    numbers: set[float] = field(default_factory=set)
    """Finite ones that the text's own operations take in."""
    reads_bits: bool = False
    """A float's bits are taken for an integer."""
    loads: set[int] = field(default_factory=set)
    """Buffers of which elements are taken for integers."""
    compares: bool = False
    """Another comparison stands behind it, which asks for more than NaN, infinities and ends."""
    left_out: set[str] = field(default_factory=set)
    """Comparisons behind it that were not asked what they hang on."""


class BackwardSlice:
    """Follows the values of one function back to what they are made of."""

    def __init__(self, listing: Listing, function: Function, taint: Taint) -> None:
        """Index what writes into each piece of memory."""
        self._listing, self._function, self._taint = listing, function, taint
        self._writers: dict[str, list[Instruction]] = {}
        self._readers: dict[str, list[Instruction]] = {}
        self._users: dict[str, list[Instruction]] = {}
        for instruction in function.instructions:
            if instruction.is_fill:
                continue
            for name in dict.fromkeys(instruction.operands):
                self._users.setdefault(name, []).append(instruction)
            for root in self._touched_roots(instruction):
                if instruction.operation in _WRITES:
                    self._writers.setdefault(root, []).append(instruction)
                if instruction.operation in _READS and _LIFETIME not in instruction.text:
                    self._readers.setdefault(root, []).append(instruction)

    def origins(self, instruction: Instruction, without: Container[str] = frozenset()) -> Origins:
        """Return what a comparison, or a combination of conditions, hangs on.

        Comparisons `without` which it is asked count as such for special numbers.
        """
        found, seen = Origins(), set[int]()
        pending = deque([instruction])
        while pending and len(seen) < _MOST_INSTRUCTIONS:
            one = pending.popleft()
            if one.number in seen:
                continue
            seen.add(one.number)
            if one is not instruction and is_comparison(one.text):
                if is_special(self._function, one.result):
                    # Whatever number it asks that of is no more than a number to it.
                    continue
                if one.result in without:
                    found.left_out.add(one.result)
                    continue
                # A maximum or a quotient is no condition of the text's.
                found.compares |= not one.result.startswith((ORDER, NONZERO))
            self._take_in(one, found)
            pending += self._before(one)
        return found

    def difference(self, one: str, other: str) -> Origins:
        """Return the numbers that stand behind one of two values alone.

        An extreme of numbers that are computed alike, as a running maximum, waits for none.
        """
        found = []
        for name in (one, other):
            made = self._function.definitions.get(name)
            found.append(self.origins(made).numbers if made is not None else set())
        return Origins(numbers=found[0] ^ found[1])

    def _before(self, instruction: Instruction) -> Iterator[Instruction]:
        """Yield what made the operands of an instruction."""
        if instruction.operation in _READS and instruction.operation != "call":
            pointer = instruction.operands[-1 if instruction.operation == "load" else 0]
            for root in self._taint.memory_of(pointer):
                yield from self._writers.get(root, ())
            if instruction.operation == "load":
                return
        if instruction.operation == "call":
            # What it is given to read, as lanes hand each other what they hold.
            for name in instruction.operands:
                for root in self._taint.memory_of(name) if name[0] == "%" else ():
                    yield from self._writers.get(root, ())
        text = instruction.text
        if instruction.operation == "phi":
            text = _PHI_LABEL.sub(" ]", text)
        if instruction.operation == "store":
            text = text.rpartition(", ptr ")[0]
        for name in dict.fromkeys(n for n in instruction.operands if n in text):
            made = self._function.definitions.get(name)
            if made is not None:
                yield made

    def _take_in(self, instruction: Instruction, found: Origins) -> None:
        if instruction.operation == "phi" and self._is_chosen(instruction):
            found.compares = True
        if not found.reads_bits and instruction.text.startswith(_BITS):
            found.reads_bits = self._is_read(instruction.result, set())
        if instruction.operation == "load":
            buffers = self._taint.buffers_of(instruction.operands[-1])
            if not buffers <= found.loads and self._is_integer(instruction, set()):
                found.loads |= buffers
        if len(found.numbers) >= _MOST_NUMBERS or not self._is_own(instruction):
            return
        if instruction.operation == "store":
            value = instruction.text.removeprefix("store ").partition(", ptr ")[0]
            found.numbers |= set(_numbers(value.partition(" ")[2]))
        elif instruction.operation == "call":
            # Of LLVM's own functions, such as a fused product and sum.
            if instruction.result and "@llvm." in instruction.text:
                found.numbers |= set(_numbers(instruction.text.partition("(")[2]))
        elif instruction.operation not in _NO_NUMBERS:
            found.numbers |= set(_numbers(instruction.text))

    def _is_integer(self, load: Instruction, seen: set[int]) -> bool:
        """Say whether what is loaded is taken for an integer, not only moved as a word.

        Several floats at once are an integer on their way to memory that is read as floats.
        """
        return bool(_INTEGER_LOAD.match(load.text)) and self._is_read(load.result, seen)

    def _is_read(self, word: str, seen: set[int]) -> bool:
        """Say whether an integer is more than a word on its way: to memory, or to other lanes."""
        for user in self._users.get(word, ()):
            if user.number in seen or user.text.startswith("bitcast i"):
                continue
            seen.add(user.number)
            if user.text.startswith(_WIDENS):
                if self._is_read(user.result, seen):
                    return True
            elif user.operation != "store" or self._arrives_as_integer(user, seen):
                return True
        return False

    def _arrives_as_integer(self, mover: Instruction, seen: set[int]) -> bool:
        """Say whether memory that a store, or lanes that hand on, writes into is read as integers.

        Others read what lies in buffers, and in memory that threads share.
        """
        roots = self._touched_roots(mover)
        if not roots or not roots <= self._function.definitions.keys():
            return True
        for reader in (r for root in roots for r in self._readers.get(root, ())):
            if reader is mover or reader.number in seen:
                continue
            if reader.operation == "load":
                arrives = self._is_integer(reader, seen)
            else:
                seen.add(reader.number)
                arrives = _HANDS_ON not in reader.text or self._arrives_as_integer(reader, seen)
            if arrives:
                return True
        return False

    def _is_chosen(self, phi: Instruction) -> bool:
        """Say whether conditions on data choose among values that no data went into."""
        values = NAME.findall(_PHI_LABEL.sub(" ]", phi.text))
        return phi.result in self._taint.names and self._taint.names.isdisjoint(values)

    def _is_own(self, instruction: Instruction) -> bool:
        """Say whether an instruction stands in the candidate's text, not in Metal's library."""
        chain = self._listing.chain(instruction.debug)
        return not chain or not chain[0].line or chain[0].file in _TEXTS

    def _touched_roots(self, instruction: Instruction) -> frozenset[str]:
        """Return the pieces of memory that an instruction reads from or writes into."""
        if instruction.operation not in _READS | _WRITES:
            return frozenset()
        names = [n for n in instruction.operands if n[0] == "%"]
        if instruction.operation == "store":
            names = names[-1:]
        elif instruction.operation != "call":
            names = names[:1]
        found: frozenset[str] = frozenset()
        return found.union(*(self._taint.memory_of(name) for name in names))


def _numbers(text: str) -> Iterator[float]:
    for token in _NUMBER.findall(text):
        value = number_of(token)
        if math.isfinite(value):
            yield value
