"""Functions of a listing that clang has made: their blocks, their calls, their loops."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_NAME = r"(?:\"[^\"]*\"|[-\w$.]+)"
_HEAD = re.compile(rf"^define .*?(@{_NAME})\(")
_LABEL = re.compile(rf"^({_NAME}):")
_TARGET = re.compile(rf"\blabel %({_NAME})")
CALL = re.compile(rf"^  (?:%{_NAME} = )?(?:(?:tail|musttail|notail) )?call [^@]*?(@{_NAME})\(")
"""A call of a function by its name, which it captures."""
_INDIRECT = re.compile(rf"^  (?:%{_NAME} = )?(?:(?:tail|musttail|notail) )?call [^@(]*%{_NAME}\(")
_TERMINATORS = ("  br ", "  switch ", "  indirectbr ", "  ret ", "  unreachable")
_UNNAMED = re.compile(r"[ *]%\d+(?=[,)])")
ENTRY = "entry of the function"
"""Stands for a function's first block, which has no label where its number is left out."""


@dataclass
class Function:
    """A function's places in the listing, by the numbers of its lines."""

    name: str
    start: int
    """Its head, and after it the first instruction and the end."""
    body: int
    entry: str
    """The label of its first block, where the listing leaves it out."""
    end: int = 0
    calls: list[tuple[int, str, str]] = field(default_factory=list)
    """Line, block and callee; the callee is empty where a pointer names it."""
    successors: dict[str, list[str]] = field(default_factory=lambda: {ENTRY: []})
    """Of each block, in the order of the listing."""
    first: dict[str, int] = field(default_factory=dict)
    """The first instruction of each block that is no phi."""
    terminators: dict[str, int] = field(default_factory=dict)
    returns: list[int] = field(default_factory=list)


def read_functions(lines: Sequence[str]) -> Iterator[Function]:
    """Yield the functions that a listing defines."""
    function: Function | None = None
    block, is_over = ENTRY, False
    for number, line in enumerate(lines):
        if found := _HEAD.match(line) if line.startswith("define ") else None:
            entry = str(len(_UNNAMED.findall(line)))
            function = Function(found[1], number, number + 1, entry)
            block, is_over = ENTRY, False
        elif function is None:
            continue
        elif line == "}":
            function.end = number
            yield function
            function = None
        elif label := _LABEL.match(line):
            block, is_over = label[1], False
            function.successors[block] = []
            if number == function.body:
                function.body = number + 1
                function.successors[ENTRY].append(block)
        elif line.startswith("  ") and " = phi " not in line:
            function.first.setdefault(block, number)
            is_over = _read(function, block, number, line, is_over=is_over)


def _read(function: Function, block: str, number: int, line: str, *, is_over: bool) -> bool:
    """Take in an instruction; say whether it ends its block."""
    if line.startswith("  ret "):
        function.returns.append(number)
    if is_over or line.startswith(_TERMINATORS):
        # The cases of a switch have lines of their own.
        function.terminators.setdefault(block, number)
        function.successors[block] += _TARGET.findall(line)
        return True
    if " call " in line or line.startswith("  call "):
        if found := CALL.match(line):
            function.calls.append((number, block, found[1]))
        elif _INDIRECT.match(line):
            function.calls.append((number, block, ""))
    return False


def waiting_functions(functions: Sequence[Function], waits: Collection[str]) -> frozenset[str]:
    """Return the functions in which a thread may come to one of some waits.

    Those are among them, and "" for what a pointer names.
    """
    waiting, size = {*waits, ""}, 0
    while size != len(waiting):
        size = len(waiting)
        waiting.update(f.name for f in functions if any(c in waiting for _, _, c in f.calls))
    return frozenset(waiting)


def back_edges(successors: Mapping[str, Sequence[str]], entry: str) -> Iterator[tuple[str, str]]:
    """Yield each edge to a block that is being visited, depth first from `entry`."""
    done: set[str] = set()
    on_path = {entry}
    path = [(entry, iter(successors[entry]))]
    while path:
        block, rest = path[-1]
        following = next(rest, None)
        if following is None:
            path.pop()
            on_path.discard(block)
            done.add(block)
        elif following in on_path:
            yield block, following
        elif following not in done:
            on_path.add(following)
            path.append((following, iter(successors.get(following, ()))))


def natural_loops(successors: Mapping[str, Sequence[str]], entry: str) -> dict[str, set[str]]:
    """Return the blocks of each loop, by its first one."""
    latches: dict[str, set[str]] = {}
    for block, header in back_edges(successors, entry):
        latches.setdefault(header, set()).add(block)
    predecessors: dict[str, list[str]] = {}
    for block, following in successors.items():
        for target in following:
            predecessors.setdefault(target, []).append(block)
    return {h: _body(h, ends, predecessors) for h, ends in latches.items()}


def _body(header: str, ends: set[str], predecessors: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the blocks from which a loop's ends are reached without its first one."""
    body, pending = {header, *ends}, [end for end in ends if end != header]
    while pending:
        more = set(predecessors.get(pending.pop(), ())) - body
        body |= more
        pending += more
    return body
