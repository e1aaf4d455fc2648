"""Where a pointer comes from: a buffer, a threadgroup variable or a thread's own variable."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kernelwright.metal.device.simulator.wide.assembly import Function, Instruction, Module

OriginKind = Literal["buffer", "variable", "stack", "attributes"]
_POINTER = re.compile(
    r'\bptr (?:align \d+ |[a-z]+(?:\([^()]*\))? )*((?:%|@)(?:"[^"]*"|[-\w$.]+)|\S+)'
)
PASSED_ON = frozenset(("getelementptr", "phi", "select", "freeze"))
"""Operations whose result points where an operand does."""


@dataclass(frozen=True)
class Origin:
    """What a pointer points into."""

    kind: OriginKind
    name: str
    """The value that is its beginning."""
    number: int = 0
    """Of a buffer: its place among the arguments."""


class Origins:
    """The origins of a function's pointers."""

    def __init__(self, module: Module, function: Function) -> None:
        """Look at a function; its first parameter is the array of arguments."""
        self._module = module
        self._buffers = function.parameters[0] if function.parameters else ""
        self.definitions: Mapping[str, Instruction] = {
            i.result: i for block in function.blocks for i in block.instructions if i.result
        }
        self._first: dict[Origin, str] = {}

    def of(self, pointer: str) -> Origin | None:
        """Return the one thing that a pointer can point into; None where that is not known."""
        found: Origin | None = None
        seen, pending = {pointer}, [pointer]
        while pending:
            name = pending.pop()
            i = self.definitions.get(name)
            if i is None:
                return None
            if i.operation in PASSED_ON:
                more = [p for p in _pointers(i) if p not in seen]
                seen.update(more)
                pending += more
                continue
            root = self._root(name, i)
            if root is None or (found is not None and not _is_same(found, root)):
                return None
            found = found or root
        return found

    def _root(self, name: str, i: Instruction) -> Origin | None:
        if i.operation == "alloca":
            return Origin("stack", name)
        if i.callee == "@kw_current":
            return Origin("attributes", name)
        if i.callee == "@kw_threadgroup_alloc":
            return Origin("variable", name)
        if i.operation == "load" and (place := self._place(_pointers(i)[0])) is not None:
            return Origin("buffer", name, place // 8)
        return None

    def _place(self, pointer: str) -> int | None:
        """Return where in the array of arguments a pointer points."""
        if pointer == self._buffers:
            return 0
        i = self.definitions.get(pointer)
        if i is None or i.operation != "getelementptr":
            return None
        base, step = _pointers(i)[0], self.step(i)
        return step if base == self._buffers else None

    def step(self, i: Instruction) -> int | None:
        """Return how many bytes a getelementptr of one constant index adds."""
        text = re.sub(r"^getelementptr (?:(?:inbounds|nuw|nusw) )*", "", i.text)
        type_, end = self._module.read_type(text, 0)
        index = re.fullmatch(r", ptr [^,]+, i\d+ (-?\d+)", text[end:])
        return int(index[1]) * self._module.layout(type_)[0] if index else None

    def offset(self, pointer: str) -> int | None:
        """Return how far a pointer is from its origin, where that is a constant."""
        sum_, i = 0, self.definitions.get(pointer)
        while i is not None and i.operation == "getelementptr":
            if (step := self.step(i)) is None:
                return None
            sum_ += step
            i = self.definitions.get(_pointers(i)[0])
        return None if i is None or i.operation in PASSED_ON else sum_


def pointer_of(i: Instruction) -> str:
    """Return the address that a load, a store or a call of one argument takes."""
    return _pointers(i)[-1]


def _is_same(one: Origin, other: Origin) -> bool:
    if one.kind == "buffer":
        return other.kind == "buffer" and one.number == other.number
    return one == other


def _pointers(i: Instruction) -> list[str]:
    """Return the pointers that an instruction takes, constants among them."""
    if i.operation == "phi":
        return re.findall(r"\[ (.*?), %", i.text)
    if i.operation == "freeze":
        return [i.text.split()[-1]]
    return [found.rstrip(",)") for found in _POINTER.findall(i.text)]
