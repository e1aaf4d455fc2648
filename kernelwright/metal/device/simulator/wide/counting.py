"""Loops that store where running counts say: what they count, and what rounds do alike."""

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property

from kernelwright.metal.device.simulator.wide.assembly import (
    Block,
    Function,
    Instruction,
)
from kernelwright.metal.device.simulator.wide.origin import Origins, pointer_of

WIDTH = 8
_MOST_ROUNDS = 64
"""More would make long texts, since such loops are unrolled."""
_MOST_BITS = 32
_VALUE = r"(%[-\w$.]+|-?\d+(?:\.\d+e[-+]\d+)?|0x\w+|true|false)"
_TYPE = r"(i\d+|float|half)"
_PHI = re.compile(rf"phi {_TYPE} \[ (\S+), (%[-\w$.]+) \], \[ (\S+), (%[-\w$.]+) \]")
_JUMP = re.compile(r"br i1 (%[-\w$.]+), label (%[-\w$.]+), label (%[-\w$.]+)")
_LAST = re.compile(rf"icmp eq i\d+ {_VALUE}, (\d+)")
_NEXT = re.compile(rf"add (?:nuw |nsw )*i\d+ {_VALUE}, 1")
_MOVED = re.compile(rf"(add|sub) (?:nuw |nsw )*i\d+ {_VALUE}, (%[-\w$.]+)")
_ONE_IF = re.compile(r"[zs]ext i1 (%[-\w$.]+) to i\d+")
ELEMENT = re.compile(r"getelementptr (?:(?:inbounds|nuw|nusw) )*(\w+), ptr (%[-\w$.]+), i64 (\S+)")
LOAD = re.compile(rf"load {_TYPE}, ptr (%[-\w$.]+), (align \d+)(?:, !.*)?")
_STORE = re.compile(rf"store {_TYPE} \S+, ptr \S+, align \d+(?:, !.*)?")
_SUM = r"(?:add|sub|mul|and|or|xor|shl|lshr|ashr)(?: nuw| nsw| exact| disjoint)*"
_FLOAT_SUM = r"f(?:add|sub|mul|div)(?: [a-z]+)*"
_COMPARED = r"(?:icmp|fcmp)(?: [a-z]+)+"
BINARY = re.compile(rf"({_SUM}|{_FLOAT_SUM}|{_COMPARED}) {_TYPE} {_VALUE}, {_VALUE}(?:, !.*)?")
_CASTS = "zext|sext|trunc|bitcast|uitofp|sitofp|fptoui|fptosi|fpext|fptrunc"
CAST = re.compile(rf"((?:{_CASTS})(?: [a-z]+)*) {_TYPE} {_VALUE} to {_TYPE}")
SELECT = re.compile(rf"select i1 {_VALUE}, {_TYPE} {_VALUE}, {_TYPE} {_VALUE}")

_BITS = {"half": "16", "float": "32"}


@dataclass(frozen=True)
class Count:
    """A value that a round hands to the next one, moved by what the round itself computes."""

    name: str
    type_: str
    first: str
    before: str
    """The block that the loop is entered from."""
    operation: str
    amount: str
    after: str


@dataclass
class CountingLoop:
    """A loop of one block whose number of rounds is known."""

    block: Block
    count: int
    """How many rounds it has."""
    leads_to: str
    rounds: str
    """What counts the rounds from 0."""
    rounds_type: str
    ends: tuple[str, str]
    """The next round, and whether that is none."""
    counts: dict[str, Count]
    definitions: Mapping[str, Instruction]
    wide: dict[str, str] = field(default_factory=dict)
    """The types of values of which eight rounds' can be computed at once."""
    left: Set[str] = frozenset()
    """Values of the last round that are read after the loop."""

    @cached_property
    def alone(self) -> list[Instruction]:
        """What each round does by itself, in order: it stores.

        An index is extended there too, to the width of addresses.
        """
        alone: list[Instruction] = []
        used: set[str] = set()
        body = self.block.instructions[:-1]
        for i in reversed(body):
            is_address = i.operation == "getelementptr" and i.result in used
            is_index = i.operation in ("zext", "sext") and i.result in used
            is_index &= not any(i.result in o.operands for o in body if o.result in self.wide)
            if i.operation == "store" or is_address or is_index:
                alone.insert(0, i)
                used.update(i.operands)
        return alone


def counting_loop(function: Function, block: Block, origins: Origins) -> CountingLoop | None:
    """Return a loop that may take eight rounds at a time, and gains from that; None for others."""
    loop = _read(block)
    if loop is None:
        return None
    _find_wide(loop)
    others = [i for b in function.blocks if b is not block for i in b.instructions]
    loop.left = loop.definitions.keys() & {o for i in others for o in i.operands}
    return loop if _gains(loop) and _is_free(loop, origins) and _is_complete(loop) else None


def _read(block: Block) -> CountingLoop | None:
    """Return a loop with its counts; None for other blocks."""
    jump = _JUMP.match(block.instructions[-1].text)
    if jump is None or jump[3] != block.label or jump[2] == block.label:
        return None
    definitions = {i.result: i for i in block.instructions if i.result}
    last = _LAST.fullmatch(definitions[jump[1]].text) if jump[1] in definitions else None
    if last is None or int(last[2]) % WIDTH or not 0 < int(last[2]) <= _MOST_ROUNDS:
        return None
    counts, rounds = dict[str, Count](), None
    for phi in (i for i in block.instructions if i.operation == "phi"):
        found = _PHI.fullmatch(phi.text)
        if found is None:
            return None
        ways = {found[3]: found[2], found[5]: found[4]}
        after = ways.pop(block.label, "")
        ((before, first),) = ways.items() if len(ways) == 1 else (("", ""),)
        step = definitions[after].text if after in definitions else ""
        if after == last[1] and first == "0" and (by := _NEXT.fullmatch(step)):
            if by[1] != phi.result:
                return None
            rounds = (phi.result, found[1])
        elif (moved := _MOVED.fullmatch(step)) and moved[2] == phi.result:
            counts[phi.result] = Count(
                phi.result, found[1], first, before, moved[1], moved[3], after
            )
        else:
            return None
    if rounds is None:
        return None
    return CountingLoop(
        block, int(last[2]), jump[2], *rounds, (last[1], jump[1]), counts, definitions
    )


def _find_wide(loop: CountingLoop) -> None:
    """Find what can be computed for eight rounds at once: first without counts, then with them."""
    loop.wide[loop.rounds] = loop.rounds_type
    _grow(loop)
    for count in loop.counts.values():
        if loop.wide.get(count.amount) == count.type_ and int(count.type_[1:]) <= _MOST_BITS:
            loop.wide[count.name] = count.type_
    _grow(loop)


def _grow(loop: CountingLoop) -> None:
    for i in loop.block.instructions:
        if i.result in ("", *loop.ends) or i.operation == "phi":
            continue
        inner = [o for o in i.operands if o in loop.definitions]
        if found := LOAD.fullmatch(i.text):
            if _is_consecutive(loop, found[1], found[2]):
                loop.wide[i.result] = found[1]
        elif all(o in loop.wide for o in inner) and (type_ := _type_of_result(i.text)):
            loop.wide[i.result] = type_


def _type_of_result(text: str) -> str:
    """Return the type of an operation that is done element by element; empty for others."""
    if found := BINARY.fullmatch(text):
        return "i1" if found[1].startswith(("icmp", "fcmp")) else found[2]
    if found := CAST.fullmatch(text):
        return found[4]
    found = SELECT.fullmatch(text)
    return found[2] if found else ""


def _is_consecutive(loop: CountingLoop, type_: str, pointer: str) -> bool:
    place = loop.definitions.get(pointer)
    found = ELEMENT.fullmatch(place.text) if place else None
    if found is None or found[2] in loop.definitions:
        return False
    return (
        _BITS.get(found[1], found[1][1:]) == _BITS.get(type_, type_[1:]) and found[3] == loop.rounds
    )


def _gains(loop: CountingLoop) -> bool:
    """Say whether stores hang on a count that some rounds move and others do not."""
    if not loop.counts or any(name not in loop.wide for name in loop.counts):
        return False
    used = {o for i in loop.block.instructions if i.operation == "store" for o in i.operands}
    for i in reversed(loop.block.instructions):
        if i.result in used and i.operation != "phi":
            used.update(i.operands)
    amounts = (loop.definitions[c.amount].text for c in loop.counts.values() if c.name in used)
    return any(_ONE_IF.fullmatch(amount) for amount in amounts)


def _is_free(loop: CountingLoop, origins: Origins) -> bool:
    """Say whether loads may go before the stores of earlier rounds."""
    allowed = ("phi", "getelementptr", "br")
    stored, loaded = list[str](), list[str]()
    for i in loop.block.instructions:
        if i.operation == "store" and _STORE.fullmatch(i.text):
            stored.append(pointer_of(i))
        elif i.operation == "load" and i.result in loop.wide:
            loaded.append(pointer_of(i))
        elif i.operation not in allowed and not _type_of_result(i.text):
            return False
    return all(_are_apart(origins, a, b) for a in loaded for b in stored)


def _are_apart(origins: Origins, one: str, other: str) -> bool:
    """Say whether two pointers cannot meet; two buffers may be one."""
    a, b = origins.of(one), origins.of(other)
    if a is None or b is None or a.kind == b.kind == "buffer":
        return False
    if a.kind == b.kind == "variable":
        return False
    return a != b


def _is_complete(loop: CountingLoop) -> bool:
    """Say whether all that a round needs by itself can be had, and what follows the loop needs."""
    known = loop.wide.keys() | {i.result for i in loop.alone}
    needed = {o for i in loop.alone for o in i.operands if o in loop.definitions}
    phis = {loop.rounds, *loop.counts}
    return needed <= known and loop.left <= loop.wide.keys() - phis
