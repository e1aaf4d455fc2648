"""LLVM's assembly as records: types, instructions and functions, as far as widening needs them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

# https://llvm.org/docs/LangRef.html#identifiers
NAME = re.compile(r'[%@](?:"[^"]*"|[-\w$.]+)')
_DEFINED_TYPE = re.compile(r'^(%(?:"[^"]*"|[-\w$.]+)) = type (.*)$')
_DEFINED_NAME = re.compile(r'(@(?:"[^"]*"|[-\w$.]+))\(')
_LABEL = re.compile(r'^("[^"]*"|[-\w$.]+):')
_RESULT = re.compile(r'^  (%(?:"[^"]*"|[-\w$.]+)) = (.*)$')
_SCALAR = re.compile(r"(?:i\d+|half|bfloat|float|double|ptr(?: addrspace\(\d+\))?|void)\b")
_BYTES = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8}
_CLOSING = {"<": ">", "[": "]", "{": "}"}
_ATTACHED = re.compile(r", ![\w.]+ !(?:\d+|\{\})")

_BINARY = frozenset(
    (
        *("add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr"),
        *("and", "or", "xor", "fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "freeze"),
    )
)
_CASTS = frozenset(
    (
        *("trunc", "zext", "sext", "fptrunc", "fpext", "fptoui", "fptosi", "uitofp", "sitofp"),
        *("ptrtoint", "inttoptr", "bitcast", "addrspacecast"),
    )
)


class UnknownAssemblyError(Exception):
    """The assembly holds something that is not read here, so the kernel stays as it is."""

    @property
    def reason(self) -> str:
        """Why a kernel stays on fibers."""
        return f"this of LLVM's assembly is not understood: {str(self).strip()}"


class NotWidenedError(UnknownAssemblyError):
    """The assembly is understood, and says that the kernel must stay as it is."""

    @property
    def reason(self) -> str:
        """Why a kernel stays on fibers."""
        return str(self)


@dataclass
class Instruction:
    """One line of a basic block."""

    text: str
    """What stands after the `=`, without attached metadata that speaks of aliasing."""
    result: str = ""
    """`%name`, empty where nothing is returned."""

    @property
    def words(self) -> list[str]:
        """The first words: markers of a call, then the operation."""
        return self.text.split(None, 2)

    @property
    def operation(self) -> str:
        """The operation, such as `load` or `call`."""
        first = self.words[0]
        return "call" if first in ("tail", "musttail", "notail") else first

    @property
    def operands(self) -> list[str]:
        """Every local name, in order; labels among them."""
        return [name for name in NAME.findall(self.text) if name[0] == "%"]

    @property
    def callee(self) -> str:
        """The called function's `@name`; empty for other operations and for pointers."""
        if self.operation != "call":
            return ""
        found = re.search(r'(@(?:"[^"]*"|[-\w$.]+))\(', self.text)
        return found[1] if found else ""

    @property
    def is_terminator(self) -> bool:
        """Say whether it ends its block."""
        return self.operation in ("br", "ret", "switch", "unreachable")


@dataclass
class Block:
    """A basic block by its label, `%name`."""

    label: str
    instructions: list[Instruction] = field(default_factory=list)


@dataclass
class Function:
    """A function's body."""

    name: str
    parameters: list[str]
    blocks: list[Block]
    attributes: str


@dataclass
class Module:
    """One listing: its lines and what they define."""

    lines: list[str]
    types: Mapping[str, str]
    spans: Mapping[str, tuple[int, int]]
    """First and last line of each function that is defined."""

    @classmethod
    def read(cls, text: str) -> "Module":
        """Split a listing into functions and types."""
        lines = text.split("\n")
        types = {m[1]: m[2] for m in map(_DEFINED_TYPE.match, lines) if m}
        spans: dict[str, tuple[int, int]] = {}
        start, name = 0, ""
        for number, line in enumerate(lines):
            if line.startswith("define "):
                start, name = number, _defined(line)[0]
            elif line == "}" and name:
                spans[name] = (start, number)
                name = ""
        return cls(lines, types, spans)

    def references(self, function: str) -> frozenset[str]:
        """Return the global names that a function's text holds."""
        first, last = self.spans[function]
        text = "\n".join(self.lines[first + 1 : last])
        return frozenset(name for name in NAME.findall(text) if name[0] == "@")

    def reachable(self, names: frozenset[str]) -> frozenset[str]:
        """Return names and all that the defined functions among them refer to."""
        found, pending = set(names), list(names)
        while pending:
            name = pending.pop()
            if name in self.spans:
                more = self.references(name) - found
                found |= more
                pending += more
        return frozenset(found)

    def function(self, name: str) -> Function:
        """Read a function.

        Raises:
            UnknownAssemblyError: its text is not understood.
        """
        first, last = self.spans[name]
        head = self.lines[first]
        opens = _defined(head)[1]
        closes = _matching(head, opens)
        parameters = [n for n in NAME.findall(head[opens:closes]) if n[0] == "%"]
        attributes = "".join(re.findall(r" #\d+", head[closes:])[:1])
        blocks = [Block(f"%{len(parameters)}")]
        for line in _joined(self.lines[first + 1 : last]):
            if label := _LABEL.match(line):
                blocks.append(Block(f"%{label[1]}"))
            elif line.startswith("  "):
                blocks[-1].instructions.append(_instruction(line))
        return Function(name, parameters, [b for b in blocks if b.instructions], attributes)

    def read_type(self, text: str, at: int) -> tuple[str, int]:
        """Return the type that starts at a place, and where it ends.

        Raises:
            UnknownAssemblyError: there is none.
        """
        if found := _SCALAR.match(text, at):
            return found[0], found.end()
        if text[at : at + 1] in _CLOSING:
            end = _matching(text, at) + 1
            return text[at:end], end
        if (found := NAME.match(text, at)) and found[0] in self.types:
            return found[0], found.end()
        raise UnknownAssemblyError(text)

    def result_type(self, instruction: Instruction) -> str:
        """Return the type of an instruction's result.

        Raises:
            UnknownAssemblyError: the operation is not known.
        """
        text, operation = instruction.text, instruction.operation
        if operation in ("getelementptr", "alloca"):
            return "ptr"
        if operation in _CASTS:
            return self.read_type(text, text.rindex(" to ") + 4)[0]
        if operation in _BINARY or operation in ("load", "phi", "insertelement", "insertvalue"):
            return self._first_type(text)
        if operation in ("icmp", "fcmp"):
            compared = self._first_type(text)
            return f"{compared[: compared.index(' x')]} x i1>" if compared[0] == "<" else "i1"
        if operation == "select":
            return self.read_type(text, _comma(text, 0) + 1)[0]
        if operation == "call":
            return self._first_type(re.sub(r"\b[a-z_]+\([^()]*\)", "", text))
        if operation == "atomicrmw":
            return self.read_type(text, _comma(text, 0) + 1)[0]
        if operation == "cmpxchg":
            return f"{{ {self.read_type(text, _comma(text, 0) + 1)[0]}, i1 }}"
        if operation in ("extractelement", "shufflevector", "extractvalue"):
            return self._part_type(operation, text)
        raise UnknownAssemblyError(text)

    def _first_type(self, text: str) -> str:
        """Return the first type that follows the operation and its flags."""
        at = 0
        while at < len(text):
            if text[at] in "<[{%" or _SCALAR.match(text, at):
                return self.read_type(text, at)[0]
            at = text.index(" ", at) + 1
        raise UnknownAssemblyError(text)

    def _part_type(self, operation: str, text: str) -> str:
        whole = self._first_type(text)
        if operation == "extractelement":
            return whole[1:-1].partition(" x ")[2]
        if operation == "shufflevector":
            mask = re.findall(r"<(\d+) x i32>", text)[-1]
            return f"<{mask} x {whole[1:-1].partition(' x ')[2]}>"
        for index in re.findall(r", (\d+)", text[text.rindex(whole) + len(whole) :]):
            whole = self._element(whole, int(index))
        return whole

    def _element(self, whole: str, index: int) -> str:
        whole = self.types.get(whole, whole)
        if whole[0] == "[":
            return whole[1:-1].partition(" x ")[2]
        return list(self._fields(whole))[index]

    def _fields(self, struct: str) -> Iterator[str]:
        inner, at = struct[1:-1].strip(), 0
        while at < len(inner):
            type_, at = self.read_type(inner, at)
            yield type_
            at += len(inner[at:]) - len(inner[at:].lstrip(", "))

    def layout(self, type_: str) -> tuple[int, int]:
        """Return the size of a type in an array, and its alignment.

        Raises:
            UnknownAssemblyError: the type is not known.
        """
        type_ = self.types.get(type_, type_)
        if type_.startswith("i"):
            size = 1 << max(0, (int(type_[1:]) - 1).bit_length() - 3)
            return size, size
        if type_ in _BYTES:
            return _BYTES[type_], _BYTES[type_]
        if type_[:2] == "<{":
            return sum(self.layout(f)[0] for f in self._fields(type_[1:-1])), 1
        if type_[0] == "{":
            return self._struct_layout(type_)
        count, _, element = type_[1:-1].partition(" x ")
        size, alignment = self.layout(element)
        if type_[0] == "[":
            return int(count) * size, alignment
        if element == "i1":
            raise UnknownAssemblyError(type_)
        whole = 1 << (int(count) * size - 1).bit_length()
        return whole, whole

    def _struct_layout(self, type_: str) -> tuple[int, int]:
        at, most = 0, 1
        for size, alignment in map(self.layout, self._fields(type_)):
            at = -(-at // alignment) * alignment + size
            most = max(most, alignment)
        return -(-at // most) * most, most


def _defined(head: str) -> tuple[str, int]:
    """Return the name of the function that a line defines, and where its parameters open.

    What it returns may have attributes with brackets of their own.
    """
    found = _DEFINED_NAME.search(head)
    if found is None:
        raise UnknownAssemblyError(head)
    return found[1], found.end() - 1


def _instruction(line: str) -> Instruction:
    found = _RESULT.match(line)
    text = found[2] if found else line[2:]
    if " !dbg " in text:
        raise UnknownAssemblyError(line)
    kept = "".join(
        m for m in _ATTACHED.findall(text) if not m.startswith((", !alias", ", !noalias"))
    )
    return Instruction(_ATTACHED.sub("", text) + kept, found[1] if found else "")


def _joined(lines: list[str]) -> Iterator[str]:
    """Give each instruction one line; a switch has its cases on several."""
    pending = ""
    for line in lines:
        pending = f"{pending} {line.strip()}" if pending else line
        if pending.startswith("  switch ") and not pending.endswith("]"):
            continue
        yield pending
        pending = ""


def _matching(text: str, at: int) -> int:
    """Return where the bracket at a place closes, outside of quotes."""
    depth, quoted = 0, False
    for place in range(at, len(text)):
        c = text[place]
        quoted ^= c == '"'
        if quoted:
            continue
        depth += (c in "<[{(") - (c in ">]})")
        if depth == 0:
            return place
    raise UnknownAssemblyError(text)


def _comma(text: str, at: int) -> int:
    """Return the place of the first space after a comma outside of brackets."""
    depth = 0
    for place in range(at, len(text)):
        c = text[place]
        depth += (c in "<[{(") - (c in ">]})")
        if c == "," and depth == 0:
            return place + 1
    raise UnknownAssemblyError(text)
