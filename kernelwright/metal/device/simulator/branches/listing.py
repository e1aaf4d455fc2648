"""LLVM's listing of one kernel as blocks of instructions with their places in the text."""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kernelwright.metal.device.simulator.wide.assembly import NAME

_DEBUG = re.compile(r", !dbg !(\d+)")
_RESULT = re.compile(r'^  (%(?:"[^"]*"|[-\w$.]+)) = (.*)$')
_LABEL = re.compile(r'^("[^"]*"|[-\w$.]+):')
_LOCATION = re.compile(r"^!(\d+) = (?:distinct )?!DILocation\((.*)\)$")
_SCOPE = re.compile(r"^!(\d+) = (?:distinct )?!DI(?:Subprogram|LexicalBlock(?:File)?)\((.*)\)$")
_FILE = re.compile(r'^!(\d+) = !DIFile\(filename: "([^"]*)"')
_FIELD = re.compile(r"(\w+): !?(\d+)")
_ANNOTATION = re.compile(r", !annotation !(\d+)")
_FILL = re.compile(r'^!(\d+) = !\{!"auto-init"\}$')
_MARKS = frozenset(("tail", "musttail", "notail"))


@dataclass(frozen=True, slots=True)
class Location:
    """Where an instruction stands in the text; around it, where that was called from."""

    file: str
    line: int
    column: int


@dataclass(frozen=True)
class Instruction:
    """One instruction."""

    number: int
    """Of its line in the listing."""
    result: str
    """`%name`, empty where nothing is returned."""
    text: str
    """What stands after the `=`."""
    debug: int | None
    """Number of its place."""
    is_fill: bool = False
    """It puts the compiler's pattern into a variable that the text has not set yet."""

    @cached_property
    def operation(self) -> str:
        """The operation, such as `load`."""
        first = self.text.split(None, 1)[0]
        return "call" if first in _MARKS else first

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """Every local and global name, in order; labels among them."""
        return tuple(NAME.findall(self.text))


@dataclass
class Block:
    """A basic block."""

    label: str
    instructions: list[Instruction] = field(default_factory=list)

    @cached_property
    def successors(self) -> tuple[str, ...]:
        """Labels of the blocks that may come next."""
        last = self.instructions[-1].text
        return tuple(dict.fromkeys(re.findall(r'label (%(?:"[^"]*"|[-\w$.]+))', last)))


@dataclass
class Function:
    """A function that the listing defines."""

    name: str
    parameters: list[str]
    blocks: dict[str, Block]
    file: int | None
    """Number of its description."""

    @property
    def instructions(self) -> Iterator[Instruction]:
        """All instructions in the order of the listing."""
        for block in self.blocks.values():
            yield from block.instructions

    @cached_property
    def definitions(self) -> Mapping[str, Instruction]:
        """What defines each name."""
        return {i.result: i for i in self.instructions if i.result}


class Listing:
    """A listing's functions and places."""

    def __init__(self, lines: Sequence[str]) -> None:
        """Read a listing that was made with line tables."""
        self.lines = lines
        self.functions: list[Function] = []
        self._files: dict[int, str] = {}
        self._scopes: dict[int, dict[str, int]] = {}
        self._locations: dict[int, dict[str, int]] = {}
        self._fills: set[int] = set()
        self._read_metadata()
        self._read_functions()

    def chain(self, debug: int | None) -> tuple[Location, ...]:
        """Return where an instruction stands, then where that was called from, and so on."""
        found = []
        while debug is not None and debug in self._locations:
            fields = self._locations[debug]
            file = self.file_of(fields.get("scope"))
            found.append(Location(file, fields.get("line", 0), fields.get("column", 0)))
            debug = fields.get("inlinedAt")
        return tuple(found)

    def file_of(self, scope: int | None) -> str:
        """Return the name of the file that a scope stands in."""
        fields = self._scopes.get(scope, {}) if scope is not None else {}
        return self._files.get(fields.get("file", -1), "")

    def _read_metadata(self) -> None:
        for line in self.lines:
            if not line.startswith("!"):
                continue
            if found := _LOCATION.match(line):
                self._locations[int(found[1])] = _fields(found[2])
            elif found := _SCOPE.match(line):
                self._scopes[int(found[1])] = _fields(found[2])
            elif found := _FILE.match(line):
                self._files[int(found[1])] = found[2]
            elif found := _FILL.match(line):
                self._fills.add(int(found[1]))

    def _read_functions(self) -> None:
        function: Function | None = None
        block: Block | None = None
        pending, first = "", 0
        for number, line in enumerate(self.lines):
            if line.startswith("define "):
                function = _opened(line)
                block = next(iter(function.blocks.values()))
                self.functions.append(function)
            elif line == "}":
                if function is not None:
                    function.blocks = {n: b for n, b in function.blocks.items() if b.instructions}
                function = block = None
            elif function is None or block is None:
                continue
            elif label := _LABEL.match(line):
                block = Block(f"%{label[1]}")
                function.blocks[block.label] = block
            elif line.startswith("  ") and "#dbg_" not in line:
                first = number if not pending else first
                pending = f"{pending} {line.strip()}" if pending else line
                if pending.startswith("  switch ") and "]" not in line:
                    continue
                block.instructions.append(_instruction(first, pending, self._fills))
                pending = ""


def _fields(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in _FIELD.findall(text)}


def _opened(line: str) -> Function:
    opens = line.index("(", line.index("@") if '@"' not in line else line.index('"(', 0))
    name = NAME.findall(line[:opens])[-1]
    rest = line[opens:]
    parameters = [n for n in NAME.findall(rest) if n[0] == "%"]
    found = re.search(r"!dbg !(\d+)", rest)
    label = f"%{len(parameters)}"
    return Function(name, parameters, {label: Block(label)}, int(found[1]) if found else None)


def _instruction(number: int, line: str, fills: Container[int]) -> Instruction:
    found = _RESULT.match(line)
    text = found[2] if found else line.strip()
    debug, annotation = _DEBUG.search(text), _ANNOTATION.search(text)
    return Instruction(
        number,
        found[1] if found else "",
        text.partition(", !")[0],
        int(debug[1]) if debug else None,
        annotation is not None and int(annotation[1]) in fills,
    )
