"""What a kernel's pointers cannot both point into, told to LLVM on each load and store.

A thread's own arrays lie in the frame, and threadgroup variables come from calls, so that LLVM
takes any two of them for the same memory.
"""

import re
from collections.abc import Iterator

from kernelwright.metal.device.simulator.wide.assembly import Instruction, Module
from kernelwright.metal.device.simulator.wide.flow import Flow
from kernelwright.metal.device.simulator.wide.origin import PASSED_ON, Origins, pointer_of

_MOST_PLACES = 16
_HARMLESS = re.compile(r"@llvm\.(?:lifetime|assume|mem(?:cpy|move|set))\b")
_ALLOCATED = re.compile(r"@kw_threadgroup_alloc\(i32 (?:noundef )?(\d+),")


class Aliasing:
    """Scopes of the variables that are reached by pointers of known origin alone."""

    def __init__(self, module: Module, flow: Flow, numbers: Iterator[int]) -> None:
        """Look at a kernel; `numbers` gives those of new metadata nodes."""
        self._flow, self._origins = flow, Origins(module, flow.function)
        self._place_of = self._places()
        places = list(dict.fromkeys(self._place_of.values()))
        if len(places) > _MOST_PLACES:
            places, self._place_of = [], {}
        self.metadata: list[str] = []
        """The lines that define what accesses name."""
        self._own, self._others, self._all = dict[str, int](), dict[str, int](), 0
        if places:
            self._define(places, numbers)

    def of(self, access: Instruction) -> str:
        """Return what to attach to a load or a store."""
        if not self.metadata:
            return ""
        origin = self._origins.of(pointer_of(access))
        place = self._place_of.get(origin.name) if origin is not None else None
        if place is None:
            return f", !noalias !{self._all}"
        return f", !alias.scope !{self._own[place]}, !noalias !{self._others[place]}"

    def _define(self, places: list[str], numbers: Iterator[int]) -> None:
        domain = next(numbers)
        self.metadata.append(f"!{domain} = distinct !{{!{domain}}}")
        scopes = {place: next(numbers) for place in places}
        self.metadata += (f"!{n} = distinct !{{!{n}, !{domain}}}" for n in scopes.values())
        self._all = self._list(list(scopes.values()), numbers)
        for place, scope in scopes.items():
            self._own[place] = self._list([scope], numbers)
            others = [n for n in scopes.values() if n != scope]
            self._others[place] = self._list(others, numbers)

    def _list(self, scopes: list[int], numbers: Iterator[int]) -> int:
        number = next(numbers)
        self.metadata.append(f"!{number} = !{{{', '.join(f'!{n}' for n in scopes)}}}")
        return number

    def _places(self) -> dict[str, str]:
        """Return by its first pointer each variable that nothing else can point into."""
        found: dict[str, str] = {}
        lost: set[str] = set()
        for name, i in self._flow.definitions.items():
            variable = _ALLOCATED.search(i.text)
            if i.operation == "alloca":
                found[name] = name
            elif i.callee == "@kw_threadgroup_alloc":
                # Of one number there is one variable, in however many calls.
                found[name] = f"variable {variable[1]}" if variable else ""
        for name, place in found.items():
            if not place or self._escapes(name):
                lost.add(place)
        return {name: place for name, place in found.items() if place not in lost}

    def _escapes(self, root: str) -> bool:
        """Say whether a pointer into a variable goes where its origin is no longer known."""
        derived, size = {root}, 0
        while size != len(derived):
            size = len(derived)
            for name, i in self._flow.definitions.items():
                if i.operation in PASSED_ON and not derived.isdisjoint(i.operands):
                    derived.add(name)
        origins = (self._origins.of(pointer) for pointer in derived)
        if any(origin is None or origin.name != root for origin in origins):
            return True
        return any(
            not derived.isdisjoint(i.operands) and not _keeps(i, derived)
            for piece in self._flow.pieces.values()
            for i in (*piece.instructions, *((piece.terminator,) if piece.terminator else ()))
        )


def _keeps(i: Instruction, derived: set[str]) -> bool:
    """Say whether an instruction only reaches memory through a pointer, or passes it on."""
    if i.operation in PASSED_ON or i.operation in ("load", "icmp", "br"):
        return True
    if i.operation in ("store", "atomicrmw", "cmpxchg"):
        return sum(i.operands.count(name) for name in derived) == 1 and pointer_of(i) in derived
    return i.operation == "call" and bool(_HARMLESS.search(i.callee))
