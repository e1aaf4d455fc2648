"""Which values are one for all lanes of a simdgroup, and which every piece can compute anew."""

import re
from collections.abc import Iterator

from kernelwright.metal.device.simulator.wide.assembly import (
    Instruction,
    NotWidenedError,
    UnknownAssemblyError,
)
from kernelwright.metal.device.simulator.wide.flow import Flow

_PURE = frozenset(
    (
        *("getelementptr", "add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr"),
        *("zext", "sext", "trunc", "icmp", "select", "ptrtoint", "inttoptr", "bitcast", "freeze"),
    )
)
_FIELD = re.compile(r"^getelementptr [\w ]*i8, ptr (%[\w.]+), i64 (\d+)$")
_POINTER = re.compile(r"ptr (%(?:\"[^\"]*\"|[-\w$.]+))")
# Bytes of kw_thread that differ between lanes: x of both positions, index, lane.
_VARYING = frozenset((*range(4), *range(12, 16), *range(96, 104)))
_FIELD_BYTES = {"i32": 4, "i64": 8}


class Uniformity:
    """What is known of each value of a function that an entry of two parameters became."""

    def __init__(self, flow: Flow) -> None:
        """Look at every value."""
        self._flow = flow
        self.buffers, self.thread = flow.function.parameters
        self.fields: dict[str, int] = {}
        """Pointers into the thread's attributes, with their offsets."""
        self.recipes: set[str] = set()
        """Values that can be computed anywhere: attributes, arguments, and arithmetic on them."""
        self.varying: set[str] = set()
        self._find_fields()
        self._find_recipes()
        self._find_varying()

    def is_field(self, instruction: Instruction) -> bool:
        """Say whether an instruction loads an attribute of the thread."""
        return instruction.operation == "load" and self._address(instruction) in self.fields

    def field_offset(self, instruction: Instruction) -> int:
        """Return which attribute an instruction loads, as an offset into kw_thread."""
        return self.fields[self._address(instruction)]

    def _address(self, load: Instruction) -> str:
        found = _POINTER.search(load.text)
        return found[1] if found else ""

    def _find_fields(self) -> None:
        self.fields[self.thread] = 0
        instructions = list(self._flow.definitions.items())
        for name, i in instructions:
            if i.callee == "@kw_current":
                self.fields[name] = 0
        for name, i in instructions:
            if (found := _FIELD.match(i.text)) and found[1] in self.fields:
                self.fields[name] = self.fields[found[1]] + int(found[2])
        for piece in self._flow.pieces.values():
            for i in piece.instructions:
                reads = [n for n in i.operands if n in self.fields]
                if reads and i.result not in self.fields and not self.is_field(i):
                    raise NotWidenedError(
                        f"the use of its attributes is not understood: {i.text.strip()}"
                    )

    def _find_recipes(self) -> None:
        arguments = {self.buffers}
        for name, i in self._flow.definitions.items():
            known = all(
                o in self.recipes or o in arguments
                for o in i.operands
                if o in self._flow.definitions or o == self.buffers
            )
            is_given = self.is_field(i) or (i.operation == "load" and self._address(i) in arguments)
            is_place = i.operation == "alloca" or i.callee == "@kw_threadgroup_alloc"
            if is_given or is_place:
                self.recipes.add(name)
            elif i.operation in _PURE and known:
                self.recipes.add(name)
                if i.operation == "getelementptr" and i.operands[-1] in arguments:
                    arguments.add(name)

    def _find_varying(self) -> None:
        """Grow the set of values that differ between lanes until nothing changes."""
        size = -1
        while size != len(self.varying):
            size = len(self.varying)
            joined = self._joined()
            for name, i in self._flow.definitions.items():
                if name not in self.varying and self._varies(name, i, joined):
                    self.varying.add(name)

    def _varies(self, name: str, i: Instruction, joined: frozenset[str]) -> bool:
        if self.is_field(i):
            first = self.field_offset(i)
            type_ = i.text.split()[1].rstrip(",")
            if type_ not in _FIELD_BYTES:
                raise UnknownAssemblyError(i.text)
            return not _VARYING.isdisjoint(range(first, first + _FIELD_BYTES[type_]))
        if i.callee == "@kw_threadgroup_alloc" or name in self.fields:
            return False
        if i.operation in ("alloca", "atomicrmw", "cmpxchg") or "volatile" in i.text:
            return True
        if i.operation == "call" and not i.callee.startswith("@llvm."):
            return True
        if i.operation == "load" and "atomic" in i.text:
            return True
        if i.operation == "phi" and self._flow.home[name] in joined:
            return True
        return any(o in self.varying for o in i.operands)

    def _joined(self) -> frozenset[str]:
        """Return the pieces where lanes may come from different ways."""
        return frozenset().union(*(between for _, between in self.partings()))

    def partings(self) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield pieces whose end may part lanes, and the pieces where they go before they meet."""
        ends = _Ends(self._flow)
        for piece in self._flow.pieces.values():
            end = piece.terminator
            if end is None or not any(o in self.varying for o in end.operands):
                continue
            last = ends.after(piece.label)
            between, pending = set[str](), list(piece.successors)
            while pending:
                label = pending.pop()
                if label not in between:
                    between.add(label)
                    pending += () if label == last else self._flow.pieces[label].successors
            yield piece.label, frozenset(between)


class _Ends:
    """Where all ways from a piece meet again: the nearest piece that none of them avoids."""

    def __init__(self, flow: Flow) -> None:
        every = frozenset(flow.pieces)
        self._on_every_way = {
            label: every if piece.successors else frozenset((label,))
            for label, piece in flow.pieces.items()
        }
        changed = True
        while changed:
            changed = False
            for label in reversed(flow.pieces):
                ways = [self._on_every_way[s] for s in flow.pieces[label].successors]
                if not ways:
                    continue
                now = frozenset.intersection(*ways) | {label}
                if now != self._on_every_way[label]:
                    self._on_every_way[label], changed = now, True

    def after(self, label: str) -> str | None:
        """Return the nearest such piece; None where the ways end apart."""
        ways = self._on_every_way[label] - {label}
        # The nearest one has all others behind it.
        return max(ways, key=lambda w: len(self._on_every_way[w]), default=None)
