"""A kernel's blocks cut where its threads wait, and what is alive at each cut."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kernelwright.metal.device.simulator.wide.assembly import (
    Function,
    Instruction,
    UnknownAssemblyError,
)

StopKind = Literal["simdgroup", "simdgroup_barrier", "barrier"]
_STOPS: Mapping[str, StopKind] = {
    "@kw_simdgroup": "simdgroup",
    "@kw_simdgroup_barrier": "simdgroup_barrier",
    "@kw_barrier": "barrier",
}
_INCOMING = re.compile(r'\[ (.*?), (%(?:"[^"]*"|[-\w$.]+)) \]')


@dataclass(frozen=True)
class Stop:
    """Where threads wait; `number` counts them from 1."""

    number: int
    kind: StopKind
    arguments: tuple[str, ...]


@dataclass
class Piece:
    """A part of a basic block that is left only at its end."""

    label: str
    instructions: list[Instruction] = field(default_factory=list)
    """Without the terminator."""
    terminator: Instruction | None = None
    """None where a stop ends the piece."""
    stop: Stop | None = None
    successors: tuple[str, ...] = ()
    """After a stop: the piece that goes on."""


@dataclass(frozen=True)
class Phi:
    """A phi node of a piece: what it is on each way in."""

    result: str
    incoming: tuple[tuple[str, str], ...]
    """Value and last piece of the block that it comes from."""


class Flow:
    """A function as pieces."""

    def __init__(self, function: Function) -> None:
        """Cut a function; the pieces keep its order."""
        self.function = function
        self.stops: list[Stop] = []
        self.pieces: dict[str, Piece] = {}
        self._tails: dict[str, str] = {}
        for block in function.blocks:
            self._cut(block.label, block.instructions)
        self.home = {
            i.result: piece.label
            for piece in self.pieces.values()
            for i in piece.instructions
            if i.result
        }
        self.definitions = {
            i.result: i for piece in self.pieces.values() for i in piece.instructions if i.result
        }
        self.phis = {p.label: self._phis(p) for p in self.pieces.values()}
        self.leaving = self._leaving()
        self.start = function.blocks[0].label

    def _cut(self, label: str, instructions: list[Instruction]) -> None:
        piece = Piece(label)
        for instruction in instructions:
            kind = _STOPS.get(instruction.callee)
            if kind is not None:
                piece.stop = Stop(len(self.stops) + 1, kind, _arguments(instruction))
                self.stops.append(piece.stop)
                following = Piece(f"{label}.after.{piece.stop.number}")
                piece.successors = (following.label,)
                self.pieces[piece.label] = piece
                piece = following
            elif instruction.is_terminator:
                piece.terminator = instruction
                found = re.findall(r'label (%(?:"[^"]*"|[-\w$.]+))', instruction.text)
                piece.successors = tuple(dict.fromkeys(found))
            else:
                piece.instructions.append(instruction)
        if piece.terminator is None:
            raise UnknownAssemblyError(f"{label} has no end")
        self.pieces[piece.label] = piece
        self._tails[label] = piece.label

    def _phis(self, piece: Piece) -> tuple[Phi, ...]:
        return tuple(
            Phi(
                i.result,
                tuple((value, self._tails[label]) for value, label in _INCOMING.findall(i.text)),
            )
            for i in piece.instructions
            if i.operation == "phi"
        )

    def _leaving(self) -> dict[str, list[tuple[Phi, str]]]:
        """Return for each piece the phi nodes that it hands a value to."""
        leaving: dict[str, list[tuple[Phi, str]]] = {label: [] for label in self.pieces}
        for phis in self.phis.values():
            for phi in phis:
                for value, piece in dict.fromkeys(phi.incoming):
                    leaving[piece].append((phi, value))
        return leaving

    def uses(self, piece: Piece) -> list[str]:
        """Return the values that a piece reads, phi nodes on its ways out included."""
        read = [name for i in piece.instructions if i.operation != "phi" for name in i.operands]
        if piece.terminator is not None:
            read += piece.terminator.operands
        read += [value for _, value in self.leaving[piece.label]]
        return [name for name in read if name in self.definitions]

    def crossing(self) -> frozenset[str]:
        """Return the values that are read in another piece than their own."""
        return frozenset(
            value
            for piece in self.pieces.values()
            for value in self.uses(piece)
            if self.home[value] != piece.label
        )

    def live(self, values: frozenset[str]) -> dict[str, frozenset[str]]:
        """Return which of some crossing values each piece needs at its start."""
        needed: dict[str, frozenset[str]] = {
            label: frozenset(v for v in self.uses(p) if v in values and self.home[v] != label)
            for label, p in self.pieces.items()
        }
        own = {label: {i.result for i in p.instructions} for label, p in self.pieces.items()}
        live = dict(needed)
        changed = True
        while changed:
            changed = False
            for label in reversed(self.pieces):
                after = frozenset().union(*(live[s] for s in self.pieces[label].successors))
                now = needed[label] | (after - own[label])
                if now != live[label]:
                    live[label], changed = now, True
        return live

    def region(self, start: str) -> list[Piece]:
        """Return the pieces that a thread may run from one on until it waits or ends."""
        found, pending = {start}, [start]
        while pending:
            piece = self.pieces[pending.pop()]
            if piece.stop is None:
                more = [s for s in piece.successors if s not in found]
                found.update(more)
                pending += more
        return [p for label, p in self.pieces.items() if label in found]

    def starts(self) -> list[str]:
        """Return where each state begins: the entry, then what follows each stop."""
        after = {p.stop.number: p.successors[0] for p in self.pieces.values() if p.stop}
        return [self.start, *(after[stop.number] for stop in self.stops)]


def _arguments(call: Instruction) -> tuple[str, ...]:
    inner = call.text[call.text.index("(") + 1 : call.text.rindex(")")]
    return tuple(part.split()[-1] for part in inner.split(", "))
