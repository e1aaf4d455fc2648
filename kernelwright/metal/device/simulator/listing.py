"""What each basic block of a kernel computes, read from the LLVM listing of a counting build."""

import functools
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
    ("smin", "smax", "umin", "umax", "abs", "ctlz", "cttz", "ctpop", "bswap", "fshl", "fshr")
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


@functools.lru_cache(maxsize=64)
def read_listing(listing: Path) -> Listing:
    """Read the mix of each instrumented block and the lines that it comes from.

    The instrumentation gives every function an array of guards, and the linker lays the arrays
    down in the order of the listing. A block is what follows a guard up to the next one.
    """
    first: dict[str, int] = {}
    mixes: list[Mix] = []
    found_at: list[Counter[str]] = []
    places = _Places()
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
            elif line.startswith("}"):
                block = None
            elif line.startswith("!"):
                places.add(line)
            elif block is not None and (mix := _mix(line)) is not None:
                mixes[block] += mix
                found_at[block][line.rpartition("!dbg ")[2].rstrip()] += mix.operations
    return Listing(tuple(mixes), tuple(map(places.by_line, found_at)))


class _Places:
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
    if found is None:
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
