"""Which blocks of a function come before others, choose among them, or repeat."""

import heapq
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelwright.metal.device.simulator.branches.listing import Block, Function

_NAME = r'(%(?:"[^"]*"|[-\w$.]+))'
_BRANCH = re.compile(rf"^br i1 {_NAME}, label {_NAME}, label {_NAME}")


@dataclass(frozen=True)
class Loop:
    """A natural loop."""

    header: str
    body: frozenset[str]
    exits: tuple[tuple[str, str], ...]
    """Edges that leave it."""

    @property
    def targets(self) -> tuple[str, ...]:
        """Labels of the blocks that its exits lead to."""
        return tuple(dict.fromkeys(target for _, target in self.exits))


class ControlFlow:
    """Where the ways that part at a branch meet again, what dominates what, and the loops."""

    def __init__(self, function: Function) -> None:
        """Order the blocks of a function."""
        self._blocks = function.blocks
        self._order = _reverse_postorder(function)
        self._found: dict[tuple[str, ...], tuple[Block, ...]] = {}
        self._after: dict[str, frozenset[str]] = {}

    @cached_property
    def predecessors(self) -> Mapping[str, tuple[str, ...]]:
        """Labels of the blocks that lead to each, of those that can be reached."""
        found: dict[str, list[str]] = {label: [] for label in self._order}
        for label in self._order:
            for following in self._blocks[label].successors:
                if following in found:
                    found[following].append(label)
        return {label: tuple(before) for label, before in found.items()}

    @cached_property
    def _dominator(self) -> Mapping[str, str]:
        """The immediate dominator of each block (Cooper, Harvey and Kennedy 2001)."""
        labels = sorted(self._order, key=self._order.__getitem__)
        found = {labels[0]: labels[0]}
        is_changed = True
        while is_changed:
            is_changed = False
            for label in labels[1:]:
                known = [p for p in self.predecessors[label] if p in found]
                nearest = known[0]
                for other in known[1:]:
                    nearest = self._meet(found, nearest, other)
                if found.get(label) != nearest:
                    found[label], is_changed = nearest, True
        return found

    def _meet(self, dominator: Mapping[str, str], one: str, other: str) -> str:
        while one != other:
            while self._order[one] > self._order[other]:
                one = dominator[one]
            while self._order[other] > self._order[one]:
                other = dominator[other]
        return one

    def dominates(self, label: str, other: str) -> bool:
        """Say whether every way to the other block leads through this one, or is this one."""
        while label != other:
            if other not in self._dominator or self._dominator[other] == other:
                return False
            other = self._dominator[other]
        return True

    def guards(self, label: str) -> Iterator[tuple[str, bool]]:
        """Yield the conditions of branches, and their sides, without which a block is not run."""
        inner = label
        while inner in self._dominator and self._dominator[inner] != inner:
            inner = self._dominator[inner]
            found = _BRANCH.match(self._blocks[inner].instructions[-1].text)
            if found is None or found[2] == found[3]:
                continue
            for target, value in ((found[2], True), (found[3], False)):
                if self.predecessors[target] == (inner,) and self.dominates(target, label):
                    yield found[1], value

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The natural loops; those of one header are one."""
        bodies: dict[str, set[str]] = {}
        for label in self._order:
            for header in self._blocks[label].successors:
                if header in self._order and self.dominates(header, label):
                    body = bodies.setdefault(header, {header})
                    pending = [label]
                    while pending:
                        one = pending.pop()
                        if one not in body:
                            body.add(one)
                            pending += self.predecessors[one]
        return tuple(self._loop(header, frozenset(body)) for header, body in bodies.items())

    def _loop(self, header: str, body: frozenset[str]) -> Loop:
        exits = tuple(
            (label, target)
            for label in self._order
            if label in body
            for target in self._blocks[label].successors
            if target not in body and target in self._order
        )
        return Loop(header, body, exits)

    def leads(self, block: str, other: str) -> bool:
        """Say whether a way of at least one step goes from one block to the other."""
        if block not in self._after:
            found: set[str] = set()
            pending = list(self._blocks[block].successors)
            while pending:
                label = pending.pop()
                if label in self._blocks and label not in found:
                    found.add(label)
                    pending += self._blocks[label].successors
            self._after[block] = frozenset(found)
        return other in self._after[block]

    def joins(self, block: Block) -> tuple[Block, ...]:
        """Return the blocks in which more than one way out of a block may first meet."""
        forward = tuple(s for s in block.successors if self._is_forward(block.label, s))
        return self._joined(forward)

    def joins_after(self, loop: Loop) -> tuple[Block, ...]:
        """Return the blocks in which more than one way out of a loop may first meet."""
        shared = [t for t in loop.targets if sum(target == t for _, target in loop.exits) > 1]
        return (*(self._blocks[label] for label in shared), *self._joined(loop.targets))

    def _joined(self, starts: tuple[str, ...]) -> tuple[Block, ...]:
        if starts not in self._found:
            self._found[starts] = tuple(self._find(starts))
        return self._found[starts]

    def _find(self, starts: Sequence[str]) -> Iterator[Block]:
        # Forward edges alone: what a loop brings back is not what one turn of it has chosen.
        ways = {label: label for label in starts}
        pending = [(self._order[label], label) for label in ways]
        heapq.heapify(pending)
        while pending:
            _, label = heapq.heappop(pending)
            if ways[label] == label and label not in starts:
                yield self._blocks[label]
            for following in self._blocks[label].successors:
                if not self._is_forward(label, following):
                    continue
                if following not in ways:
                    ways[following] = ways[label]
                    heapq.heappush(pending, (self._order[following], following))
                elif ways[following] != ways[label]:
                    if following in starts:
                        yield self._blocks[following]
                    ways[following] = following

    def _is_forward(self, label: str, following: str) -> bool:
        return self._order.get(following, -1) > self._order[label]


def _reverse_postorder(function: Function) -> dict[str, int]:
    """Number the blocks so that each comes after those before it, loops aside."""
    first = next(iter(function.blocks))
    found: list[str] = []
    seen = {first}
    stack = [(first, iter(function.blocks[first].successors))]
    while stack:
        label, successors = stack[-1]
        following = next((s for s in successors if s in function.blocks and s not in seen), None)
        if following is None:
            found.append(label)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(function.blocks[following].successors)))
    return {label: place for place, label in enumerate(reversed(found))}
