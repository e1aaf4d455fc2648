"""Loops that count what they take for either side, with one counter instead of two.

A partition (a radix sort's bit, a compaction) keeps the next place of each side: a round moves one
of two counters, up or down. How far they have moved together is the number of rounds, so that the
second follows from what moves the first. Unrolled, such a loop takes a quarter fewer instructions;
so it is unrolled.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kernelwright.metal.device.simulator.wide.assembly import Block, Function, Instruction

_NAME = r"%[-\w$.]+"
_PHI = re.compile(rf"phi (i\d+) \[ (\S+), ({_NAME}) \], \[ (\S+), ({_NAME}) \]")
_LOOP = re.compile(rf"br i1 {_NAME}, label ({_NAME}), label ({_NAME})")
_MOVED = re.compile(rf"add (?:nuw |nsw )*i\d+ ({_NAME}), ({_NAME}|1)")
_ONE_IF = re.compile(rf"([zs])ext i1 ({_NAME}) to i\d+")
_UP, _DOWN = 1, -1


@dataclass(frozen=True)
class _Counter:
    """An integer that a loop carries from round to round."""

    name: str
    type_: str
    first: str
    """Its value before the loop."""
    before: str
    """The block that the loop is entered from."""
    added: str
    """What a round adds."""
    condition: str = ""
    """Under which that is one, or less one; empty where it is none."""
    direction: int = _UP

    @property
    def bits(self) -> int:
        return int(self.type_[1:])


def with_single_counters(function: Function, attached: str) -> Function:
    """Return a function whose loops of one block have no two counters of opposite cases.

    The jump back of each loop that had gets `attached`.
    """
    blocks = [Block(b.label, list(b.instructions)) for b in function.blocks]
    by_label = {b.label: b for b in blocks}
    for block in blocks:
        counters = _counters(block)
        rounds = next((c for c in counters if c.first == "0" and c.added == "1"), None)
        pairs = _opposite(block, counters)
        # A narrower number of rounds may wrap while the loop goes on.
        if rounds is None or any(kept.bits > rounds.bits for kept, _ in pairs) or not pairs:
            continue
        for kept, dropped in pairs:
            _replace(block, by_label[rounds.before], kept, dropped, rounds)
        jump = block.instructions[-1]
        block.instructions[-1] = Instruction(jump.text.partition(", !")[0] + attached)
    return Function(function.name, function.parameters, blocks, function.attributes)


def hidden(type_: str, value: str) -> str:
    """Return a value of which LLVM does not know that it is another.

    It reaches no memory: else no load could leave the loop over lanes.
    """
    return f'call {type_} asm "", "=r,0"({type_} {value}) nounwind memory(none)'


def _counters(block: Block) -> list[_Counter]:
    """Return what a loop of one block counts."""
    jump = _LOOP.match(block.instructions[-1].text)
    if jump is None or block.label not in jump.groups():
        return []
    definitions = {i.result: i.text for i in block.instructions if i.result}
    found = []
    for i in block.instructions:
        phi = _PHI.fullmatch(i.text)
        if phi is None:
            continue
        ways = {phi[3]: phi[2], phi[5]: phi[4]}
        after = ways.pop(block.label, "")
        moved = _MOVED.fullmatch(definitions.get(after, ""))
        if len(ways) == 1 and moved is not None and moved[1] == i.result:
            ((before, first),) = ways.items()
            counter = _Counter(i.result, phi[1], first, before, moved[2])
            found.append(_moved_by(counter, definitions.get(moved[2], "")))
    return found


def _moved_by(counter: _Counter, added: str) -> _Counter:
    """Return a counter with the condition that moves it."""
    one = _ONE_IF.fullmatch(added)
    if one is None:
        return counter
    return replace(counter, condition=one[2], direction=_UP if one[1] == "z" else _DOWN)


def _opposite(block: Block, counters: list[_Counter]) -> list[tuple[_Counter, _Counter]]:
    """Return pairs of counters of which each round moves one."""
    definitions = {i.result: i.text for i in block.instructions if i.result}
    pairs: list[tuple[_Counter, _Counter]] = []
    taken: set[str] = set()
    for kept in counters:
        negated = _negated(kept.condition, definitions)
        for other in counters:
            is_opposite = other.condition != "" and other.condition == negated
            is_free = taken.isdisjoint((kept.name, other.name))
            if is_opposite and is_free and kept.type_ == other.type_:
                pairs.append((kept, other))
                taken |= {kept.name, other.name}
    return pairs


def _negated(condition: str, definitions: Mapping[str, str]) -> str:
    """Return what negates a condition, where the block has that."""
    text = f"xor i1 {condition}, true"
    return next((name for name, defined in definitions.items() if defined == text), "")


def _replace(
    block: Block, before: Block, kept: _Counter, dropped: _Counter, rounds: _Counter
) -> None:
    """Compute a counter from the number of rounds and from what moved the other one.

    With k rounds, of which a moved the kept one: p = p0 ± a and q = q0 ± (k - a), which is the
    q0 ∓ a that is carried instead, ± k.
    """
    name, type_ = dropped.name, kept.type_
    carried, after = f"{name}.carried", f"{name}.after"
    for counter in (kept, dropped):
        # LLVM would carry a third counter for what the two have in common.
        first = Instruction(hidden(type_, counter.first), f"{counter.name}.first")
        before.instructions.insert(-1, first)
    count, written = rounds.name, list[Instruction]()
    if rounds.bits > kept.bits:
        count = f"{name}.rounds"
        written.append(Instruction(f"trunc {rounds.type_} {rounds.name} to {type_}", count))
    goes = "add" if dropped.direction == _UP else "sub"
    written.append(Instruction(f"{goes} {type_} {carried}, {count}", name))
    ways = f"[ {name}.first, {before.label} ], [ {after}, {block.label} ]"
    instructions = [_begun(i, kept) for i in block.instructions if i.result != name]
    last = max(n for n, i in enumerate(instructions) if i.operation == "phi")
    instructions[last + 1 : last + 1] = written
    instructions.insert(last + 1, Instruction(f"phi {type_} {ways}", carried))
    back = "sub" if kept.direction == dropped.direction else "add"
    moved = Instruction(f"{back} {type_} {carried}, {kept.added}", after)
    instructions.insert(-1, moved)
    block.instructions[:] = instructions


def _begun(instruction: Instruction, counter: _Counter) -> Instruction:
    """Let a counter begin at what is hidden, where the instruction is its own."""
    if instruction.result != counter.name:
        return instruction
    way = f"{counter.first}, {counter.before} ]"
    begun = f"{counter.name}.first, {counter.before} ]"
    return Instruction(instruction.text.replace(f"[ {way}", f"[ {begun}"), counter.name)
