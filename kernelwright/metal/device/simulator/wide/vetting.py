"""What the accesses of a kernel that is to be vetted are accesses to."""

import re
from dataclasses import dataclass
from math import gcd

from kernelwright.metal.device.simulator.wide.assembly import (
    Instruction,
    Module,
    NotWidenedError,
    UnknownAssemblyError,
)
from kernelwright.metal.device.simulator.wide.flow import Flow
from kernelwright.metal.device.simulator.wide.marked import MARK
from kernelwright.metal.device.simulator.wide.origin import Origin, Origins, pointer_of
from kernelwright.metal.device.simulator.wide.ramp import Ramps
from kernelwright.metal.device.simulator.wide.uniform import Uniformity

MOST_VARIABLES = 32
MOST_TRACES = 64
"""Of one access."""
_FIRST_VARIABLE = 96
"""Tracks of threadgroup variables follow those of all arguments; `Vet` of vet.h."""
INSTANCES_AT = (8, 16)
TRACKS_AT, TRACK_BYTES = 32, 64
"""Where Findings of vet.h has its instances and its tracks, and how large each is."""
_WIDEST_GRAIN = 16
_MARKED_BYTES = (1, 2, 4, 8, 16)
INSTRUMENTED = "@__tsan_"


@dataclass
class Tracked:
    """A buffer or a threadgroup variable, and what all accesses to it have in common."""

    slot: int
    id: int = 0
    size: int = 0
    """In bytes; 0 where the launch decides."""
    alignment: int = 0
    grain: int = _WIDEST_GRAIN
    """Bytes that one trace stands for: no access touches a part of them."""
    widest: int = 0
    is_read: bool = False
    is_written: bool = False

    @property
    def is_variable(self) -> bool:
        """Say whether it is a threadgroup variable."""
        return self.slot >= _FIRST_VARIABLE

    @property
    def has_traces(self) -> bool:
        """Say whether it matters who accesses it: nobody writes what needs none."""
        return self.is_written or self.is_variable

    @property
    def scale(self) -> int:
        """Return log2 of a trace's distance to the next over that of the grains."""
        return max(2 - self.grain.bit_length() + 1, 0)


class Vetting:
    """Every access of a kernel, and what it is an access to."""

    def __init__(self, module: Module, flow: Flow, uniformity: Uniformity) -> None:
        """Look at a kernel.

        Raises:
            UnknownAssemblyError: an access cannot be vetted.
        """
        self.module, self.flow, self.uniformity = module, flow, uniformity
        self.ramps = Ramps(module, flow, uniformity)
        self.origins = Origins(module, flow.function)
        self.tracked: dict[tuple[int, int, int], Tracked] = {}
        """By kind and number, or id and size of a variable."""
        self.first: dict[tuple[int, int, int], str] = {}
        """A value that holds the address of each."""
        for piece in flow.pieces.values():
            for i in piece.instructions:
                if i.callee.startswith(INSTRUMENTED):
                    self._note(i)
                elif i.operation in ("load", "store"):
                    self._refuse_unmarked(i)
        if any(t.widest > MOST_TRACES * t.grain for t in self.tracked.values()):
            raise NotWidenedError("an access needs too many traces")

    def _note(self, i: Instruction) -> None:
        mark = MARK.match(i.callee)
        if mark is None:
            raise UnknownAssemblyError(i.text)
        tracked = self.of(pointer_of(i))
        if tracked is not None:
            width = int(mark[3])
            tracked.grain = gcd(tracked.grain, width)
            tracked.widest = max(tracked.widest, width)
            tracked.is_read |= "read" in mark[2]
            tracked.is_written |= "write" in mark[2]

    def _refuse_unmarked(self, i: Instruction) -> None:
        """Refuse an access of which the sanitizing build marks none: it may leave its buffer."""
        type_, _ = self._accessed(i)
        count, _, element = type_[1:-1].partition(" x ") if type_[0] == "<" else ("1", "", type_)
        size = int(count) * self.module.layout(element)[0] if element[0] != "<" else 0
        origin = self.origins.of(pointer_of(i))
        is_own = origin is not None and origin.kind in ("stack", "attributes")
        if size not in _MARKED_BYTES and not is_own:
            raise UnknownAssemblyError(f"{i.text} is not marked")

    def _accessed(self, i: Instruction) -> tuple[str, int]:
        text = i.text.replace(" volatile", "", 1).replace(" atomic", "", 1)
        return self.module.read_type(text, len(i.operation) + 1)

    def of(self, pointer: str) -> Tracked | None:
        """Return what a pointer points into; None for a thread's own variables.

        Raises:
            UnknownAssemblyError: that is not known.
        """
        origin = self.origins.of(pointer)
        if origin is None:
            raise NotWidenedError(f"an access may be to any buffer ({pointer})")
        if origin.kind == "stack":
            return None
        if origin.kind == "attributes":
            raise NotWidenedError(f"{pointer} points to a thread's attributes")
        key = self._key(origin)
        if key not in self.tracked:
            self.tracked[key] = self._make(origin, key)
            self.first[key] = origin.name
        return self.tracked[key]

    def _key(self, origin: Origin) -> tuple[int, int, int]:
        if origin.kind == "buffer":
            return (0, origin.number, 0)
        id_, size, _ = _allocated(self.origins.definitions[origin.name])
        return (1, id_, size)

    def _make(self, origin: Origin, key: tuple[int, int, int]) -> Tracked:
        if origin.kind == "buffer":
            return Tracked(origin.number)
        slot = _FIRST_VARIABLE + sum(t.is_variable for t in self.tracked.values())
        if slot == _FIRST_VARIABLE + MOST_VARIABLES:
            raise NotWidenedError("too many threadgroup variables")
        id_, size, alignment = _allocated(self.origins.definitions[origin.name])
        return Tracked(slot, id_, size, alignment)

    def name_of(self, tracked: Tracked) -> str:
        """Return a value that holds where something begins."""
        return next(self.first[key] for key, t in self.tracked.items() if t is tracked)

    def place_of_variable(self, i: Instruction) -> int | None:
        """Return where a track holds the address of a variable; None where it has no track."""
        id_, size, _ = _allocated(i)
        tracked = self.tracked.get((1, id_, size))
        return None if tracked is None else TRACKS_AT + tracked.slot * TRACK_BYTES

    def own_place(self, i: Instruction) -> tuple[str, str, int] | None:
        """Return pointer, variable and width of an access to a thread's variable that may miss."""
        if i.operation not in ("load", "store") or "atomic" in i.text:
            return None
        pointer = pointer_of(i)
        origin = self.origins.of(pointer)
        if origin is None or origin.kind != "stack" or self.origins.offset(pointer) is not None:
            return None
        return pointer, origin.name, self.module.layout(self._accessed(i)[0])[0]

    def table(self) -> list[tuple[int, ...]]:
        """Return the records of `Tracked` in vet.h."""
        return [
            (t.slot, t.id, t.size, t.alignment, t.grain, t.scale, int(t.is_read), int(t.is_written))
            for t in self.tracked.values()
        ]


def _allocated(i: Instruction) -> tuple[int, int, int]:
    """Return id, size and alignment of a threadgroup variable."""
    found = re.findall(r"i(?:32|64) (?:noundef )?(\d+)", i.text)
    if len(found) != 3:
        raise UnknownAssemblyError(i.text)
    id_, size, alignment = map(int, found)
    return id_, size, alignment
