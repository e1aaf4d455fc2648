"""A build that counts its own work: back edges of loops, beside what the runtime counts.

It is compiled from the listing of the plain build, once that is optimised, so that what it counts
is what ran: a loop of vectors has as many back edges as rounds.
"""

import re
from collections.abc import Iterator, Sequence

from kernelwright.metal.device.simulator.control_flow import back_edges

_LABEL = re.compile(r'^("[^"]*"|[-\w$.]+):')
_TARGET = re.compile(r'\blabel (%(?:"[^"]*"|[-\w$.]+))')
_ENTRY = "%entry of the function"
_TERMINATORS = ("  br ", "  switch ", "  indirectbr ", "  invoke ")
_EXCHANGE = re.compile(r"@\S*kw_(?:dense_)?exchange\S*3runE")
"""What an operation of a simdgroup does for all of its lanes: their wait is counted for it."""
_TICK = "  call void @kw_tick()"
_DEFINITIONS = """
@kw_work_left = external thread_local{model} global i64
declare void @kw_work_spent() cold
define internal void @kw_tick() alwaysinline nounwind {{
  %left = call align 8 ptr @llvm.threadlocal.address.p0(ptr align 8 @kw_work_left)
  %before = load i64, ptr %left, align 8
  %after = add i64 %before, -1
  store i64 %after, ptr %left, align 8
  %is_spent = icmp slt i64 %after, 0
  br i1 %is_spent, label %spent, label %end, !prof !{{!"branch_weights", i32 1, i32 1048575}}
spent:
  call void @kw_work_spent()
  br label %end
end:
  ret void
}}
{declaration}
"""
_ADDRESS_OF = "declare nonnull ptr @llvm.threadlocal.address.p0(ptr nonnull)"


def metered(listing: str, *, is_linux: bool) -> str:
    """Count one unit of work at each back edge of a listing.

    Args:
        listing: LLVM's assembly, optimised.
        is_linux: The runtime's counter has a fixed place beside each thread.
    """
    lines = listing.split("\n")
    start, marked = -1, set[int]()
    for number, line in enumerate(lines):
        if line.startswith("define "):
            start = -1 if _EXCHANGE.search(line) else number
        elif line == "}" and start >= 0:
            marked |= set(_latches(lines, start + 1, number))
            start = -1
    ticked = (f"{_TICK}\n{line}" if n in marked else line for n, line in enumerate(lines))
    declaration = "" if _ADDRESS_OF.split("@")[1].split("(")[0] in listing else _ADDRESS_OF
    model = "(initialexec)" if is_linux else ""
    return "\n".join(ticked) + _DEFINITIONS.format(model=model, declaration=declaration)


def _latches(lines: Sequence[str], start: int, end: int) -> Iterator[int]:
    """Yield the lines of a function's terminators that may lead back to a block on their way."""
    successors: dict[str, list[str]] = {_ENTRY: []}
    terminators: dict[str, int] = {}
    block, is_inside = _ENTRY, False
    for number in range(start, end):
        line = lines[number]
        if label := _LABEL.match(line):
            block, is_inside = f"%{label[1]}", False
            successors[block] = []
        elif line.startswith(_TERMINATORS):
            is_inside = True
            terminators[block] = number
        if is_inside:
            successors[block] += _TARGET.findall(line)
    returning = {block for block, _ in back_edges(successors, _ENTRY)}
    yield from (terminators[b] for b in returning if b in terminators)
