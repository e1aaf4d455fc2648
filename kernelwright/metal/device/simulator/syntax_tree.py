"""clang's syntax tree of a text, read from its dump: what each expression is, and of which type."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kernelwright.metal.msl.diagnose import Place

_LINE = re.compile(r"^([| `-]*)(\w+) (0x[0-9a-f]+) (.*)$")
_BASE = re.compile(r"^([| `-]*)(?:virtual )?(?:public|protected|private) ('.*)$")
_PREFIX = re.compile(r"(?:parent 0x[0-9a-f]+ )?(?:prev (0x[0-9a-f]+) )?")
_OWN = re.compile(
    r"\bkw_call_(\w+) 'void \(void \*const \*, const struct kw_thread \*\)'"
    r"(?P<is_instance>.* implicit_instantiation)?"
)
"""What the front end adds for each kernel, once."""
_QUOTED = re.compile(r"'([^']*)'(?::'([^']*)')?")
_PLACE = re.compile(r"(?:(?P<file>[^<>\s][^<>]*?):)?(?P<line>\d+):(?P<column>\d+)$")
_NAMED_PLACE = re.compile(r"(?:.*:)?\d+:\d+|col:\d+")
_CAST = re.compile(r"<(\w+)(?: \([^)]*\))?>")
_TARGET = re.compile(r"(?:->|\.)?\w* ?(0x[0-9a-f]+)")


@dataclass(eq=False)
class Node:
    """One declaration, statement or expression."""

    kind: str
    address: str
    place: Place | None
    """Where it begins, in the text as clang was given it."""
    details: str
    """The rest of its line: names, types, kinds of casts, operators."""
    parent: "Node | None" = None
    children: list["Node"] = field(default_factory=list)
    previous: str = ""
    """The address of an earlier declaration of the same thing; empty for the first."""

    @cached_property
    def type(self) -> str:
        """The type of a declaration or an expression, without typedefs; empty where it has none."""
        found = _QUOTED.search(self.details)
        return (found[2] or found[1]) if found else ""

    @cached_property
    def cast(self) -> str:
        """What a cast does, such as `PointerToIntegral`; empty for all else."""
        # The last: before it may stand the type that is named by the cast.
        found = _CAST.findall(self.details) if self.kind.endswith("CastExpr") else ()
        return found[-1] if found else ""

    @cached_property
    def operator(self) -> str:
        """What a binary operator does, such as `<=`."""
        found = re.search(r"' '([^' \w]+)'", self.details)
        return found[1] if found else ""

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Addresses of the declarations that an expression names."""
        return tuple(_TARGET.findall(self.details))

    def walk(self) -> Iterator["Node"]:
        """Yield the node and all below it."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def ancestors(self) -> Iterator["Node"]:
        """Yield the nodes around this one, innermost first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


def read_tree(dump: str, files: frozenset[str], callers: Mapping[str, int]) -> tuple[Node, ...]:
    """Read what `-ast-dump` prints.

    Args:
        dump: The compiler's standard output.
        files: Names of the files whose places count; a node that begins elsewhere, as macros of
            headers do, has the place of the node around it.
        callers: How many functions the front end has added for each kernel's name.

    Returns:
        All nodes, each before those below it.
    """
    added = Counter(
        found[1]
        for line in dump.splitlines()
        if "FunctionDecl 0x" in line and (found := _OWN.search(line)) and not found["is_instance"]
    )
    reader = _Reader(
        files, frozenset(name for name, count in callers.items() if added[name] == count)
    )
    for line in dump.splitlines():
        reader.read(line)
    return tuple(reader.nodes)


class _Reader:
    """clang prints of each place only what differs from the place before."""

    def __init__(self, files: frozenset[str], own: frozenset[str]) -> None:
        self._files, self._own = files, own
        self._file, self._line = "", 0
        self._open: list[tuple[int, Node]] = []
        self._hidden: Node | None = None
        """A node of the front end's own, which hides what stands below it."""
        self.nodes: list[Node] = []

    def read(self, line: str) -> None:
        """Take one line of the dump; those of no node, such as types, are passed over."""
        match = _LINE.match(line)
        if match is None:
            if base := _BASE.match(line):
                self._add(len(base[1]), Node("Base", "", None, base[2]))
            return
        indent, kind, address, rest = match.groups()
        prefix = _PREFIX.match(rest)
        begin, details = self._places(rest[prefix.end() if prefix is not None else 0 :])
        previous = (prefix[1] or "") if prefix is not None else ""
        self._add(len(indent), Node(kind, address, begin, details, previous=previous))

    def _add(self, depth: int, node: Node) -> None:
        while self._open and self._open[-1][0] >= depth:
            self._open.pop()
        parent = self._open[-1][1] if self._open else None
        self._open.append((depth, node))
        if self._hidden is not None and self._hidden in (n for _, n in self._open[:-1]):
            return
        if self._is_own(node):
            self._hidden = node
            return
        self._hidden = None
        node.parent = parent
        if parent is not None:
            node.place = node.place or parent.place
            parent.children.append(node)
        self.nodes.append(node)

    def _is_own(self, node: Node) -> bool:
        """Say whether a node is the front end's, or repeats what stands elsewhere in the tree.

        Entries come from a macro of a header, and have no place in the text.
        """
        if node.kind == "FunctionDecl":
            found = _OWN.search(node.details)
            return found is not None and found[1] in self._own
        is_entry = node.kind == "LinkageSpecDecl" and node.place is None
        return is_entry or node.kind == "CXXDefaultArgExpr"

    def _places(self, rest: str) -> tuple[Place | None, str]:
        """Return where a node begins or, for a declaration, its name stands; and what follows."""
        start = 0 if rest.startswith("<") else -1
        if start < 0:
            return None, rest
        stop = _closing(rest, start)
        ends = [self._place(text) for text in _split(rest[start + 1 : stop])]
        details = rest[stop + 1 :].lstrip()
        name, _, after = details.partition(" ")
        if ":" in name and _NAMED_PLACE.fullmatch(name):
            named = self._place(name)
            return named or (ends[0] if ends else None), after
        return (ends[0] if ends else None), details

    def _place(self, text: str) -> Place | None:
        if text.startswith("col:"):
            column = int(text[4:])
        elif match := _PLACE.match(
            text.removeprefix("line:") if text.startswith("line:") else text
        ):
            self._file = match["file"] or self._file
            self._line, column = int(match["line"]), int(match["column"])
        else:
            return None
        return Place(self._file, self._line, column) if self._file in self._files else None


def _closing(text: str, start: int) -> int:
    """Return the place of the bracket that closes the one at `start`."""
    first = text.find(">", start)
    if first > 0 and text.find("<", start + 1, first) < 0:
        return first
    depth = 0
    for index in range(start, len(text)):
        depth += {"<": 1, ">": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return len(text)


def _split(text: str) -> Sequence[str]:
    return text.split(", ")


def operands(node: Node) -> tuple[Node, ...]:
    """Return an operator's operands, without what only stands around them."""
    return tuple(bare(child) for child in node.children)


def bare(node: Node) -> Node:
    """Return what brackets, loads and qualifications stand around."""
    while len(node.children) == 1 and (
        node.kind in ("ParenExpr", "ExprWithCleanups", "MaterializeTemporaryExpr")
        or node.cast in ("LValueToRValue", "NoOp")
    ):
        node = node.children[0]
    return node


def pointee(type_: str) -> str | None:
    """Return what a pointer's type points to; None for another type."""
    # A pointer to an array is written around its name.
    type_ = re.sub(r"(?:__\w+ )?\(\*\)\[.*\]$", "*", type_)
    found = re.fullmatch(r"(.*)\*\s*(?:const|volatile|__restrict|\s)*", type_)
    return found[1].strip() if found else None


def called(node: Node) -> str:
    """Return the first declaration that an expression names, with its type."""
    return next((n.details for n in node.walk() if n.kind == "DeclRefExpr"), "")
