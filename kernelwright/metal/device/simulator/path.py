"""Tells the runtime where in a kernel's control flow a thread has come to wait.

Lanes of a simdgroup that have parted meet again where the branch or the loop that parted them ends.
So of those that wait at different places some come first: inside a branch before what follows it,
in an earlier round of a loop before a later one. That order is the lexicographic one of paths: for
each call on the way, the loops around it, each with its round, and the place within them.

The listing is that of clang's front end, which lays a function's blocks down in the order of the
text: a place is a line of it, and a loop stretches from its first block to the last one that leads
back there, so that what leaves a loop from within (a branch that ends in `break`) is part of a
round.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelwright.metal.device.simulator.control_flow import (
    ENTRY,
    Function,
    read_functions,
    waiting_functions,
)

MOST_PARTS = 16
"""Of a path; `MOST_PARTS` of fiber.h."""
ROUND_BITS = 40
"""The lowest of a part count rounds; the others tell the place."""
_OPERATIONS = ("@kw_simdgroup", "@kw_simdgroup_barrier")
_WORDS = re.compile(
    r"\b(?:simd_\w*|simdgroup_\w*|quad_\w*|quadgroup_\w*|__metal_simd_\w*|matmul2d\w*"
    r"|\w*cooperative_tensor)\b|#\s*include\s*\"|##"
)
_PATH, _ROUND, _PLACE, _RETURN = "@kw_path", "@kw_enter_round", "@kw_come_to", "@kw_return_from"
TOLD = (_PATH, _ROUND, _PLACE, _RETURN)
"""What is called to tell paths; nothing else is done by it."""
ROUND = "%kw.round"
"""With this begin the names of conditions by which rounds are counted."""
_EFFECTS = "nounwind willreturn memory(inaccessiblemem: readwrite)"
_DECLARATIONS = f"""
declare ptr {_PATH}() {_EFFECTS}
declare void {_ROUND}(ptr, i64, i1) {_EFFECTS}
declare void {_PLACE}(ptr, i64) {_EFFECTS}
declare void {_RETURN}(ptr) {_EFFECTS}
"""
_END = "@kw_path_end"
_ADDRESS = "call align 8 ptr @llvm.threadlocal.address.p0(ptr align 8 @kw_path_end)"
_DEFINITIONS = f"""
{_END} = external thread_local{{model}} global ptr
declare nonnull ptr @llvm.threadlocal.address.p0(ptr nonnull)
define internal ptr {_PATH}() alwaysinline nounwind {{{{
  %end = {_ADDRESS}
  %path = load ptr, ptr %end, align 8
  ret ptr %path
}}}}
define internal void {_ROUND}(ptr %at, i64 %place, i1 %again) alwaysinline nounwind {{{{
  %before = load i64, ptr %at, align 8
  %next = add i64 %before, 1
  %part = select i1 %again, i64 %next, i64 %place
  store i64 %part, ptr %at, align 8
  ret void
}}}}
define internal void {_PLACE}(ptr %at, i64 %place) alwaysinline nounwind {{{{
  store i64 %place, ptr %at, align 8
  %behind = getelementptr i8, ptr %at, i64 8
  %end = {_ADDRESS}
  store ptr %behind, ptr %end, align 8
  ret void
}}}}
define internal void {_RETURN}(ptr %path) alwaysinline nounwind {{{{
  %end = {_ADDRESS}
  store ptr %path, ptr %end, align 8
  ret void
}}}}
"""


def may_part(text: str) -> bool:
    """Return whether a text names an operation of simdgroups, or includes what may."""
    return _WORDS.search(text) is not None


def with_paths(listing: str, *, barriers: bool) -> str:
    """Return a listing, not optimised yet, that tells the path to each wait before it.

    A function with a single place that may wait, in no loop, adds nothing to what its callers say.

    Args:
        listing: LLVM's assembly, as clang's front end has made it.
        barriers: Tell it of barriers of threadgroups as well.
    """
    lines = listing.split("\n")
    functions = list(read_functions(lines))
    waits = (*_OPERATIONS, "@kw_barrier") if barriers else _OPERATIONS
    waiting = waiting_functions(functions, waits)
    flows = [flow for f in functions if (flow := _flow_of(f, waiting)) is not None]
    if not flows or _parts(functions, flows, waiting) > MOST_PARTS:
        return listing
    added: dict[int, list[str]] = {}
    for flow in flows:
        _add_path(flow, added)
    text = "\n".join("\n".join((*added.get(n, ()), line)) for n, line in enumerate(lines))
    return text + _DECLARATIONS


def with_inline_paths(listing: str, *, is_linux: bool) -> str:
    """Write what tells the paths of a listing into it, in the place of calls of the runtime."""
    if _DECLARATIONS not in listing:
        return listing
    model = "(initialexec)" if is_linux else ""
    return listing.replace(_DECLARATIONS, _DEFINITIONS.format(model=model))


@dataclass(frozen=True)
class _Loop:
    """A stretch of a function's blocks, by their numbers in its order."""

    first: int
    last: int


@dataclass(frozen=True)
class _Flow:
    """Where a function may wait, and the loops around those places."""

    function: Function
    blocks: Mapping[str, int]
    """In the order of the text."""
    loops: Sequence[_Loop]
    places: Sequence[tuple[int, str, str]]
    """Line, block and callee."""

    def line(self, block: int) -> int:
        """Return the line of a block's first instruction."""
        return self.function.first[list(self.blocks)[block]]

    def depth(self, block: int) -> int:
        """Return how many loops are around a block."""
        return sum(loop.first <= block <= loop.last for loop in self.loops)


def _flow_of(function: Function, waiting: frozenset[str]) -> _Flow | None:
    """Return a function's places; None where its callers say enough."""
    places = [call for call in function.calls if call[2] in waiting]
    blocks = {block: number for number, block in enumerate(function.successors)}
    loops = [
        loop
        for loop in _loops(function.successors, blocks)
        if any(loop.first <= blocks[block] <= loop.last for _, block, _ in places)
    ]
    if not places or (len(places) == 1 and not loops):
        return None
    return _Flow(function, blocks, loops, places)


def _loops(successors: Mapping[str, Sequence[str]], blocks: Mapping[str, int]) -> list[_Loop]:
    """Return the loops of a function; of two, one holds the other or they lie apart."""
    ends: dict[int, int] = {}
    for block, following in successors.items():
        for target in following:
            if (first := blocks[target]) <= blocks[block]:
                ends[first] = max(ends.get(first, first), blocks[block])
    loops: list[_Loop] = []
    for first in sorted(ends, reverse=True):
        # A jump back into the middle of a loop that begins before makes that one longer.
        last = max((ends[first], *(o.last for o in loops if o.first <= ends[first])))
        loops.append(_Loop(first, last))
    return loops[::-1]


def _parts(functions: Sequence[Function], flows: Sequence[_Flow], waiting: frozenset[str]) -> int:
    """Return how many parts the longest path has; one too many where a function may call itself."""
    own = {flow.function.name: flow for flow in flows}
    longest = {f.name: 0 for f in functions}
    anyone = 0
    for _ in range(MOST_PARTS + 1):
        before = dict(longest)
        for f in functions:
            flow = own.get(f.name)
            for _, block, callee in f.calls:
                if callee in waiting:
                    depth = 0 if flow is None else flow.depth(flow.blocks[block]) + 1
                    behind = longest.get(callee, 0) if callee else anyone
                    longest[f.name] = max(longest[f.name], depth + behind)
        anyone = max(longest.values())
        if longest == before or anyone > MOST_PARTS:
            return anyone
    return MOST_PARTS + 1


def _add_path(flow: _Flow, added: dict[int, list[str]]) -> None:
    """Add what a function says of its places, by the line before which it stands."""
    function = flow.function
    head = added.setdefault(function.body, [])
    head.append(f"  %kw.path = call ptr {_PATH}()")
    for loop in flow.loops:
        added.setdefault(flow.line(loop.first), []).extend(_round(flow, loop))
    for line, block, _ in flow.places:
        depth, name = flow.depth(flow.blocks[block]), f"%kw.place{line}"
        added.setdefault(line, []).extend(
            (
                f"  {name} = getelementptr i8, ptr %kw.path, i64 {8 * depth}",
                f"  call void {_PLACE}(ptr {name}, i64 {_part(function, line)})",
            )
        )

    for line in function.returns:
        added.setdefault(line, []).append(f"  call void {_RETURN}(ptr %kw.path)")


def _round(flow: _Flow, loop: _Loop) -> Iterator[str]:
    """Yield what counts the rounds of a loop, at its start."""
    function, line, name = flow.function, flow.line(loop.first), f"{ROUND}{loop.first}"
    ways = [
        (function.entry if block == ENTRY else block, flow.blocks[block] >= loop.first)
        for block, following in function.successors.items()
        for target in following
        if flow.blocks[target] == loop.first
    ]
    depth = flow.depth(loop.first) - 1
    incoming = ", ".join(f"[ {str(again).lower()}, %{label} ]" for label, again in ways)
    yield f"  {name}.again = phi i1 {incoming}"
    yield f"  {name} = getelementptr i8, ptr %kw.path, i64 {8 * depth}"
    part = _part(function, line)
    yield f"  call void {_ROUND}(ptr {name}, i64 {part}, i1 {name}.again)"


def _part(function: Function, line: int) -> int:
    return (line - function.start) << ROUND_BITS
