"""Which ways through a kernel bring data into a flag that is kept from turn to turn of a loop.

A flag may start as a constant and take what data says at the end of a turn. Where the launch has
no second turn, it stays the constant, whatever the data.
"""

import re
from collections.abc import Iterator

from kernelwright.metal.device.simulator.branches.listing import Block, Function, Instruction
from kernelwright.metal.device.simulator.branches.taint import Taint

Turn = tuple[str, bool]
"""A condition without data, and the side of it that a way takes."""
Way = frozenset[Turn]

_BRANCH = re.compile(r"^br i1 (%[^,]+), label (%[^,]+), label (%[^,\s]+)")
_ENTRY = re.compile(r"\[ ([^,\]]+), (%[^\]]+) \]")
_KEEPING = frozenset(("trunc", "zext", "freeze"))
_MOST_WAYS = 16


def ways_of(function: Function, taint: Taint, flag: Instruction) -> tuple[Way, ...]:
    """Return what each way of data into a flag needs, nothing where one of them needs nothing."""
    found = list[Way]()
    for way in _Ways(function, taint).into(flag.result, frozenset(), frozenset()):
        if not way or len(found) == _MOST_WAYS:
            return ()
        found.append(way)
    return tuple(dict.fromkeys(found))


def start_of(function: Function, kept: Instruction) -> str | None:
    """Return the number that a value kept from turn to turn starts as, None if it is no one."""
    names, seen, found = [kept.result], set[str](), set[str]()
    while names:
        name = names.pop()
        made = function.definitions.get(name)
        if name in seen or made is None or made.operation != "phi":
            continue
        seen.add(name)
        for value, _ in _ENTRY.findall(made.text):
            if value[0] == "%":
                names.append(value)
            else:
                found.add(value)
    return found.pop() if len(found) == 1 else None


class _Ways:
    def __init__(self, function: Function, taint: Taint) -> None:
        self._function, self._taint = function, taint
        self._block_of = {
            i.result: block for block in function.blocks.values() for i in block.instructions
        }

    def into(self, name: str, way: Way, seen: frozenset[str]) -> Iterator[Way]:
        """Yield what is needed until a value is met that data is in, one after the other."""
        made = self._function.definitions.get(name)
        if made is None or name not in self._taint.names or name in seen:
            return
        seen |= {name}
        if made.operation in _KEEPING:
            yield from self.into(made.operands[0], way, seen)
            return
        entries = _ENTRY.findall(made.text) if made.operation == "phi" else []
        carried = [e for e in entries if e[0] in self._taint.names]
        kept = {value for value, _ in entries if value not in self._taint.names}
        if not carried or len(kept) > 1:
            # Data chooses here, or is loaded and compared.
            yield way
            return
        for value, label in carried:
            turns = self._turns(label, self._block_of[name], frozenset())
            yield from self.into(value, way | turns, seen)

    def _turns(self, label: str, following: Block, seen: frozenset[str]) -> Way:
        """Return the side that leads from a block to the following one, if no data decides it."""
        block = self._function.blocks.get(label)
        if block is None or label in seen:
            return frozenset()
        branch = _BRANCH.match(block.instructions[-1].text)
        if branch is not None:
            condition, if_true, if_false = branch.groups()
            if if_true == if_false or condition in self._taint.names:
                return frozenset()
            return frozenset({(condition, if_true == following.label)})
        before = [b for b in self._function.blocks.values() if label in b.successors]
        if len(before) == 1:
            return self._turns(before[0].label, block, seen | {label})
        return frozenset()
