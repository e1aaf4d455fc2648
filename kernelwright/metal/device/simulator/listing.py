"""What each basic block of a kernel computes, read from the LLVM listing of a counting build."""

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.metal.device.simulator.loop_order import Place, loop_order
from kernelwright.metal.device.simulator.sound_arithmetic import GUARD

_GUARDS = re.compile(r"^@(__sancov_gen_[.\w]*) = .*?\[(\d+) x i32\]")
_GUARD = re.compile(
    r"@__sanitizer_cov_trace_pc_guard\(ptr (?:getelementptr inbounds[^@]*)?@(__sancov_gen_[.\w]*)"
    r"(?:, i64 0, i64 (\d+)|, i64 (\d+))?"
)
_INSTRUCTION = re.compile(r"^\s+(?:%\S+ = )?(?:tail |musttail |notail )?(\w+) (.*)$")
_LOCATION = re.compile(r"!DILocation\(line: (\d+),.*? scope: (!\d+)")
_FILE_NAME = re.compile(r'!DIFile\(filename: "([^"]*)"')
_SCOPE_FILE = re.compile(r"!DI(?:Subprogram|LexicalBlock|LexicalBlockFile)\(.*? file: (!\d+)")
_LANES = re.compile(r"<(\d+) x ")
_LABEL = re.compile(r'^("[^"]*"|[-\w$.]+):')
_TARGET = re.compile(r'\blabel %("[^"]*"|[-\w$.]+)')
_ADDED = f"  {GUARD}"
_ENTRY = "entry of the function"
_FLOAT = frozenset(("fadd", "fsub", "fmul", "fneg", "fcmp"))
_INTEGER = frozenset(
    (
        *("add", "sub", "mul", "shl", "lshr", "ashr", "and", "or", "xor", "icmp"),
        *("sdiv", "udiv", "srem", "urem", "fptosi", "fptoui", "sitofp", "uitofp"),
    )
)
_SPECIAL = frozenset(("fdiv", "frem"))
_CALL = re.compile(r"@llvm\.(\w+)")
_FUSED = frozenset(("fma", "fmuladd"))
_SIMPLE_CALLS = frozenset(
    (
        *("fabs", "copysign", "minnum", "maxnum", "minimum", "maximum", "minimumnum"),
        *("maximumnum", "floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven"),
    )
)
_SPECIAL_CALLS = frozenset(
    ("sqrt", "exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "pow")
)
_INTEGER_CALLS = frozenset(
    (
        *("smin", "smax", "umin", "umax", "abs", "ctlz", "cttz", "ctpop", "bswap", "fshl", "fshr"),
        *("fptosi", "fptoui"),
    )
)


@dataclass(frozen=True, slots=True)
class Mix:
    """Operations of one thread in one run of a block; a fused multiply-add counts two."""

    floats: int = 0
    specials: int = 0
    integers: int = 0

    @property
    def operations(self) -> int:
        """All of them."""
        return self.floats + self.specials + self.integers

    def __add__(self, other: "Mix") -> "Mix":
        """Return both together."""
        return Mix(
            self.floats + other.floats,
            self.specials + other.specials,
            self.integers + other.integers,
        )


@dataclass(frozen=True, slots=True)
class Listing:
    """What a counting build's blocks compute, in the order that numbers them."""

    mixes: tuple[Mix, ...]
    lines: tuple[Mapping[tuple[str, int], int], ...]
    """Operations by file and line; those of no known line are left out."""
    places: tuple[Place, ...] = ()


@functools.lru_cache(maxsize=64)
def read_listing(listing: Path) -> Listing:
    """Read the mix of each instrumented block and the lines that it comes from.

    The instrumentation gives every function an array of guards, and the linker lays the arrays
    down in the order of the listing. A block is what follows a guard up to the next one.
    """
    first: dict[str, int] = {}
    mixes: list[Mix] = []
    found_at: list[Counter[str]] = []
    lines_of = _Lines()
    flow = _Flow()
    block: int | None = None
    with listing.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if found := _GUARDS.match(line):
                first[found[1]] = len(mixes)
                mixes.extend([Mix()] * int(found[2]))
                found_at.extend(Counter() for _ in range(int(found[2])))
            elif found := _GUARD.search(line):
                index = found[2] or found[3] or "0"
                step = 1 if found[2] else 4
                block = first[found[1]] + int(index) // step
                flow.guard(block)
            elif line.startswith("define "):
                flow.open()
            elif line.startswith("}"):
                block = None
                flow.close()
            elif line.startswith("!"):
                lines_of.add(line)
            elif label := _LABEL.match(line):
                flow.label(label[1])
            elif targets := _TARGET.findall(line):
                flow.leave(targets)
            elif block is not None and (mix := _mix(line)) is not None:
                mixes[block] += mix
                found_at[block][line.rpartition("!dbg ")[2].rstrip()] += mix.operations
    places = tuple(flow.places.get(i, Place(0)) for i in range(len(mixes)))
    return Listing(tuple(mixes), tuple(map(lines_of.by_line, found_at)), places)


class _Flow:
    """The order of all functions' blocks, read line by line."""

    def __init__(self) -> None:
        self.places: dict[int, Place] = {}
        self._last = 0
        self._block = ""
        self._successors: dict[str, list[str]] = {}
        self._guards: dict[str, int] = {}

    def open(self) -> None:
        """Begin a function."""
        self._block = _ENTRY
        self._successors, self._guards = {_ENTRY: []}, {}

    def label(self, label: str) -> None:
        """Begin a block."""
        self._block = label
        self._successors[label] = []

    def guard(self, number: int) -> None:
        """Take in a guard; one that is not a block's first begins a block of its own."""
        if self._block in self._guards:
            self._successors[self._block].append(joined := f"guard {number}")
            self.label(joined)
        self._guards[self._block] = number

    def leave(self, targets: Sequence[str]) -> None:
        """Take in a terminator, or a line of one."""
        self._successors[self._block] += targets

    def close(self) -> None:
        """End a function."""
        placed = loop_order(self._successors, _ENTRY, self._last + 1)
        self._last = max(p.end for p in placed.values())
        self.places |= {self._guards[b]: p for b, p in placed.items() if b in self._guards}


class _Lines:
    """The listing's own table of lines: locations, the scopes they lie in, and their files."""

    def __init__(self) -> None:
        self._locations: dict[str, tuple[int, str]] = {}
        self._files_of: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def add(self, line: str) -> None:
        """Take in a line of the table."""
        key = line.partition(" ")[0]
        if found := _LOCATION.search(line):
            self._locations[key] = int(found[1]), found[2]
        elif found := _FILE_NAME.search(line):
            self._names[key] = found[1].rpartition("/")[2]
        elif found := _SCOPE_FILE.search(line):
            self._files_of[key] = found[1]

    def by_line(self, operations: Mapping[str, int]) -> Mapping[tuple[str, int], int]:
        """Return the operations of locations by file and line."""
        found = Counter[tuple[str, int]]()
        for location, count in operations.items():
            line, scope = self._locations.get(location, (0, ""))
            if file := self._names.get(self._files_of.get(scope, ""), ""):
                found[file, line] += count
        return found


def _mix(line: str) -> Mix | None:
    found = _INSTRUCTION.match(line)
    if found is None or line.startswith(_ADDED):
        return None
    operation, rest = found[1], found[2]
    lanes = int(width[1]) if (width := _LANES.search(rest.partition("(")[0])) else 1
    if operation in _FLOAT:
        return Mix(floats=lanes)
    if operation in _INTEGER:
        return Mix(integers=lanes)
    if operation in _SPECIAL:
        return Mix(specials=lanes)
    if operation != "call" or (called := _CALL.search(rest)) is None:
        return None
    return _call_mix(called[1], lanes)


def _call_mix(name: str, lanes: int) -> Mix | None:
    if name in _FUSED:
        return Mix(floats=2 * lanes)
    if name in _SIMPLE_CALLS:
        return Mix(floats=lanes)
    if name in _SPECIAL_CALLS:
        return Mix(specials=lanes)
    return Mix(integers=lanes) if name in _INTEGER_CALLS else None
